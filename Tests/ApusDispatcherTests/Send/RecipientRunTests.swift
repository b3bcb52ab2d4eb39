import ApusAPNs
import ApusCore
import ApusMessages
import ApusProviders
import ApusStore
import ApusWebPush
import Testing

@testable import ApusDispatcher

@Suite struct RecipientRunTests {
    private let now = UnixMilliseconds(1_750_000_000_000)

    private func run(
        _ count: Int,
        attempt: UInt32 = 1,
        expiresAt: UnixMilliseconds? = nil,
        journal: [UInt8] = [],
        isAtMostOnce: Bool = false,
        hasOther: Bool = false,
        isOther: Bool = false,
        waitsForThirdPartyAuth: Bool = false,
        of provider: (Provider, RetryRules) = (.apns, .apns),
        skipping skipped: Set<Int> = [],
    ) -> RecipientRun {
        var table = RecipientTable()
        for index in 0..<count {
            let row = RecipientTable.Row(partition: 3, ordinal: UInt32(index), generation: 1)
            if skipped.contains(index) {
                table.append(row, outcome: .skipped, reason: .notMatching)
            } else {
                table.append(row, token: [UInt8(truncatingIfNeeded: index)])
            }
        }
        let terms = RecipientRun.Terms(
            provider: provider.0,
            retryRules: provider.1,
            attempt: attempt,
            expiresAt: expiresAt,
            firstAttemptAt: nil,
            listsRecipients: false,
            isAtMostOnce: isAtMostOnce,
            hasOtherEnvironment: hasOther,
            isOtherEnvironment: isOther,
            waitsForThirdPartyAuth: waitsForThirdPartyAuth,
        )
        return RecipientRun(terms: terms, table: table, journal: journal, now: self.now)
    }

    private func detail(_ reason: String = "", status: Int = 0) -> RecipientRun.Detail {
        RecipientRun.Detail(reason: reason, status: status, startedAt: self.now)
    }

    @discardableResult
    private func answer(
        _ run: inout RecipientRun,
        _ index: Int,
        _ outcome: DeliveryOutcome,
        status: Int = 0,
    ) -> RecipientRun.Consequence {
        run.answered(index, outcome, detail: self.detail("Word", status: status), now: self.now, draw: 0.5)
    }

    private func counts(_ taken: RecipientRun.Taken) -> [String] {
        taken.report.counts(provider: .apns).map { "\($0.outcome.name) \($0.reason.name) \($0.count)" }
    }

    @Test func `Every recipient is sent to once and the run ends with all bits set`() {
        var run = self.run(3)
        #expect([run.takeNext(), run.takeNext(), run.takeNext(), run.takeNext()] == [0, 1, 2, nil])
        #expect(run.isFinished == false)
        for index in [2, 0, 1] { run.accepted(index, now: self.now) }
        #expect(run.isFinished == true)
        let taken = run.takeReport(now: self.now)
        #expect(taken.bitmap == [0b111])
        let counts = taken.report.counts(provider: .apns)
        #expect(counts == [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 3)])
        #expect(run.takeReport(now: self.now).report.count == 0)
    }

    @Test func `Recipients in the journal are not sent to again, and skipped ones are closed only once`() {
        var run = self.run(4, journal: [0b0101], skipping: [1, 2])
        #expect(run.takeNext() == 3)
        #expect(run.takeNext() == nil)
        run.accepted(3, now: self.now)
        let report = run.takeReport(now: self.now).report
        #expect(report.counts(provider: .apns).map(\.count) == [1, 1])
        #expect(run.isFinished == true)
    }

