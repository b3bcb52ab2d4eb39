import ApusRedis
import ApusTestKit
import NIOCore
import Testing

@Suite(.serialized) struct ServerCircuitBreakerTests {
    private let a = RedisEndpoint.host("10.0.0.1", port: 6_379)
    private let b = RedisEndpoint.host("10.0.0.2", port: 6_379)

    private static func time(_ milliseconds: Int64) -> NIODeadline {
        .uptimeNanoseconds(1_000_000_000) + .milliseconds(milliseconds)
    }

    @Test
    func
        `A server is open once connections have failed for a while, lets one probe through at a time, and closes with a connection`()
    {
        var breaker = ServerCircuitBreaker()
        func isAdmitted(_ time: Int64) -> Bool { breaker.admits(self.a, now: Self.time(time)) }
        #expect(!breaker.isOpen(self.a, now: Self.time(0)) && isAdmitted(0))
        for time in stride(from: Int64(0), through: 4_900, by: 100) {
            breaker.failed(self.a, now: Self.time(time))
            #expect(isAdmitted(time))
        }
        #expect(!breaker.isOpen(self.a, now: Self.time(4_999)))
        #expect(breaker.isOpen(self.a, now: Self.time(5_000)))
        #expect(!breaker.isOpen(self.b, now: Self.time(5_000)))
        let admitted = stride(from: Int64(5_000), to: 7_000, by: 100).filter { time in
            breaker.failed(self.a, now: Self.time(time))
            return isAdmitted(time)
        }
        #expect(admitted == [5_000, 5_500, 6_000, 6_500])
        breaker.reached(self.a)
        #expect(!breaker.isOpen(self.a, now: Self.time(7_000)) && isAdmitted(7_000))
        // The next series of failures begins anew.
        breaker.failed(self.a, now: Self.time(7_100))
        #expect(!breaker.isOpen(self.a, now: Self.time(7_200)))
    }

    @Test func `A failure of long ago says nothing`() {
        var breaker = ServerCircuitBreaker()
        breaker.failed(self.a, now: Self.time(0))
        #expect(breaker.isOpen(self.a, now: Self.time(9_999)))
        #expect(!breaker.isOpen(self.a, now: Self.time(10_000)))
        breaker.failed(self.a, now: Self.time(11_000))
        #expect(!breaker.isOpen(self.a, now: Self.time(11_500)))
    }

    /// Returns how long a command waits until it fails; nil when it is carried out.
    private func failure(_ client: RedisClient, _ tag: HashTag, _ options: RedisClient.Options) async -> Duration? {
        let start = ContinuousClock.now
        do {
            _ = try await client.send(RedisCommand("GET", .text(tag.key("k"))), on: tag, options: options)
            return nil
        } catch {
            return .now - start
        }
    }

    @Test
    func `Commands for a master that is away fail at once after a while, unless they or nobody else can wait for it`()
        async throws
    {
        var options = RedisServer.Options()
        options.settings["cluster-require-full-coverage"] = "no"
        try await RedisCluster.with(masters: 3, replicas: 0, options) { cluster in
            func skips(_ configuration: inout RedisConfiguration) {
                configuration.skipsLostServers = true
                configuration.patience = .seconds(4)
            }
            try await withClient(of: cluster.url, configure: skips) { client in
                let tags = (0..<64).map { HashTag("q\($0)") }
                for tag in tags { #expect(await self.failure(client, tag, .idempotent) == nil) }
                let victim = cluster.masters[0]
                let endpoint = RedisCluster.endpoint(victim)
                let lost = tags.filter { client.topology.endpoint(forSlot: $0.slot) == endpoint }
                let tag = try #require(lost.first)
                await victim.kill()
                // The first ones wait until it counts as lost.
                for _ in 0..<2 { _ = await self.failure(client, tag, .idempotent) }
                var waits: [Duration] = []
                for _ in 0..<30 { waits.append(try #require(await self.failure(client, tag, .idempotent))) }
                #expect(waits.count { $0 < .seconds(2) } >= 25, "\(waits)")
                // A command with a patience of its own waits as long as it says.
                let own = RedisClient.Options(isIdempotent: true, patience: .seconds(2))
                let wait = try #require(await self.failure(client, tag, own))
                #expect(wait > .seconds(1), "\(wait)")
                for tag in tags where !lost.contains(tag) {
                    #expect(await self.failure(client, tag, .idempotent) == nil)
                }
                try await victim.restart()
                try await eventually("it is reached again") { await self.failure(client, tag, .idempotent) == nil }
                // Where no master answers, all commands wait: there is nothing else to do.
                for master in cluster.masters { await master.kill() }
                _ = await self.failure(client, tag, .idempotent)
                let patient = try #require(await self.failure(client, tag, .idempotent))
                #expect(patient > .seconds(3), "\(patient)")
            }
        }
    }
}
