import ApusCore
import ApusFCM
import ApusMessages
import ApusStore
import Testing

@testable import ApusDispatcher

/// Tests what a run does when FCM calls something invalid without a name.
@Suite struct RecipientProbeTests {
    private let now = UnixMilliseconds(1_750_000_000_000)
    private let unclear = DeliveryOutcome.rejected(.other)

    private func run(_ count: Int, canProbe: Bool = true) -> RecipientRun {
        var table = RecipientTable()
        for index in 0..<count {
            table.append(RecipientTable.Row(partition: 3, ordinal: UInt32(index), generation: 1), token: [UInt8(index)])
        }
        var terms = RecipientRun.Terms(provider: .fcm, retryRules: .fcm, attempt: 1, listsRecipients: false)
        terms.canProbe = canProbe
        return RecipientRun(terms: terms, table: table, now: self.now)
    }

    private func answer(
        _ run: inout RecipientRun,
        _ index: Int,
        _ outcome: DeliveryOutcome,
    ) -> RecipientRun.Consequence {
        let detail = RecipientRun.Detail(
            status: 400,
            startedAt: self.now,
            wantsTokenProbe: outcome == self.unclear,
        )
        return run.answered(index, outcome, detail: detail, now: self.now, draw: 0.5)
    }

    /// All that there is to send, in one go.
    private func takeAll(_ run: inout RecipientRun) -> [Int] {
        var taken: [Int] = []
        while let index = run.takeNext() { taken.append(index) }
        return taken
    }

    private func digests(_ indices: UInt8...) -> [UInt64] { indices.map { DeviceToken.digest([$0]) } }

    private func counts(_ run: inout RecipientRun) -> Set<String> {
        let taken = run.takeReport(now: self.now)
        return Set(taken.report.counts(provider: .fcm).map { "\($0.outcome.name) \($0.reason.name) \($0.count)" })
    }

    @Test func `D55 a token that is called invalid again is suspect when one that took the send is not`() {
        var run = self.run(3)
        #expect(self.takeAll(&run) == [0, 1, 2])
        #expect(self.answer(&run, 0, self.unclear) == .sendAgain)
        run.accepted(1, now: self.now)
        #expect(self.takeAll(&run) == [0] && run.probes.isProbe(0))
        #expect(self.answer(&run, 0, self.unclear) == .sendAgain)
        #expect(self.takeAll(&run) == [1] && run.probes.isProbe(1))
        #expect(run.isFinished == false)
        #expect(self.answer(&run, 1, .accepted) == .sendAgain)
        #expect(run.report.suspects.map(\.tokenDigest) == self.digests(0))
        #expect(run.report.suspects.map(\.reason) == [.badToken])
        // The control is asked once for a run.
        #expect(self.answer(&run, 2, self.unclear) == .sendAgain)
        #expect(self.takeAll(&run) == [2])
        #expect(self.answer(&run, 2, .suspect(.badToken)) == .settled)
        #expect(run.isFinished && run.report.suspects.map(\.tokenDigest) == self.digests(0, 2))
        #expect(self.counts(&run) == ["accepted none 1", "rejected bad_token 2"])
    }

    @Test(arguments: [
        DeliveryOutcome.accepted, .rejected(.payload), .lost(.timeout), .misconfigured(.credential),
        .deferred(Deferral(.rateLimited)),
    ])
    func `D55 a token about which the check says nothing is kept`(said: DeliveryOutcome) {
        var run = self.run(2)
        _ = self.takeAll(&run)
        run.accepted(1, now: self.now)
        _ = self.answer(&run, 0, self.unclear)
        _ = self.takeAll(&run)
        #expect(self.answer(&run, 0, said) == .settled)
        #expect(run.isFinished && run.report.suspects.isEmpty && run.report.unregistered.isEmpty)
        #expect(self.counts(&run) == ["accepted none 1", "rejected other 1"])
    }

    @Test func `D55 when the control fails too, or there is none, the token is kept`() {
        var run = self.run(3)
        _ = self.takeAll(&run)
        for index in [0, 1] { #expect(self.answer(&run, index, self.unclear) == .sendAgain) }
        _ = self.takeAll(&run)
        #expect(self.answer(&run, 0, self.unclear) == .settled, "nobody has taken the send")
        run.accepted(2, now: self.now)
        #expect(self.answer(&run, 1, self.unclear) == .sendAgain)
        #expect(self.takeAll(&run) == [2])
        #expect(self.answer(&run, 2, self.unclear) == .sendAgain)
        #expect(run.isFinished && run.report.suspects.isEmpty)
        #expect(self.counts(&run) == ["accepted none 1", "rejected other 2"])
    }

    @Test func `A token that the check finds dead is dead`() {
        var run = self.run(1)
        _ = self.takeAll(&run)
        _ = self.answer(&run, 0, self.unclear)
        _ = self.takeAll(&run)
        #expect(self.answer(&run, 0, .unregistered(.unregistered, asOf: nil)) == .settled)
        #expect(run.report.unregistered.count == 1)
        #expect(self.counts(&run) == ["unregistered unregistered 1"])
    }

    @Test func `A limited number of a run's tokens are checked, and none on a route without a check`() {
        let most = RecipientProbes.begunMax
        var run = self.run(most + 1)
        _ = self.takeAll(&run)
        for index in 0..<most { #expect(self.answer(&run, index, self.unclear) == .sendAgain) }
        #expect(self.answer(&run, most, self.unclear) == .settled)
        var other = self.run(1, canProbe: false)
        _ = self.takeAll(&other)
        #expect(self.answer(&other, 0, self.unclear) == .settled)
    }

    @Test func `A run that ends keeps the first answers of recipients that still wait for their check`() {
        var run = self.run(4)
        _ = self.takeAll(&run)
        run.accepted(3, now: self.now)
        _ = self.answer(&run, 0, self.unclear)
        #expect(self.takeAll(&run) == [0])
        // One waits for the control, one for its turn, one is on the wire.
        #expect(self.answer(&run, 0, self.unclear) == .sendAgain)
        _ = self.answer(&run, 1, self.unclear)
        #expect(run.takeNext() == 1)
        _ = self.answer(&run, 2, self.unclear)
        run.closeRest(.cancelled, .cancelled, now: self.now)
        #expect(!run.isFinished && run.inFlight == 1)
        #expect(self.answer(&run, 1, self.unclear) == .settled)
        #expect(run.isFinished && run.report.suspects.isEmpty)
        #expect(self.counts(&run) == ["accepted none 1", "rejected other 3"])

        var stopped = self.run(2)
        _ = self.takeAll(&stopped)
        stopped.accepted(1, now: self.now)
        _ = self.answer(&stopped, 0, self.unclear)
        stopped.stop()
        #expect(stopped.isFinished && !stopped.done[0], "whoever takes it next sends again")
    }
}