    @Test func `D20 a dead token without a time is dead since the request began`() {
        var run = self.run(3)
        while run.takeNext() != nil {}
        let began = self.now.advanced(byMilliseconds: -5_000)
        let detail = RecipientRun.Detail(reason: "Unregistered", status: 410, startedAt: began)
        let times = [nil, began.advanced(byMilliseconds: -1), self.now.advanced(byMilliseconds: 86_400_000 * 365)]
        for (index, asOf) in times.enumerated() {
            _ = run.answered(index, .unregistered(.unregistered, asOf: asOf), detail: detail, now: self.now, draw: 0.5)
        }
        let verdicts = run.takeReport(now: self.now).report.unregistered
        // A time that cannot be is none.
        #expect(verdicts.map(\.asOf) == [began, began.advanced(byMilliseconds: -1), began])
    }

    @Test func `A request that was refused unprocessed goes out again at once and counts as no attempt`() {
        var run = self.run(1)
        #expect(run.takeNext() == 0)
        let refused = DeliveryOutcome.deferred(Deferral(.connection, isFree: true))
        #expect(self.answer(&run, 0, refused) == .sendAgain)
        #expect(run.hasNext && !run.isFinished)
        #expect(run.takeNext() == 0)
        run.accepted(0, now: self.now)
        #expect(run.isFinished == true)
    }

    @Test(arguments: [Misconfiguration.route, .credential])
    func `D7 D12 D14 D60 A recipient that meets a configuration fault waits in the unit, without an attempt`(
        fault: Misconfiguration
    ) {
        var run = self.run(3)
        while run.takeNext() != nil {}
        #expect(self.answer(&run, 0, .misconfigured(fault), status: 403) == .sendAgain)
        run.accepted(1, now: self.now)
        #expect(run.hasNext && !run.isFinished)
        // Stopped, as when the process ends: it stays open for whoever takes the unit next.
        run.stop()
        #expect(self.answer(&run, 2, .misconfigured(fault), status: 403) == .sendAgain)
        #expect(run.isFinished && !run.hasNext)
        let taken = run.takeReport(now: self.now)
        #expect(taken.bitmap == [0b010] && taken.retries.isEmpty && self.counts(taken) == ["accepted none 1"])
        #expect(taken.report.unregistered.isEmpty && taken.report.suspects.isEmpty)
    }

    @Test func `D7 A recipient that meets a fault of the route after the send's cancellation is cancelled`() {
        var run = self.run(2)
        while run.takeNext() != nil {}
        #expect(self.answer(&run, 0, .misconfigured(.route), status: 400) == .sendAgain)
        run.closeRest(.cancelled, .cancelled, now: self.now)
        #expect(self.answer(&run, 1, .misconfigured(.route), status: 400) == .settled)
        #expect(run.isFinished == true)
        #expect(self.counts(run.takeReport(now: self.now)) == ["cancelled cancelled 2"])
    }

    @Test
    func `D57 Recipients that need a failing third-party authentication wait in a unit of their own; the others go on`()
    {
        var run = self.run(4)
        while run.takeNext() != nil {}
        run.accepted(0, now: self.now)
        for index in 1...2 {
            #expect(self.answer(&run, index, .misconfigured(.thirdPartyAuth), status: 401) == .settled)
        }
        self.answer(&run, 3, .deferred(Deferral(.providerUnavailable)), status: 503)
        let taken = run.takeReport(now: self.now)
        #expect(taken.thirdPartyAuth.map(\.indices) == [[1, 2]] && taken.retries.map(\.indices) == [[3]])
        #expect(taken.bitmap == [0b1111] && run.isFinished && self.counts(taken) == ["accepted none 1"])
        let wait = taken.thirdPartyAuth.map { $0.due.milliseconds(since: self.now) }
        #expect(wait.allSatisfy { (30_000...61_000).contains($0) })
    }

