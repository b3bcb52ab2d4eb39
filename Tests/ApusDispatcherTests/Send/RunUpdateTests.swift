import ApusCore
import Testing

@testable import ApusDispatcher

@Suite struct RunUpdateTests {
    private static func update(_ outcomes: Outcome...) -> RunUpdate {
        var report = RunReport()
        for outcome in outcomes { report.add(outcome, .none, at: UnixMilliseconds(1)) }
        return RunUpdate(report: report, retries: [], bitmap: [], isFinished: true, isComplete: true)
    }

    @Test func `Nobody has been sent to while all were skipped or wait until their provider takes the message`() {
        var update = Self.update(.skipped, .skipped)
        #expect(update.isUnsent && Self.update().isUnsent)
        let group = (due: UnixMilliseconds(1), indices: [0])
        update.unsent = [1]
        update.putOff = [group]
        update.subroute = [group]
        update.thirdPartyAuth = [group]
        update.elsewhere = [2]
        #expect(update.isUnsent)
        // The provider may have taken a request that is tried again.
        update.retries = [group]
        #expect(!update.isUnsent)
    }

    @Test(arguments: [Outcome.accepted, .rejected, .unregistered, .failed, .expired, .cancelled])
    func `An outcome that may be the answer to a request shows that something was sent`(_ outcome: Outcome) {
        #expect(!Self.update(.skipped, outcome).isUnsent)
    }
}
