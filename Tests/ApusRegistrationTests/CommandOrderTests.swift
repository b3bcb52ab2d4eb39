import ApusInstallation
import ApusRedis
import ApusStreams
import ApusTestKit
import Logging
import NIOPosix
import Synchronization
import Testing

@testable import ApusRegistration

/// The wait of a command for those before it.
@Suite struct CommandOrderTests {
    private final class Wait: Sendable {
        let hasEnded = Mutex(false)
    }

    @Test func `A command waits until another process has handled the one before it`() async throws {
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Fixture.keyspace)
            let streams = SendStreams(client: client, keyspace: Fixture.keyspace)
            let keys = streams.keys(shard: 0)
            func consumer(_ name: String) -> StreamConsumer {
                StreamConsumer(group: StreamGroup.registration, name: name)
            }
            func deliver(to consumer: StreamConsumer) async throws -> StreamEntry {
                let reader = StreamReader(client: client, tag: keys.tag, consumer: consumer)
                try await reader.ensure([keys.register])
                _ = try await client.send(RedisCommand("XADD", .text(keys.register), "*", "m", "x"), on: keys.tag)
                return try #require(try await reader.read(keys.register, count: 1).first)
            }
            /// Returns the number of looks at what is pending.
            func looks() async throws -> Int {
                let info = try await client.send(RedisCommand("INFO", "commandstats"), on: keys.tag).root.string ?? ""
                return info.firstMatch(of: /cmdstat_xpending:calls=([0-9]+)/).flatMap { Int($0.1) } ?? 0
            }
            let (one, other) = (consumer("one"), consumer("other"))
            let (first, second) = (try await deliver(to: other), try await deliver(to: one))
            let order = CommandOrder(streams.entries, one, waitMax: .seconds(600))
            let wait = Wait()
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    try await order.waitForEarlier(than: second)
                    wait.hasEnded.withLock { $0 = true }
                }
                try await eventually("it looks again") { try await looks() > 1 }
                #expect(wait.hasEnded.withLock { $0 } == false)
                try await streams.entries.acknowledge([first], by: other, tag: keys.tag)
                try await group.waitForAll()
            }
            // One that another process keeps is waited for once, also when an older one has come back since.
            let kept = try await deliver(to: other)
            let (third, fourth) = (try await deliver(to: one), try await deliver(to: one))
            let impatient = CommandOrder(streams.entries, one, waitMax: .milliseconds(300))
            try await impatient.waitForEarlier(than: third)
            #expect(try await streams.entries.areOthersPending(from: kept.id, before: fourth, besides: one))
            let back = StreamEntry(stream: first.stream, id: first.id, message: first.message, deliveries: 2)
            try await impatient.waitForEarlier(than: back)
            let before = try await looks()
            try await impatient.waitForEarlier(than: fourth)
            #expect(try await looks() == before + 1)
            await client.close()
        }
    }
}