    @Test func `D57 One recipient probes the third-party authentication for all, until the message expires`() {
        var run = self.run(100, attempt: 5, waitsForThirdPartyAuth: true)
        let asking = run.takeNext()
        #expect(asking == 0 && run.takeNext() == nil && !run.hasNext)
        self.answer(&run, 0, .misconfigured(.thirdPartyAuth), status: 401)
        #expect(run.isFinished && !run.hasNext)
        let taken = run.takeReport(now: self.now)
        #expect(taken.thirdPartyAuth.map(\.indices.count) == [100] && taken.report.count == 0)

        var restored = self.run(100, attempt: 5, waitsForThirdPartyAuth: true)
        #expect(restored.takeNext() == 0)
        restored.accepted(0, now: self.now)
        while let index = restored.takeNext() { restored.accepted(index, now: self.now) }
        #expect(restored.isFinished && self.counts(restored.takeReport(now: self.now)) == ["accepted none 100"])

        var late = self.run(
            3,
            attempt: 5,
            expiresAt: self.now.advanced(byMilliseconds: 1_000),
            waitsForThirdPartyAuth: true
        )
        #expect(late.takeNext() == 0)
        self.answer(&late, 0, .misconfigured(.thirdPartyAuth), status: 401)
        #expect(self.counts(late.takeReport(now: self.now)) == ["expired ttl 3"])
    }

    @Test func `D7 Recipients of a refused subroute wait together, and that is no attempt`() {
        var run = self.run(5, attempt: 2)
        let first = run.takeNext()
        #expect(first == 0 && run.takeNext() == 1)
        #expect(self.answer(&run, 0, .misconfigured(.subroute), status: 400) == .sendAgain)
        run.waitForSubroute(milliseconds: 60_000, now: self.now, draw: 0.5)
        #expect(!run.hasNext && !run.isFinished)
        // Requests that were on the wire may have another answer.
        run.accepted(1, now: self.now)
        #expect(run.isFinished == true)
        let taken = run.takeReport(now: self.now)
        #expect(taken.subroute.map(\.indices) == [[0, 2, 3, 4]] && taken.retries.isEmpty)
        let wait = taken.subroute.map { $0.due.milliseconds(since: self.now) }
        #expect(wait.allSatisfy { (60_000...67_000).contains($0) })
        #expect(taken.bitmap == [0b11111] && self.counts(taken) == ["accepted none 1"])

        var late = self.run(3, expiresAt: self.now.advanced(byMilliseconds: 1_000))
        late.waitForSubroute(milliseconds: 60_000, now: self.now, draw: 0.5)
        #expect(late.isFinished && self.counts(late.takeReport(now: self.now)) == ["expired ttl 3"])
    }

    @Test func `D7 One recipient asks for a refused subroute at a time, until the provider accepts it`() {
        var run = self.run(3)
        run.isAskingSubroute = true
        #expect(run.takeNext() == 0 && run.takeNext() == nil && !run.hasNext)
        // An answer about the token alone does not show whether the subroute is accepted.
        self.answer(&run, 0, .suspect(.badToken), status: 400)
        #expect(run.hasNext && run.takeNext() == 1 && run.takeNext() == nil)
        run.accepted(1, now: self.now)
        run.isAskingSubroute = false
        #expect(run.takeNext() == 2)
    }

    @Test(arguments: [Misconfiguration.unclear, .forbidden])
    func
        `D15 D44 D47 A forbidden request, or one whose fault may be this message's alone, is refused and never retried`(
            fault: Misconfiguration
        )
    {
        var run = self.run(1)
        while run.takeNext() != nil {}
        #expect(self.answer(&run, 0, .misconfigured(fault), status: 403) == .settled)
        let taken = run.takeReport(now: self.now)
        #expect(run.isFinished && !run.hasNext && taken.retries.isEmpty)
        #expect(self.counts(taken) == ["rejected credentials 1"])
        #expect(taken.report.unregistered.isEmpty && taken.report.suspects.isEmpty)
    }

