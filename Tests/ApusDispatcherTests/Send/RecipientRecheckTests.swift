import ApusAPNs
import ApusCore
import ApusMessages
import Testing

@testable import ApusDispatcher

@Suite struct RecipientRecheckTests {
    private let now = UnixMilliseconds(1_750_000_000_000)
    private static let second: UInt64 = 1_000_000_000

    private static func row(_ index: Int, generation: UInt32 = 1) -> RecipientTable.Row {
        RecipientTable.Row(
            partition: 3,
            ordinal: UInt32(index),
            generation: generation,
        )
    }

    /// A run over devices that were read at second 10, and may be sent to for two.
    private func run(
        _ count: Int,
        hasOther: Bool = false,
        ofAddresses: Bool = false,
        canProbe: Bool = false,
        expiresAt: UnixMilliseconds? = nil,
    ) -> RecipientRun {
        var table = RecipientTable()
        for index in 0..<count {
            var row = Self.row(index)
            if ofAddresses { row.partition = RecipientTable.addressPartition }
            table.append(row, token: [UInt8(index)])
        }
        var terms = RecipientRun.Terms(
            provider: .apns,
            retryRules: .apns,
            attempt: 1,
            expiresAt: expiresAt,
            firstAttemptAt: nil,
            listsRecipients: false,
            hasOtherEnvironment: hasOther,
        )
        terms.canProbe = canProbe
        let freshness = RecipientFreshness(validFor: 2 * Self.second, readAt: 10 * Self.second, count: count)
        return RecipientRun(terms: terms, table: table, freshness: freshness, now: self.now)
    }

