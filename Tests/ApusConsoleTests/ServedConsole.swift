import ApusConsole
import ApusCore
import ApusInstallation
import ApusRedis
import ApusService
import ApusTestKit
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import Testing

/// A console of an empty installation, on a free port of this machine.
enum ServedConsole {
    /// Runs `body` with the installation and the console's port.
    static func with(
        clock: any WallClock = SystemClock(),
        _ body: (Installation, Int) async throws -> Void,
    ) async throws {
        try await RedisServer.with { server in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: logger,
            )
            try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 4))
            let installation = try await Installation(client, clock: SystemClock())
            let listen = ListenAddress(host: "127.0.0.1", port: 0)
            let ports = AsyncStream.makeStream(of: Int.self)
            let console = ConsoleServer(
                installation,
                access: try ConsoleAccess(listen: listen, publicURL: nil),
                listen: listen,
                configuration: nil,
                portFile: nil,
                clock: clock,
                logger: logger,
            ) { ports.continuation.yield($0) }
            let group = ServiceGroup(configuration: .init(services: [.init(service: console)], logger: logger))
            async let served: Void = group.run()
            var iterator = ports.stream.makeAsyncIterator()
            let port = try #require(await iterator.next())
            try await body(installation, port)
            await group.triggerGracefulShutdown()
            try await served
            await client.close()
        }
    }

    /// Sends text on a connection, and passes on all that has come back after each part of it.
    ///
    /// - Parameter isEnough: ends the connection when it returns true.
    /// - Returns: all that came back, until that was enough or the console has closed.
    static func exchange(
        _ text: String,
        port: Int,
        isEnough: (String) async throws -> Bool,
    ) async throws -> String {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connect(host: "127.0.0.1", port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                }
            }
        var answer = ""
        try await channel.executeThenClose { inbound, outbound in
            try await outbound.write(ByteBuffer(string: text))
            for try await bytes in inbound {
                answer += String(buffer: bytes)
                if try await isEnough(answer) { break }
            }
        }
        return answer
    }
}