    @Test func `Retries are held back and grouped by their second`() {
        var run = self.run(3)
        while run.takeNext() != nil {}
        for index in 0..<2 {
            self.answer(&run, index, .deferred(Deferral(.rateLimited, scope: .device, retryAfterMilliseconds: 20_000)))
        }
        let early = run.takeReport(now: self.now)
        #expect(early.retries.isEmpty && early.bitmap == [0])
        let later = run.takeReport(now: self.now.advanced(byMilliseconds: 1_000))
        #expect(later.retries.map(\.indices) == [[0, 1]])
        #expect(later.retries.allSatisfy { $0.due >= self.now.advanced(byMilliseconds: 20_000) })
        #expect(later.bitmap == [0b011])
        run.accepted(2, now: self.now)
        #expect(run.isFinished == true)
    }

    @Test func `Many retries over minutes make few units, and no recipient is tried early`() throws {
        var run = self.run(500, attempt: 4)
        while run.takeNext() != nil {}
        // Answers over a second, each with its own Retry-After of a minute or two.
        for index in 0..<500 {
            let wait = Int64(60_000 + index * 120)
            self.answer(
                &run,
                index,
                .deferred(Deferral(.rateLimited, scope: .device, retryAfterMilliseconds: wait))
            )
        }
        let due = run.deferred.map(\.due)
        let retries = run.takeReport(now: self.now).retries
        #expect((1...5).contains(retries.count))
        #expect(retries.map(\.indices).joined().sorted() == Array(0..<500))
        for retry in retries {
            for index in retry.indices {
                #expect(retry.due >= due[index])
                let wait = due[index].milliseconds(since: self.now)
                #expect(retry.due.milliseconds(since: due[index]) <= wait / 2 + 1_000)
            }
        }
    }

    @Test func `A request that returns unprocessed after a cancellation is cancelled, not sent`() {
        var run = self.run(3)
        #expect(run.takeNext() == 0 && run.takeNext() == 1)
        run.closeRest(.cancelled, .cancelled, now: self.now)
        #expect(self.answer(&run, 1, .deferred(Deferral(.connection, isFree: true))) == .settled)
        run.accepted(0, now: self.now)
        #expect(run.isFinished && run.takeNext() == nil)
        #expect(self.counts(run.takeReport(now: self.now)) == ["accepted none 1", "cancelled cancelled 2"])
    }

    @Test func `A retry past the expiry ends as expired, one past the attempts as failed`() {
        var run = self.run(2, attempt: 1, expiresAt: self.now.advanced(byMilliseconds: 5_000))
        while run.takeNext() != nil {}
        self.answer(&run, 0, .deferred(Deferral(.providerUnavailable, retryAfterMilliseconds: 5_000)))
        #expect(run.takeReport(now: self.now).report.counts(provider: .apns).map(\.outcome) == [.expired])
        var last = self.run(1, attempt: 16)
        _ = last.takeNext()
        self.answer(&last, 0, .lost(.timeout))
        let counts = last.takeReport(now: self.now).report.counts(provider: .apns)
        #expect(counts == [OutcomeCount(provider: .apns, outcome: .failed, reason: .timeout, count: 1)])
    }

    @Test
    func `D104 A browser whose service asks for an hour is tried again after it, unless the message expires before`() {
        let hour: Int64 = 3_600_000
        let answer = DeliveryOutcome.deferred(Deferral(.rateLimited, scope: .device, retryAfterMilliseconds: hour))
        for expiry in [nil, hour + 1_800_000, hour - 1] as [Int64?] {
            let expiresAt = expiry.map { self.now.advanced(byMilliseconds: $0) }
            var run = self.run(1, expiresAt: expiresAt, of: (.webpush, .webpush))
            _ = run.takeNext()
            self.answer(&run, 0, answer, status: 429)
            let taken = run.takeReport(now: self.now)
            if expiry == hour - 1 {
                #expect(taken.report.counts(provider: .webpush).map(\.outcome) == [.expired] && taken.retries.isEmpty)
            } else {
                #expect(taken.report.counts(provider: .webpush).isEmpty && taken.retries.count == 1)
                let wait = taken.retries.first?.due.milliseconds(since: self.now) ?? 0
                #expect(wait >= hour && wait <= hour + 1_800_000, "\(wait)")
            }
        }
    }

