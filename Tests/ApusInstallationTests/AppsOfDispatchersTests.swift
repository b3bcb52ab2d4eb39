import ApusCore
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTestKit
import Logging
import NIOPosix
import Synchronization
import Testing

@testable import ApusInstallation

/// Tests when Redis is asked which apps dispatchers have.
@Suite struct AppsOfDispatchersTests {
    /// Shows the given times of day in milliseconds, one at each look.
    private final class ListedClock: WallClock {
        private let times: Mutex<[Int64]>

        init(_ times: [Int64]) { self.times = Mutex(times) }

        func nanosecondsSince1970() -> Int64 { self.times.withLock { $0.removeFirst() } * 1_000_000 }
    }

    @Test func `A list that could not be read is asked for again seconds after that, and every app passes until then`()
        async throws
    {
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: RedisConfiguration(url: server.url),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Keyspace(queueShards: 4, devicePartitions: 4))
            let routes = try await Installation(client, clock: FakeClock()).streams.routes
            // It takes so long to fail that the pause would be over, if it began with the question.
            let failedAt = AppsOfDispatchers.pauseMilliseconds + 1
            let end = failedAt + AppsOfDispatchers.pauseMilliseconds
            let apps = AppsOfDispatchers(routes, clock: ListedClock([0, failedAt, end - 1, end, end]))

            _ = try await server.command("SET", .text(StreamKeys.routes), "no hash")
            try await apps.check("shpo")
            _ = try await server.command("DEL", .text(StreamKeys.routes))
            _ = try await routes.number(of: Route(app: try AppID("shop"), provider: .fcm, environment: .production))
            try await apps.check("shpo")
            await #expect(throws: Problem.self) { try await apps.check("shpo") }
            try await apps.check("shop")
            await client.close()
        }
    }
}