    @Test func `A recipient that waits for room may be sent to as long as its record was read lately`() {
        var run = self.run(2)
        #expect(run.validUntil == 12 * Self.second)
        #expect(run.takeNext(now: 11 * Self.second) == 0)
        #expect(
            run.answered(
                0,
                .deferred(Deferral(.connection, isFree: true)),
                detail: RecipientRun.Detail(startedAt: self.now),
                now: self.now,
                draw: 0,
            ) == .sendAgain
        )
        #expect(run.takeNext(now: 12 * Self.second) == nil && self.isStale(run, at: 12))
        let indices = run.beginRecheck(countMax: 10)
        self.finish(&run, indices, ended: [0: .notMatching], at: 12)
        #expect(run.validUntil == 14 * Self.second)
        #expect(run.takeNext(now: 13 * Self.second) == 1 && run.takeNext(now: 13 * Self.second) == nil)
        #expect(self.run(1, ofAddresses: true).validUntil == .max)
    }

    private func isStale(_ run: borrowing RecipientRun, at second: UInt64) -> Bool {
        run.isStale(now: second * Self.second)
    }

    /// Returns the result of reading these rows, with their old tokens, except for those whose end is given.
    private func found(_ indices: [Int], ended: [Int: Reason] = [:], moved: [Int: UInt8] = [:]) -> RecipientTable {
        var table = RecipientTable()
        for index in indices {
            if let reason = ended[index] {
                table.append(Self.row(index, generation: 0), outcome: .skipped, reason: reason)
            } else {
                table.append(Self.row(index), token: [moved[index] ?? UInt8(index)])
            }
        }
        return table
    }

    private func finish(
        _ run: inout RecipientRun,
        _ indices: [Int],
        ended: [Int: Reason] = [:],
        moved: [Int: UInt8] = [:],
        at second: UInt64,
    ) {
        let rows = self.found(indices, ended: ended, moved: moved)
        run.finishRecheck(rows, of: indices, readAt: second * Self.second, now: self.now)
    }

    private func counts(_ run: inout RecipientRun) -> [String] {
        run.takeReport(now: self.now).report.counts(provider: .apns)
            .map { "\($0.outcome.name) \($0.reason.name) \($0.count)" }.sorted()
    }

    @Test func `Recipients that were read recently are not read again`() {
        let run = self.run(3)
        #expect(self.isStale(run, at: 10) == false)
        #expect(self.isStale(run, at: 11) == false)
        #expect(self.isStale(run, at: 12) == true)
    }

    @Test func `Addresses of the command are never read again`() {
        #expect(self.isStale(self.run(3, ofAddresses: true), at: 1_000) == false)
    }

    @Test func `Addresses of a send with an expiry wait for another rendering, and none of them is read`() {
        var run = self.run(3, ofAddresses: true, expiresAt: self.now.advanced(byMilliseconds: 60_000))
        #expect(run.validUntil == 12 * Self.second)
        #expect(run.takeNext(now: 11 * Self.second) == 0)
        #expect(run.takeNext(now: 12 * Self.second) == nil && self.isStale(run, at: 12))
        let indices = run.beginRecheck(countMax: 500)
        #expect(indices == [1, 2])
        // It comes back while they wait, and joins the next look.
        self.comeBack(&run, 0)
        run.finishRecheck(nil, of: indices, readAt: 13 * Self.second, now: self.now)
        #expect(run.isBeingRechecked == false)
        #expect(self.isStale(run, at: 13) == true)
        let again = run.beginRecheck(countMax: 500)
        #expect(again == [0, 1, 2])
        run.finishRecheck(nil, of: again, readAt: 14 * Self.second, now: self.now)
        #expect(run.validUntil == 16 * Self.second)
        let now = 15 * Self.second
        #expect([run.takeNext(now: now), run.takeNext(now: now), run.takeNext(now: now)] == [0, 1, 2])
        for index in 0..<3 { run.accepted(index, now: self.now) }
        #expect(run.isFinished == true)
        #expect(self.counts(&run) == ["accepted none 3"])
    }

    @Test func `D7 Recipients of a refused subroute that are being read again wait after that, and each counts once`() {
        var run = self.run(3)
        #expect(run.takeNext() == 0)
        let indices = run.beginRecheck(countMax: 500)
        run.waitForSubroute(milliseconds: 60_000, now: self.now, draw: 0)
        self.finish(&run, indices, ended: [1: .deviceGone], at: 20)
        run.waitForSubroute(milliseconds: 60_000, now: self.now, draw: 0)
        run.accepted(0, now: self.now)
        #expect(run.isFinished == true)
        let taken = run.takeReport(now: self.now)
        #expect(taken.subroute.map(\.indices) == [[2]])
        let counts = taken.report.counts(provider: .apns).map { "\($0.outcome.name) \($0.reason.name) \($0.count)" }
        #expect(counts.sorted() == ["accepted none 1", "skipped device_gone 1"])
    }

    @Test
    func `A recipient that is gone or does not match any more is skipped, and one with a new token is sent to by it`() {
        var run = self.run(4)
        #expect(run.takeNext() == 0)
        let indices = run.beginRecheck(countMax: 500)
        #expect(indices == [1, 2, 3])
        #expect(run.isBeingRechecked == true)
        self.finish(&run, indices, ended: [1: .deviceGone, 2: .notMatching], moved: [3: 99], at: 20)
        #expect(run.isBeingRechecked == false)
        #expect(self.isStale(run, at: 21) == false)
        #expect(run.takeNext() == 3)
        #expect(run.takeNext() == nil)
        #expect(Array(run.table.token(3)) == [99])
        #expect(Array(run.table.token(0)) == [0])
        run.accepted(0, now: self.now)
        run.accepted(3, now: self.now)
        #expect(run.isFinished == true)
        #expect(self.counts(&run) == ["accepted none 2", "skipped device_gone 1", "skipped not_matching 1"])
    }

    @Test func `The outcome names the generation that the send was for`() {
        var run = self.run(1)
        let indices = run.beginRecheck(countMax: 1)
        self.finish(&run, indices, ended: [0: .deviceGone], at: 20)
        #expect(run.table.rows[0].generation == 1)
        #expect(run.isFinished == true)
    }

    @Test func `A slow send reads as many recipients as it may send to; the others stay stale`() {
        var run = self.run(5)
        let indices = run.beginRecheck(countMax: 2)
        #expect(indices == [0, 1])
        self.finish(&run, indices, at: 20)
        #expect([run.takeNext(), run.takeNext()] == [0, 1])
        #expect(self.isStale(run, at: 20) == true)
        #expect(run.beginRecheck(countMax: 2) == [2, 3])
    }

    @Test func `A recipient that returns unsent after others were read again is read again too`() {
        var run = self.run(3)
        #expect(run.takeNext() == 0)
        let indices = run.beginRecheck(countMax: 500)
        self.finish(&run, indices, at: 20)
        #expect(self.isStale(run, at: 20) == false)
        self.comeBack(&run, 0)
        #expect(self.isStale(run, at: 20) == true)
        #expect(run.beginRecheck(countMax: 1) == [0, 1])
    }

    @Test func `A recipient that returns unsent while others are being read is read after them`() {
        var run = self.run(3)
        #expect(run.takeNext() == 0)
        let indices = run.beginRecheck(countMax: 500)
        self.comeBack(&run, 0)
        self.finish(&run, indices, at: 20)
        #expect(self.isStale(run, at: 20) == true)
        let again = run.beginRecheck(countMax: 500)
        #expect(again == [0, 1, 2])
        self.finish(&run, again, ended: [0: .deviceGone], at: 21)
        #expect(self.isStale(run, at: 21) == false)
        #expect([run.takeNext(), run.takeNext(), run.takeNext()] == [1, 2, nil])
    }

    @Test func `A recipient that returns unsent before any was read again is as old as the others`() {
        var run = self.run(2)
        #expect(run.takeNext() == 0)
        self.comeBack(&run, 0)
        #expect(self.isStale(run, at: 11) == false)
    }

    @Test func `Of recipients that were read again in part, nobody else is sent to`() {
        var run = self.run(5)
        let indices = run.beginRecheck(countMax: 2)
        self.finish(&run, indices, at: 20)
        let now = 20 * Self.second
        #expect([run.takeNext(now: now), run.takeNext(now: now), run.takeNext(now: now)] == [0, 1, nil])
        #expect(run.hasNext && self.isStale(run, at: 20))
    }

    @Test func `When only recipients with an outcome are left, no read begins, and one that returns is read again`() {
        var run = self.run(3)
        #expect(run.takeNext() == 0)
        let indices = run.beginRecheck(countMax: 500)
        self.finish(&run, indices, ended: [1: .deviceGone, 2: .notMatching], at: 20)
        #expect(run.hasNext && self.isStale(run, at: 22))
        let left = run.beginRecheck(countMax: 500)
        #expect(left.isEmpty)
        #expect(run.isBeingRechecked == false)
        #expect(run.hasNext == false)
        self.comeBack(&run, 0)
        #expect(run.hasNext == true)
        let again = run.beginRecheck(countMax: 500)
        #expect(again == [0])
        self.finish(&run, again, at: 23)
        #expect(run.takeNext(now: 23 * Self.second) == 0)
        run.accepted(0, now: self.now)
        #expect(run.isFinished == true)
    }

    /// Answers that call a token invalid without a name, so that it is tested with a probe.
    private func unclear(_ run: inout RecipientRun, _ index: Int) -> RecipientRun.Consequence {
        let detail = RecipientRun.Detail(status: 400, startedAt: self.now, wantsTokenProbe: true)
        return run.answered(index, .rejected(.other), detail: detail, now: self.now, draw: 0.5)
    }

    @Test func `A probe goes out whatever the age of its record, and whoever follows it is read again`() {
        var run = self.run(3, canProbe: true)
        let (early, late) = (11 * Self.second, 20 * Self.second)
        #expect(run.takeNext(now: early) == 0)
        #expect(self.unclear(&run, 0) == .sendAgain)
        #expect(self.isStale(run, at: 20) == false)
        #expect(run.takeNext(now: late) == 0)
        #expect(run.takeNext(now: late) == nil && run.hasNext && self.isStale(run, at: 20))
    }

    @Test func `A control that is asked for during a read goes out after it`() {
        var run = self.run(3, canProbe: true)
        #expect([run.takeNext(), run.takeNext()] == [0, 1])
        #expect(self.unclear(&run, 0) == .sendAgain)
        run.accepted(1, now: self.now)
        #expect(run.takeNext() == 0)
        let indices = run.beginRecheck(countMax: 500)
        #expect(indices == [2])
        // The second answer like the first asks for the control, which has accepted the send.
        #expect(self.unclear(&run, 0) == .sendAgain)
        self.finish(&run, indices, at: 20)
        let now = 20 * Self.second
        #expect(run.takeNext(now: now) == 1 && run.takeNext(now: now) == 2)
        #expect(run.answered(1, .accepted, detail: .init(startedAt: self.now), now: self.now, draw: 0.5) == .sendAgain)
        run.accepted(2, now: self.now)
        #expect(run.isFinished == true)
    }

    @Test func `A recipient that was cancelled while it was read stays cancelled`() {
        var run = self.run(2)
        let indices = run.beginRecheck(countMax: 500)
        run.closeRest(.cancelled, .cancelled, now: self.now)
        self.finish(&run, indices, ended: [1: .deviceGone], at: 20)
        #expect(run.isFinished == true)
        #expect(self.counts(&run) == ["cancelled cancelled 2"])
    }

    @Test func `A device that has moved to the other environment is tried there`() {
        var run = self.run(1, hasOther: true)
        let indices = run.beginRecheck(countMax: 500)
        self.finish(&run, indices, ended: [0: .wrongEnvironment], at: 20)
        #expect(run.isFinished == true)
        #expect(run.takeReport(now: self.now).elsewhere == [0])
    }

    /// A recipient that the provider never looked at is to be sent to again.
    private func comeBack(_ run: inout RecipientRun, _ index: Int) {
        let detail = RecipientRun.Detail(startedAt: self.now)
        let outcome = DeliveryOutcome.misconfigured(.route)
        #expect(run.answered(index, outcome, detail: detail, now: self.now, draw: 0.5) == .sendAgain)
    }
}