    @Test func `Verdicts about tokens carry the token's digest and the provider's time, else the request's`() {
        var run = self.run(5)
        while run.takeNext() != nil {}
        let then = UnixMilliseconds(1_700_000_000_000)
        self.answer(&run, 0, .unregistered(.unregistered, asOf: then))
        self.answer(&run, 1, .unregistered(.unregistered, asOf: nil))
        self.answer(&run, 2, .suspect(.badToken))
        // A clock that is a little ahead of ours, and nanoseconds where milliseconds should be.
        self.answer(&run, 3, .unregistered(.unregistered, asOf: self.now.advanced(byMilliseconds: 2_000)))
        self.answer(&run, 4, .unregistered(.unregistered, asOf: UnixMilliseconds(1_750_000_000_000_000_000)))
        let report = run.takeReport(now: self.now).report
        #expect(report.unregistered.map(\.asOf) == [then, self.now, self.now, self.now])
        #expect(report.unregistered.map(\.tokenDigest) == [0, 1, 3, 4].map { DeviceToken.digest([$0]) })
        #expect(report.unregistered.allSatisfy { $0.providerReason == "Word" })
        #expect(report.suspects.map(\.tokenDigest) == [DeviceToken.digest([2])])
        #expect(report.counts(provider: .apns).map { [$0.outcome, .open] }.count == 2)
    }

    @Test func `D110 A refusal that may mean the token is reported, and so is the first acceptance after one`() {
        var run = self.run(4)
        run.table.rows[2].wasRefused = true
        while run.takeNext() != nil {}
        #expect(run.isOrdinary(1) && !run.isOrdinary(2))
        let unclear = RecipientRun.Detail(reason: "Word", status: 400, startedAt: self.now, wantsTokenProbe: true)
        _ = run.answered(0, .rejected(.payload), detail: unclear, now: self.now, draw: 0)
        self.answer(&run, 1, .rejected(.payload), status: 413)
        self.answer(&run, 2, .accepted, status: 201)
        run.accepted(3, now: self.now)
        let taken = run.takeReport(now: self.now)
        #expect(run.isFinished && taken.report.suspects.isEmpty)
        #expect(taken.report.refusals.map(\.tokenDigest) == [0, 2].map { DeviceToken.digest([$0]) })
        #expect(taken.report.refusals.map(\.reason) == [.payload, .none])
        #expect(self.counts(taken) == ["accepted none 2", "rejected payload 2"])
    }

    @Test func `D5 A bad token is tried once in the app's other environment, and is no suspect before that`() {
        var run = self.run(4, hasOther: true)
        while run.takeNext() != nil {}
        self.answer(&run, 0, .suspect(.badToken), status: 400)
        self.answer(&run, 1, .suspect(.wrongTopic), status: 400)
        self.answer(&run, 2, .suspect(.badToken), status: 400)
        run.accepted(3, now: self.now)
        #expect(run.isFinished == true)
        let taken = run.takeReport(now: self.now)
        #expect(taken.elsewhere == [0, 2] && taken.retries.isEmpty && taken.bitmap == [0b1111])
        #expect(taken.report.suspects.map(\.reason) == [.wrongTopic])
        #expect(self.counts(taken) == ["accepted none 1", "rejected wrong_topic 1"])
    }

