import ApusRedis
import ApusService
import Testing

/// The readiness of a service that does not read all of its streams.
@Suite struct ReadsCheckTests {
    private let a = RedisEndpoint.host("10.0.0.1", port: 6_379)
    private let b = RedisEndpoint.host("10.0.0.2", port: 6_379)
    private let shards = (0..<4).map { HashTag("q\($0)") }

    private func check(
        _ unread: [(HashTag, RedisEndpoint?)],
        masters: Int,
        silent: Set<RedisEndpoint> = []
    ) -> CheckResult {
        CheckResult.reads("no", of: unread, among: self.shards.count, masterCount: masters, silent: silent)
    }

    @Test func `A sick shard of a cluster, whose server answers, is named and takes no work from the process`() {
        let result = self.check([(self.shards[1], self.a)], masters: 3)
        #expect(result == .ok("no: {q1} on 10.0.0.1:6379"))
        guard case .ok = self.check(self.shards.dropLast().map { ($0, self.a) }, masters: 3) else {
            Issue.record("one shard is read")
            return
        }
    }

    @Test func `A process that reads no shard is not ready, unless their servers are away and others answer`() {
        let all = self.shards.map { ($0, RedisEndpoint?.some(self.a)) }
        guard case .failing(let text) = self.check(all, masters: 3) else {
            Issue.record("no shard is read")
            return
        }
        #expect(self.shards.allSatisfy { text.contains("\($0)") })
        guard case .ok = self.check(all, masters: 3, silent: [self.a]) else {
            Issue.record("others answer")
            return
        }
        let both = self.shards.map { ($0, RedisEndpoint?.some($0 == self.shards[0] ? self.b : self.a)) }
        #expect(self.check(both, masters: 2, silent: [self.a, self.b]) != .ok())
        guard case .failing = self.check(both, masters: 2, silent: [self.a, self.b]) else {
            Issue.record("nobody answers")
            return
        }
    }

    @Test func `One Redis of which a shard is not read makes the process not ready`() {
        guard case .failing = self.check([(self.shards[0], self.a)], masters: 1) else {
            Issue.record("it is one server")
            return
        }
    }

    @Test func `Of many shards the first are named`() {
        let many = (0..<20).map { (HashTag("q\($0)"), RedisEndpoint?.none) }
        let result = CheckResult.reads("no", of: many, among: 30, masterCount: 2, silent: [self.a])
        guard case .ok(let text?) = result else {
            Issue.record("ten are read")
            return
        }
        #expect(text.hasSuffix(" and 12 more"))
    }
}
