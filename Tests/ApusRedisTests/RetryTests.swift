import ApusRedis
import Testing

@Suite("Retry and reconnect")
struct RetryTests {
    private func decide(
        _ code: RedisError.Code,
        attempt: Int = 1,
        idempotent: Bool = false,
        left: Duration = .seconds(5)
    )
        -> RetryDecision
    {
        RetryDecision(error: RedisError(code, ""), attempt: attempt, idempotent: idempotent, left: left, draw: 0.5)
    }

    @Test("what was not executed is sent again, later and later")
    func notExecuted() {
        let waits = [1, 2, 3, 4, 5, 6, 60].map { self.decide(.loading, attempt: $0) }
        #expect(waits == [30, 60, 120, 240, 375, 375, 375].map { .resend(after: .milliseconds($0)) })
    }

    @Test("what may have been executed is sent again only when that does no harm")
    func unknown() {
        #expect(self.decide(.disconnected) == .fail)
        #expect(self.decide(.disconnected, idempotent: true) == .resend(after: .milliseconds(30)))
        #expect(self.decide(.timedOut, idempotent: true) == .resend(after: .milliseconds(30)))
    }

    @Test("what waiting does not mend is told at once")
    func hopeless() {
        for code in [RedisError.Code.outOfMemory, .crossSlot, .noPermission, .noGroup, .server, .closed] {
            #expect(self.decide(code, idempotent: true) == .fail, "\(code)")
        }
    }

    @Test("nothing is sent again after patience has ended")
    func patience() {
        #expect(self.decide(.loading, left: .milliseconds(30)) == .fail)
        #expect(self.decide(.loading, left: .zero) == .fail)
        #expect(self.decide(.loading, left: .milliseconds(31)) == .resend(after: .milliseconds(30)))
    }

    @Test("the first attempt to connect waits for nothing, the next ones longer and longer")
    func reconnect() {
        let policy = ReconnectPolicy(base: .milliseconds(50), cap: .seconds(2))
        func wait(_ failures: Int, _ draw: Double) -> Duration {
            policy.wait(failures: failures, credentialsRefused: false, draw: draw)
        }
        #expect(wait(0, 0.9) == .zero)
        #expect((1...8).map { wait($0, 0.5) } == [25, 50, 100, 200, 400, 800, 1_000, 1_000].map { .milliseconds($0) })
        #expect(wait(1_000_000, 0.5) == .seconds(1))
        #expect(wait(3, 0) == .zero)
    }

    @Test("refused credentials are not tried in a hurry")
    func credentials() {
        let policy = ReconnectPolicy()
        #expect(policy.wait(failures: 1, credentialsRefused: true, draw: 0) == .seconds(1))
    }
}