    @Test func `D5 A token that the other environment accepts is accepted and reported, another is a suspect`() {
        var run = self.run(3, attempt: 2, isOther: true)
        while run.takeNext() != nil {}
        self.answer(&run, 0, .accepted, status: 200)
        self.answer(&run, 1, .suspect(.badToken), status: 400)
        self.answer(&run, 2, .unregistered(.unregistered, asOf: self.now), status: 410)
        let taken = run.takeReport(now: self.now)
        #expect(run.isFinished && taken.elsewhere.isEmpty)
        #expect(taken.report.suspects.map(\.reason) == [.wrongEnvironment, .badToken])
        #expect(taken.report.unregistered.count == 1)
        #expect(self.counts(taken) == ["accepted none 1", "unregistered unregistered 1", "rejected bad_token 1"])
    }

    @Test(arguments: [true, false])
    func `D5 A suspect of the other environment is sent to there directly, if there is one`(hasOther: Bool) {
        var table = RecipientTable()
        for index in 0..<2 {
            var row = RecipientTable.Row(partition: 3, ordinal: UInt32(index), generation: 1)
            if index == 0 { (row.verdict, row.verdictReason) = (.skipped, .wrongEnvironment) }
            table.append(row, token: [1])
        }
        var terms = self.run(0).terms
        terms.hasOtherEnvironment = hasOther
        var run = RecipientRun(terms: terms, table: table, now: self.now)
        #expect(run.takeNext() == 1)
        #expect(run.takeNext() == nil)
        run.accepted(1, now: self.now)
        #expect(run.isFinished == true)
        let taken = run.takeReport(now: self.now)
        #expect(taken.elsewhere == (hasOther ? [0] : []) && taken.bitmap == [0b11])
        #expect(taken.report.count == (hasOther ? 1 : 2))
    }

    @Test func `Closing the rest leaves requests on the wire to their answers`() {
        var run = self.run(4)
        #expect(run.takeNext() == 0)
        #expect(run.takeNext() == 1)
        run.putBack(1)
        run.closeRest(.cancelled, .cancelled, now: self.now)
        #expect(run.isFinished == false)
        run.accepted(0, now: self.now)
        #expect(run.isFinished == true)
        let counts = run.takeReport(now: self.now).report.counts(provider: .apns)
        #expect(counts.map(\.outcome) == [.accepted, .cancelled] && counts.map(\.count) == [1, 3])
    }

    @Test func `A stopped run ends after its last answer and leaves the rest open`() {
        var run = self.run(3)
        _ = run.takeNext()
        run.stop()
        #expect(run.takeNext() == nil && !run.isFinished)
        run.accepted(0, now: self.now)
        #expect(run.isFinished && !run.done.isComplete)
    }

    // MARK: At most once

    @Test func `No recipient is sent to before its mark is durable`() {
        var run = self.run(3, isAtMostOnce: true)
        #expect(run.takeNext() == nil && !run.hasNext && !run.isFinished)
        #expect(run.isDue(now: self.now) == true)
        let marking = run.takeReport(now: self.now)
        #expect(marking.changesMarks && marking.bitmap == [0b000, 0b111])
        // Given to be written is not written.
        #expect(run.takeNext() == nil && !run.isDue(now: self.now))
        run.reportWritten()
        #expect([run.takeNext(), run.takeNext(), run.takeNext(), run.takeNext()] == [0, 1, 2, nil])
        for index in 0..<3 { run.accepted(index, now: self.now) }
        let last = run.takeReport(now: self.now)
        #expect(self.counts(last) == ["accepted none 3"] && last.bitmap == [0b111] && run.isFinished)
    }

    @Test func `Marks move on with the answers, and never more than the window is marked and open`() {
        let most = AtMostOnceWindow.openMax
        var run = self.run(most + 100, isAtMostOnce: true)
        _ = run.takeReport(now: self.now)
        run.reportWritten()
        var taken: [Int] = []
        while let index = run.takeNext() { taken.append(index) }
        #expect(taken == Array(0..<most))
        #expect(run.isDue(now: self.now) == false)
        for index in 0..<40 { run.accepted(index, now: self.now) }
        #expect(run.takeReport(now: self.now).changesMarks)
        // The next rows are marked while the others are still on the wire, and wait for this report only.
        #expect(run.takeNext() == nil)
        run.reportWritten()
        taken = []
        while let index = run.takeNext() { taken.append(index) }
        #expect(taken == Array(most..<most + 40))
    }

