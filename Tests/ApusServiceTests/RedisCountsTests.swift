import ApusMetrics
import ApusRedis
import ApusService
import Testing

@Suite struct RedisCountsTests {
    private let metrics: RedisMetrics
    private let registry: MetricRegistry
    private let counts: RedisCounts

    init() {
        var catalogue = MetricCatalogue()
        self.metrics = RedisMetrics(&catalogue)
        self.registry = MetricRegistry(catalogue)
        self.counts = RedisCounts(metrics: self.metrics, shared: self.registry.shared)
    }

    private func lines() async -> Set<Substring> {
        Set(String(decoding: await self.registry.exposition(.prometheusText), as: UTF8.self).split(separator: "\n"))
    }

    @Test func `Commands are counted by name and result, and a blocking read has no duration`() async {
        self.counts.commandEnded("fcall", .answered, nanoseconds: 1_000)
        self.counts.commandEnded("fcall", .timedOut, nanoseconds: 2_000)
        self.counts.commandEnded("xreadgroup", .answered, nanoseconds: nil)
        self.counts.commandEnded("never-heard-of", .refused, nanoseconds: 0)
        let lines = await self.lines()
        #expect(lines.contains("apus_redis_commands_total{command=\"fcall\",outcome=\"ok\"} 1"))
        #expect(lines.contains("apus_redis_commands_total{command=\"fcall\",outcome=\"timeout\"} 1"))
        #expect(lines.contains("apus_redis_commands_total{command=\"other\",outcome=\"error\"} 1"))
        #expect(lines.contains("apus_redis_commands_total{command=\"xreadgroup\",outcome=\"ok\"} 1"))
        #expect(lines.contains("apus_redis_command_duration_seconds_count{command=\"fcall\"} 2"))
        #expect(lines.contains("apus_redis_command_duration_seconds_count{command=\"xreadgroup\"} 0"))
    }

    @Test func `Redis counts as connected while any connection is open`() async {
        #expect(await self.lines().contains("apus_redis_connected 0"))
        self.counts.connectionMade(isAgain: false)
        self.counts.connectionMade(isAgain: false)
        self.counts.connectionEnded()
        #expect(await self.lines().contains("apus_redis_connected 1"))
        self.counts.connectionEnded()
        #expect(await self.lines().contains("apus_redis_connected 0"))
        self.counts.connectionMade(isAgain: true)
        #expect(await self.lines().isSuperset(of: ["apus_redis_connected 1", "apus_redis_reconnects_total 1"]))
    }

    @Test func `Every command of ours has a label of its own or of its kind`() {
        let names = ["fcall", "fcall_ro", "xreadgroup", "xadd", "xlen", "xpending", "xgroup", "xinfo", "hmget", "set"]
        for name in names { #expect(RedisCommandLabel(command: name) != .other, "\(name)") }
        #expect(RedisCommandLabel(command: "") == .other)
    }
}
