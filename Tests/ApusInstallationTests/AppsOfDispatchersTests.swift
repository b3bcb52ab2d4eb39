import ApusCore
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTestKit
import Logging
import NIOPosix
import Testing

@testable import ApusInstallation

/// Tests when Redis is asked which apps dispatchers have.
@Suite struct AppsOfDispatchersTests {
    @Test func `A list that cannot be read is not asked for again for some seconds, in which every app passes`()
        async throws
    {
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: RedisConfiguration(url: server.url),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Keyspace(queueShards: 4, devicePartitions: 4))
            let clock = FakeClock()
            let routes = try await Installation(client, clock: clock).streams.routes
            let apps = AppsOfDispatchers(routes, clock: clock)

            _ = try await server.command("SET", .text(StreamKeys.routes), "no hash")
            try await apps.check("shpo")
            _ = try await server.command("DEL", .text(StreamKeys.routes))
            _ = try await routes.number(of: Route(app: try AppID("shop"), provider: .fcm, environment: .production))
            clock.advance(byMilliseconds: AppsOfDispatchers.pauseMilliseconds - 1)
            try await apps.check("shpo")
            clock.advance(byMilliseconds: 1)
            await #expect(throws: Problem.self) { try await apps.check("shpo") }
            try await apps.check("shop")
            await client.close()
        }
    }
}