    @Test func `Recipients that were marked and not done when the owner died fail as unknown, and the rest is sent to`()
    {
        let most = AtMostOnceWindow.openMax
        var first = self.run(most + 5, isAtMostOnce: true, skipping: [1])
        _ = first.takeReport(now: self.now)
        first.reportWritten()
        while first.takeNext() != nil {}
        first.accepted(3, now: self.now)
        // This one moves the marks by one, and is the last that becomes durable.
        let journal = first.takeReport(now: self.now).bitmap

        var second = self.run(most + 5, journal: journal, isAtMostOnce: true, skipping: [1])
        _ = second.takeNext()
        // All that were marked but the one skipped and the one accepted, both in the journal.
        #expect(self.counts(second.takeReport(now: self.now)) == ["failed unknown \(most)"])
        second.reportWritten()
        var sent: [Int] = []
        while let index = second.takeNext() { sent.append(index) }
        #expect(sent == [most + 2, most + 3, most + 4])
    }

    @Test func `Marks mean nothing to a send that may repeat, and no journal means no marks`() {
        var repeating = self.run(5, journal: [0b01010, 0b11111])
        #expect([repeating.takeNext(), repeating.takeNext(), repeating.takeNext()] == [0, 2, 4])
        var fresh = self.run(2, journal: [0b01], isAtMostOnce: true)
        #expect(self.counts(fresh.takeReport(now: self.now)).isEmpty)
        fresh.reportWritten()
        #expect([fresh.takeNext(), fresh.takeNext()] == [1, nil])
    }

    @Test func `A run that is stopped in good order removes the marks of recipients it did not send to`() {
        var run = self.run(4, isAtMostOnce: true)
        _ = run.takeReport(now: self.now)
        run.reportWritten()
        #expect(run.takeNext() == 0)
        #expect(run.takeNext() == 1)
        run.putBack(1)
        run.stop()
        // As long as one is on the wire all marks stand.
        #expect(run.takeReport(now: self.now).bitmap == [0b0000, 0b1111])
        run.accepted(0, now: self.now)
        let last = run.takeReport(now: self.now)
        #expect(run.isFinished && last.changesMarks && last.bitmap == [0b0001])
        var next = self.run(4, journal: last.bitmap, isAtMostOnce: true)
        _ = next.takeReport(now: self.now)
        next.reportWritten()
        #expect([next.takeNext(), next.takeNext(), next.takeNext(), next.takeNext()] == [1, 2, 3, nil])
    }

    @Test(
        arguments: [
            (.lost(.timeout), 0, "failed timeout 1"),
            (.lost(.connection), 0, "failed connection 1"),
            (.deferred(Deferral(.providerUnavailable)), 500, "failed provider_unavailable 1"),
            (.deferred(Deferral(.providerUnavailable, scope: .route)), 502, "failed provider_unavailable 1"),
            (.deferred(Deferral(.providerUnavailable, scope: .route)), 503, nil),
            (.deferred(Deferral(.rateLimited, scope: .device)), 429, nil),
            (.misconfigured(.staleCredential), 403, nil),
        ] as [(DeliveryOutcome, Int, String?)]
    )
    func `D29 At most once: only a request that the provider surely did not accept is retried`(
        outcome: DeliveryOutcome,
        status: Int,
        failed: String?,
    ) {
        var run = self.run(1, isAtMostOnce: true)
        _ = run.takeReport(now: self.now)
        run.reportWritten()
        #expect(run.takeNext() == 0)
        self.answer(&run, 0, outcome, status: status)
        let taken = run.takeReport(now: self.now)
        #expect(self.counts(taken) == (failed.map { [$0] } ?? []))
        #expect(taken.retries.map(\.indices) == (failed == nil ? [[0]] : []) && taken.bitmap == [1])
    }

