package import ApusRedis
internal import Glibc
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// Reports why a server could not be started.
package struct RedisServerError: Error, CustomStringConvertible {
    /// The reason.
    package let description: String

    init(_ description: String) { self.description = description }
}

/// Runs a private `redis-server` for tests and the demo: a cluster of one node that holds all slots.
///
/// A standalone server would accept commands with keys of several slots and hide the mistake. The server listens on a
/// Unix socket and on a port of the loopback, lives in a temporary folder, and ends with this process, however that
/// ends.
package final class RedisServer: Sendable {
    /// The loopback port.
    package let port: Int
    /// The TLS port, when there is one.
    package let tlsPort: Int?
    /// The path of its folder, which `stop()` removes.
    package let directory: String

    private let options: Options
    /// The ports, reserved for as long as the server may be restarted.
    private let ports: [ReservedPort]
    private let process: Mutex<WatchedProcess?>

    /// The path of its Unix socket.
    package var socketPath: String { "\(self.directory)/socket" }
    /// The address of its Unix socket.
    package var url: String { "unix://\(self.socketPath)" }
    /// The configuration of clients that wait longer than services do, because tests run on loaded machines.
    package var configuration: RedisConfiguration {
        get throws {
            var configuration = try RedisConfiguration(url: self.url)
            configuration.connectTimeout = .seconds(20)
            configuration.requestTimeout = .seconds(60)
            return configuration
        }
    }
    /// The address of its port.
    package var tcpURL: String { "redis://127.0.0.1:\(self.port)" }
    /// The address of its TLS port; traps when there is none.
    package var tlsURL: String {
        guard let tlsPort = self.tlsPort else { preconditionFailure("the server was started without TLS") }
        return "rediss://127.0.0.1:\(tlsPort)?ca=\(self.directory)/ca.pem"
    }
    /// The server's process id, while it runs.
    package var processID: Int32? { self.process.withLock { $0?.pid } }
    /// The server's log so far.
    package var log: String { readFile("\(self.directory)/log") ?? "" }

    /// The port of the cluster bus.
    var busPort: Int { self.ports[2].number }

    /// Reserves its port, the TLS port if there is one, and the port of the cluster bus.
    init(options: Options, directory: String) throws {
        self.options = options
        self.directory = directory
        self.ports = try (0..<3).map { _ in try ReservedPort() }
        self.port = self.ports[0].number
        self.tlsPort = options.tls == nil ? nil : self.ports[1].number
        self.process = Mutex(nil)
    }

    /// Starts a server and waits until it accepts writes.
    package static func start(_ options: Options = Options()) async throws -> RedisServer {
        var lastError = RedisServerError("no attempt")
        // A foreign program may take a port between our check and the server's start.
        for _ in 0..<10 {
            let server = try RedisServer(options: options, directory: try TemporaryDirectory.make("apus-redis"))
            do {
                try server.writeFiles()
                try await server.launch()
                return server
            } catch let error as RedisServerError {
                await server.stop()
                lastError = error
            } catch {
                await server.stop()
                throw error
            }
        }
        throw lastError
    }

    /// The tests of a process that have servers at once. More of them would wait for each other's processor time, and those that something
    /// is expected of in time would fail.
    static let testsAtOnceMax = 12
    private static let permits = AsyncSemaphore(RedisServer.testsAtOnceMax)
    /// True inside of `with`: a test that has one server gets the others at once.
    @TaskLocal private static var isInside = false

    /// Runs `body` with a server of its own, and stops the server afterwards. Waits while too many tests have servers.
    @discardableResult
    package static func with<Result>(
        _ options: Options = Options(),
        _ body: (RedisServer) async throws -> Result,
    ) async throws -> Result {
        guard !Self.isInside else { return try await Self.withServer(options, body) }
        await Self.permits.acquire()
        defer { Self.permits.release() }
        return try await Self.$isInside.withValue(true) { try await Self.withServer(options, body) }
    }

    private static func withServer<Result>(
        _ options: Options,
        _ body: (RedisServer) async throws -> Result,
    ) async throws -> Result {
        let server = try await Self.start(options)
        return try await stopping({ await server.stop() }, after: { try await body(server) })
    }

    /// Stops the server and removes its folder. May be called twice.
    package func stop() async {
        await self.takeProcess()?.end(keepingDirectory: false)
        TemporaryDirectory.remove(self.directory)
    }

    /// Kills the server with `SIGKILL` and waits until it is gone; its folder stays for `restart()`.
    package func kill() async {
        await self.takeProcess()?.end(keepingDirectory: true)
    }

    /// Restarts the server on the same port and socket with its data; kills it first when it still runs.
    package func restart() async throws {
        await self.kill()
        try await self.launch()
    }

    /// Freezes the server with `SIGSTOP`.
    package func suspend() { self.process.withLock { $0?.signal(SIGSTOP) } }

    /// Resumes a suspended server.
    package func resume() { self.process.withLock { $0?.signal(SIGCONT) } }

    /// Sends one command over a connection of its own, as the server's administrator.
    package func command(_ name: String, _ arguments: RedisArgument...) async throws -> RESPReply {
        try await self.send(RedisCommand(name, arguments))
    }

    /// Sends a command on a connection of its own.
    package func send(_ command: RedisCommand) async throws -> RESPReply {
        let connection = try await self.connect()
        do {
            let reply = try await connection.send(command).get()
            try await connection.close().get()
            return reply
        } catch {
            _ = try? await connection.close().get()
            throw error
        }
    }

    /// Waits until one client waits in a blocking read, in the server's own view.
    package func untilClientBlocks() async throws {
        try await eventually("the server sees a client that blocks") {
            try await self.command("INFO", "clients").root.string?.contains("blocked_clients:1\r\n") == true
        }
    }

    private func takeProcess() -> WatchedProcess? {
        self.process.withLock { process in
            defer { process = nil }
            return process
        }
    }

    private func connect() async throws -> RedisConnection {
        var configuration = try RedisConfiguration(url: self.url, clientName: "apus-test-kit")
        // The time limits are generous, because tests run on loaded machines.
        configuration.connectTimeout = .seconds(20)
        configuration.requestTimeout = .seconds(30)
        return try await RedisConnection.connect(
            to: configuration.endpoint,
            configuration: configuration,
            on: MultiThreadedEventLoopGroup.singleton.any(),
        ).get()
    }

    // MARK: Starting

    func writeFiles() throws {
        var lines = [
            "port \(self.port)",
            "bind 127.0.0.1",
            "unixsocket \(self.socketPath)",
            "dir \(self.directory)",
            "save \"\"",
            "maxmemory-policy noeviction",
            "hash-max-listpack-value 512",
            "appendonly \(self.options.isAppendOnly ? "yes" : "no")",
            "appendfsync always",
            "enable-debug-command yes",
            "repl-diskless-sync-delay 0",
        ]
        if self.options.isCluster {
            lines += [
                "cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-port \(self.busPort)",
            ]
        }
        if let primaryPort = self.options.primaryPort {
            lines.append("replicaof 127.0.0.1 \(primaryPort)")
        }
        if let tls = self.options.tls, let tlsPort = self.tlsPort {
            try writeFile("\(self.directory)/certificate.pem", tls.certificatePEM)
            try writeFile("\(self.directory)/key.pem", tls.privateKeyPEM)
            try writeFile("\(self.directory)/ca.pem", tls.certificateAuthorityPEM)
            lines += [
                "tls-port \(tlsPort)",
                "tls-cert-file \(self.directory)/certificate.pem",
                "tls-key-file \(self.directory)/key.pem",
                "tls-ca-cert-file \(self.directory)/ca.pem",
                "tls-auth-clients no",
            ]
        }
        for (name, value) in self.options.settings.sorted(by: { $0.key < $1.key }) { lines.append("\(name) \(value)") }
        try writeFile("\(self.directory)/redis.conf", lines.joined(separator: "\n") + "\n")
    }

    func launch() async throws {
        if !self.options.isMember { try self.writeSoleNode() }
        unsafe unlink(self.socketPath)
        let variables = self.options.environment.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
        let arguments = ["/usr/bin/env"] + variables + ["redis-server", "\(self.directory)/redis.conf"]
        let process = try await WatchedProcess(arguments, directory: self.directory)
        self.process.withLock { $0 = process }
        let clock = ContinuousClock()
        let deadline = clock.now + .seconds(60)
        while true {
            guard process.isRunning else {
                throw RedisServerError("redis-server ended: \(self.log.suffix(500))")
            }
            guard clock.now < deadline else {
                throw RedisServerError("redis-server is not ready: \(self.log.suffix(500))")
            }
            if let connection = try? await self.connect() {
                defer { connection.close() }
                if self.options.isCluster, !self.options.isMember { try await self.takeOver(connection) }
                return
            }
            try await Task.sleep(for: .milliseconds(2))
        }
    }

    /// The id of a master that never existed, which the only node of a cluster takes over from.
    private static let otherID = String(repeating: "b", count: 40)

    private func writeSoleNode() throws {
        let otherID = Self.otherID
        let selfID = String(repeating: "a", count: 40)
        // A cluster node that starts as a master refuses writes for two seconds (CLUSTER_WRITABLE_DELAY). One that
        // starts as a replica does not, and may take over at once from a master that never existed.
        try writeFile(
            "\(self.directory)/nodes.conf",
            """
            \(selfID) 127.0.0.1:\(self.port) myself,slave \(otherID) 0 0 1 connected
            \(otherID) 127.0.0.1:1@1 master - 0 0 1 connected 0-16383
            vars currentEpoch 1 lastVoteEpoch 0

            """,
        )
    }

    /// Makes the server the master of all slots.
    private func takeOver(_ connection: RedisConnection) async throws {
        func isReady() async throws -> Bool {
            let info = try await connection.send(RedisCommand("CLUSTER", "INFO")).get()
            return info.root.string?.contains("cluster_state:ok") == true
        }
        do {
            // Only in the state "ok" does the takeover skip the delay.
            try await eventually("the cluster is ok", isReady)
            _ = try await connection.send(RedisCommand("CLUSTER", "FAILOVER", "TAKEOVER")).get()
            _ = try await connection.send(RedisCommand("CLUSTER", "FORGET", .text(Self.otherID))).get()
            try await eventually("the cluster is ok", isReady)
        } catch {
            throw RedisServerError("the server did not take over: \(error)")
        }
    }
}

/// Runs a body, and then stops what it used, also after an error.
func stopping<Result>(
    _ stop: () async -> Void,
    after body: () async throws -> Result,
) async throws -> Result {
    do {
        let result = try await body()
        await stop()
        return result
    } catch {
        await stop()
        throw error
    }
}
