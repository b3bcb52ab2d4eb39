import ApusMetrics
import ApusRedis
import ApusService
import ApusTestKit
import Logging
import NIOPosix
import Testing

/// Tests what `/readyz` says of Redis.
@Suite struct RedisCheckTests {
    /// Returns the result of the check for an address.
    private static func check(_ url: String) async throws -> CheckResult {
        let client = try RedisClient(
            configuration: RedisConfiguration(url: url),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        )
        let result = await CheckResult.redis(client)
        await client.close()
        return result
    }

    @Test func `A Redis that is away, or refuses the password, is named in a sentence`() async throws {
        let gone = try ReservedPort()
        let away = try await Self.check("redis://127.0.0.1:\(gone.number)")
        #expect(away == .failing("No connection to Redis at 127.0.0.1:\(gone.number)."))
        try await RedisServer.with(.init(isCluster: false)) { server in
            let place = "127.0.0.1:\(server.port)"
            let (right, wrong) = (
                try await Self.check("redis://\(place)"), try await Self.check("redis://a:b@\(place)")
            )
            #expect(right == .ok())
            #expect(wrong == .failing("Redis at \(place) refuses the user or the password."))
        }
    }

    @Test func `A master that answers is no Redis to work with while no Sentinel confirms it`() async throws {
        try await RedisSentinels.with { group in
            var catalogue = MetricCatalogue()
            let metrics = RedisMetrics(&catalogue)
            let registry = MetricRegistry(catalogue)
            let client = try RedisClient(
                configuration: RedisConfiguration(url: group.url),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                observer: RedisCounts(metrics: metrics, shared: registry.shared),
            )
            func isConnected() async -> Bool {
                String(decoding: await registry.exposition(.prometheusText), as: UTF8.self)
                    .contains("apus_redis_connected 1\n")
            }
            let masters = try await client.masters()
            for sentinel in group.sentinels.dropFirst() { await sentinel.kill() }
            _ = try await client.send(RedisCommand("PING"), to: masters[0])
            let (away, isCounted) = (await CheckResult.redis(client), await isConnected())
            #expect(away != .ok() && !isCounted)
            for sentinel in group.sentinels.dropFirst() { try await sentinel.launch() }
            try await eventually("they confirm it") { await CheckResult.redis(client) == .ok() }
            #expect(await isConnected())
            await client.close()
        }
    }

    @Test(arguments: [
        (RedisError.Code.timedOut, "Redis at here does not answer."),
        (.disconnected, "No connection to Redis at here."),
        (.tls, "No TLS connection to Redis at here."),
        (.loading, "Redis at here is still reading its data."),
        (.clusterDown, "The Redis Cluster at here does not serve all of its slots."),
        (.configuration, "The settings of Redis at here are wrong: it is wrong."),
        (.misconfigured, "Redis at here answers with an error (misconfigured)."),
    ])
    func `Each error is a sentence, without the words of a server`(_ code: RedisError.Code, _ sentence: String) {
        #expect(RedisError(code, "it is wrong").sentence(about: "here") == sentence)
        #expect(
            RedisError(serverText: "ERR secret").sentence(about: "here")
                == "Redis at here answers with an error (server)."
        )
    }
}