    @Test(arguments: [false, true])
    func `D29 What was put off without a request is sent later, and uses up no attempts`(isAtMostOnce: Bool) {
        for attempt in [1, RecipientRun.unsentAttemptsMax, 15, 16, 40] as [UInt32] {
            var run = self.run(1, attempt: attempt, isAtMostOnce: isAtMostOnce)
            _ = run.takeReport(now: self.now)
            run.reportWritten()
            #expect(run.takeNext() == 0)
            var detail = self.detail()
            detail.wasSent = false
            let putOff = DeliveryOutcome.deferred(Deferral(.connection, scope: .device))
            _ = run.answered(0, putOff, detail: detail, now: self.now, draw: 0.5)
            let taken = run.takeReport(now: self.now)
            #expect(taken.unsent.map(\.indices) == [[0]] && taken.retries.isEmpty && self.counts(taken).isEmpty)
            #expect(taken.bitmap == [1] && run.isFinished)
        }
    }

    @Test(arguments: [false, true])
    func `D29 A request that may have been accepted is repeated in a send that may repeat, and else fails`(
        isAtMostOnce: Bool
    ) {
        for (loss, reason) in [(Loss.timeout, "timeout"), (.connection, "connection")] {
            var run = self.run(1, isAtMostOnce: isAtMostOnce)
            _ = run.takeReport(now: self.now)
            run.reportWritten()
            #expect(run.takeNext() == 0)
            self.answer(&run, 0, .lost(loss))
            let taken = run.takeReport(now: self.now)
            #expect(taken.retries.map(\.indices) == (isAtMostOnce ? [] : [[0]]))
            #expect(self.counts(taken) == (isAtMostOnce ? ["failed \(reason) 1"] : []))
            #expect(taken.bitmap == [1] && run.isFinished)
        }
    }

    @Test func `A request that was refused unprocessed goes out again under the same mark`() {
        var run = self.run(1, isAtMostOnce: true)
        _ = run.takeReport(now: self.now)
        run.reportWritten()
        #expect(run.takeNext() == 0)
        let refused = DeliveryOutcome.deferred(Deferral(.connection, isFree: true))
        #expect(self.answer(&run, 0, refused) == .sendAgain)
        #expect(run.takeNext() == 0)
        run.accepted(0, now: self.now)
        #expect(run.isFinished == true)
    }

    @Test func `A cancelled run closes recipients that it marked and did not send to`() {
        var run = self.run(AtMostOnceWindow.openMax + 10, isAtMostOnce: true)
        _ = run.takeReport(now: self.now)
        run.reportWritten()
        #expect(run.takeNext() == 0)
        run.closeRest(.cancelled, .cancelled, now: self.now)
        #expect(run.isFinished == false)
        run.accepted(0, now: self.now)
        #expect(run.isFinished && run.done.isComplete)
    }
}

@Suite struct DoneBitmapTests {
    @Test func `A journal is read as it was written`() {
        var bitmap = DoneBitmap(count: 70)
        for index in [0, 7, 8, 63, 64, 69] { bitmap.set(index) }
        #expect(bitmap.journal.count == 9)
        #expect(DoneBitmap(count: 70, journal: bitmap.journal) == bitmap)
        #expect(bitmap.setCount == 6 && bitmap[69] && !bitmap[68])
    }

    @Test func `A journal that is too long or too short does no harm`() {
        #expect(DoneBitmap(count: 3, journal: [0xff, 0xff]).setCount == 3)
        #expect(DoneBitmap(count: 20, journal: [0b1]).setCount == 1)
        #expect(DoneBitmap(count: 0).isComplete)
    }

    @Test func `A bit outside traps`() async {
        await #expect(processExitsWith: .failure) { _ = DoneBitmap(count: 1)[1] }
    }
}
