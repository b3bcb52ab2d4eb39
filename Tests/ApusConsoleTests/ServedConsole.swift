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
    ///
    /// - Parameter publicURL: the address under which browsers reach it; nil for that of this machine.
    static func with(
        clock: any WallClock = SystemClock(),
        publicURL: String? = nil,
        _ body: (Installation, Int) async throws -> Void,
    ) async throws {
        try await RedisServer.with { server in
            let keyspace = Keyspace(queueShards: 2, devicePartitions: 4)
            try await Self.with(server.configuration, keyspace, clock: clock, publicURL: publicURL, body)
        }
    }

    /// Runs `body` with a console of an empty installation of those sizes in that Redis.
    static func with(
        _ configuration: RedisConfiguration,
        _ keyspace: Keyspace,
        clock: any WallClock = SystemClock(),
        publicURL: String? = nil,
        _ body: (Installation, Int) async throws -> Void,
    ) async throws {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let client = try RedisClient(
            configuration: configuration,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: logger,
        )
        try await Installation.initialize(client, keyspace: keyspace)
        let installation = try await Installation(client, clock: SystemClock())
        let listen = ListenAddress(host: "127.0.0.1", port: 0)
        let ports = AsyncStream.makeStream(of: Int.self)
        let console = ConsoleServer(
            installation,
            access: try ConsoleAccess(listen: listen, publicURL: publicURL),
            listen: listen,
            configuration: SettingsSource(file: nil, environment: [:]),
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

    /// The text of a request.
    static func request(
        _ method: String,
        _ path: String,
        _ headers: [String] = [],
        host: String = "localhost",
        body: String = "",
    ) -> String {
        let fields = ["Host: \(host)", "Content-Length: \(body.utf8.count)"] + headers
        return "\(method) \(path) HTTP/1.1\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n" + body
    }

    /// Makes an admin key of an app and signs in with it.
    ///
    /// - Returns: the header with the session's cookie.
    static func signIn(
        to app: String,
        of installation: Installation,
        now: UnixMilliseconds,
        port: Int,
        host: String = "localhost",
    ) async throws -> String {
        let key = try await APIKeys(installation.client).create(AppID(app), name: "ops", role: .admin, now: now)
        let form = ["Content-Type: application/x-www-form-urlencoded"]
        let body = "app=\(app)&key=\(key)&next=/"
        let answer = try await Self.exchange(
            Self.request("POST", "/sign-in", form, host: host, body: body),
            port: port
        ) { $0.contains("\r\n\r\n") }
        return "Cookie: \(try #require(answer.firstMatch(of: /apus_console=[A-Za-z0-9_-]+/)).0)"
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
