import ApusRedis
import ApusTestKit
import Logging
import NIOCore
import NIOPosix
import Testing

/// Runs `body` with a server and a client of it.
func withClient(
    _ options: RedisServer.Options = RedisServer.Options(),
    url: KeyPath<RedisServer, String> & Sendable = \.url,
    configure: (inout RedisConfiguration) -> Void = { _ in },
    _ body: (RedisServer, RedisClient) async throws -> Void,
) async throws {
    try await RedisServer.with(options) { server in
        var configuration = try RedisConfiguration(url: server[keyPath: url], clientName: "apus-tests")
        configure(&configuration)
        let client = try RedisClient(
            configuration: configuration,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        )
        do {
            try await body(server, client)
        } catch {
            await client.close()
            throw error
        }
        await client.close()
    }
}

@Suite("Redis client")
struct RedisClientTests {
    private let tag = HashTag("q1")

    @Test("commands travel over a unix socket and over TCP", arguments: [\RedisServer.url, \RedisServer.tcpURL])
    func roundTrip(url: KeyPath<RedisServer, String> & Sendable) async throws {
        try await withClient(url: url) { _, client in
            let id = try await client.send(RedisCommand("XADD", "{q1}in", "*", "m", .bytes([0, 255])), on: self.tag)
            #expect(id.root.string?.contains("-") == true)
            let entries = try await client.send(RedisCommand("XRANGE", "{q1}in", "-", "+"), on: self.tag)
            #expect(entries.root[0][1].children.map(\.bytes) == [Array("m".utf8), [0, 255]])
        }
    }
}
