package import ApusRedis
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// Runs a private master with replicas and the Sentinels that watch it, for tests and drills.
///
/// All of them know each other from the start, so that no test waits until they have met.
package final class RedisSentinels: Sendable {
    /// The name of the master.
    package static let masterName = "apus-master"
    /// The least time in milliseconds without an answer after which Sentinels call the master down, as Operations recommends: a busy machine may
    /// stop a server for a second, and a second failover could choose a server that has no data yet.
    package static let downAfter = 2_000

    /// Configures the Sentinels.
    package struct Options: Sendable {
        /// The number of replicas.
        package var replicas = 1
        /// The number of Sentinels.
        package var sentinels = 3
        /// The time in milliseconds without an answer after which a Sentinel calls the master down.
        package var downAfter = RedisSentinels.downAfter
        /// The password that the Sentinels require; nil for none.
        package var password: String?

        /// Creates the default options.
        package init() {}
    }

    /// The master at the start.
    package let master: RedisServer
    /// Its replicas at the start.
    package let replicas: [RedisServer]
    /// The Sentinels.
    package let sentinels: [Sentinel]
    private let options: Options

    /// The address, which names every Sentinel.
    package var url: String {
        let places = self.sentinels.map { "127.0.0.1:\($0.port)" }.joined(separator: ",")
        guard self.master.tlsPort != nil else { return "redis+sentinel://\(places)/\(Self.masterName)" }
        return "rediss+sentinel://\(places)/\(Self.masterName)?ca=\(self.master.directory)/ca.pem"
    }

    private init(_ options: Options, master: RedisServer, replicas: [RedisServer], sentinels: [Sentinel]) {
        self.options = options
        self.master = master
        self.replicas = replicas
        self.sentinels = sentinels
    }

    /// Starts the servers, then the Sentinels, and waits until each Sentinel would agree to a failover.
    package static func start(
        _ options: Options = Options(),
        servers: RedisServer.Options = RedisServer.Options(),
    ) async throws -> RedisSentinels {
        var settings = servers
        settings.isCluster = false
        settings.settings["repl-ping-replica-period"] = "1"
        if settings.tls != nil { settings.settings["tls-replication"] = "yes" }
        let master = try await RedisServer.start(settings)
        settings.primaryPort = master.tlsPort ?? master.port
        var replicas: [RedisServer] = []
        var made: RedisSentinels?
        do {
            for _ in 0..<options.replicas { replicas.append(try await RedisServer.start(settings)) }
            let sentinels = try (0..<options.sentinels).map { try Sentinel(number: $0, password: options.password) }
            let group = RedisSentinels(options, master: master, replicas: replicas, sentinels: sentinels)
            made = group
            try await group.launch(servers.tls)
            return group
        } catch {
            if let made { await made.stop() } else { for server in [master] + replicas { await server.stop() } }
            throw error
        }
    }

    /// Runs `body` with servers and Sentinels of its own, and stops them afterwards.
    @discardableResult
    package static func with<Result>(
        _ options: Options = Options(),
        servers: RedisServer.Options = RedisServer.Options(),
        _ body: (RedisSentinels) async throws -> Result,
    ) async throws -> Result {
        let group = try await Self.start(options, servers: servers)
        return try await stopping({ await group.stop() }, after: { try await body(group) })
    }

    /// Stops everything and removes the folders. May be called twice.
    package func stop() async {
        for sentinel in self.sentinels { await sentinel.stop() }
        for server in [self.master] + self.replicas { await server.stop() }
    }

    /// Returns the address of a server as Sentinels name it.
    package static func endpoint(_ server: RedisServer) -> RedisEndpoint {
        .host("127.0.0.1", port: server.tlsPort ?? server.port)
    }

    /// Waits until every living Sentinel names a server as the master.
    package func untilMaster(_ server: RedisServer) async throws {
        let port = server.tlsPort ?? server.port
        try await eventually("every Sentinel names the new master", timeout: .seconds(60)) {
            for sentinel in self.sentinels where sentinel.isRunning {
                let question = ["GET-MASTER-ADDR-BY-NAME", Self.masterName]
                let reply = try await sentinel.command(question)
                guard reply.root.element(1)?.string == "\(port)" else { return false }
            }
            return true
        }
    }

    private func launch(_ tls: RedisServer.Options.TLS?) async throws {
        for (index, replica) in self.replicas.enumerated() {
            try await eventually("replica \(index) follows") {
                try await replica.command("INFO", "replication").root.text().contains("master_link_status:up")
            }
        }
        for sentinel in self.sentinels {
            var lines = [
                "port \(sentinel.port)", "bind 127.0.0.1", "dir \(sentinel.directory)", "sentinel myid \(sentinel.id)",
            ]
            if let tls {
                try writeFile("\(sentinel.directory)/certificate.pem", tls.certificatePEM)
                try writeFile("\(sentinel.directory)/key.pem", tls.privateKeyPEM)
                try writeFile("\(sentinel.directory)/ca.pem", tls.certificateAuthorityPEM)
                lines[0] = "port 0"
                lines += [
                    "tls-port \(sentinel.port)", "tls-replication yes", "tls-auth-clients no",
                    "tls-cert-file \(sentinel.directory)/certificate.pem", "tls-key-file \(sentinel.directory)/key.pem",
                    "tls-ca-cert-file \(sentinel.directory)/ca.pem",
                ]
            }
            if let password = self.options.password {
                lines += ["requirepass \(password)", "sentinel sentinel-pass \(password)"]
            }
            let (name, master) = (Self.masterName, self.master.tlsPort ?? self.master.port)
            lines += [
                "sentinel monitor \(name) 127.0.0.1 \(master) \(self.sentinels.count / 2 + 1)",
                "sentinel down-after-milliseconds \(name) \(self.options.downAfter)",
                "sentinel failover-timeout \(name) 10000",
            ]
            for replica in self.replicas {
                lines.append("sentinel known-replica \(name) 127.0.0.1 \(replica.tlsPort ?? replica.port)")
            }
            for other in self.sentinels where other !== sentinel {
                lines.append("sentinel known-sentinel \(name) 127.0.0.1 \(other.port) \(other.id)")
            }
            try writeFile("\(sentinel.directory)/sentinel.conf", lines.joined(separator: "\n") + "\n")
            try await sentinel.launch()
        }
        try await eventually("each Sentinel would agree to a failover") {
            for sentinel in self.sentinels {
                guard (try? await sentinel.command(["CKQUORUM", Self.masterName])) != nil else { return false }
                let replicas = try await sentinel.command(["REPLICAS", Self.masterName]).root
                let known = replicas.children.map { fields in fields.children.compactMap(\.string) }
                // `master-link-status ok` is known after the first INFO of a replica.
                guard known.count == self.replicas.count,
                    known.allSatisfy({ $0.contains("slave") && $0.contains("ok") })
                else { return false }
            }
            return true
        }
    }
}

extension RedisSentinels {
    /// A Sentinel, `redis-server --sentinel`.
    package final class Sentinel: Sendable {
        /// The port, with TLS where the servers have it.
        package var port: Int { self.reserved.number }
        let directory: String
        let id: String
        private let reserved: ReservedPort
        private let password: String?
        private let process = Mutex<WatchedProcess?>(nil)

        init(number: Int, password: String?) throws {
            self.reserved = try ReservedPort()
            self.directory = try TemporaryDirectory.make("apus-sentinel")
            self.id = String(repeating: "0", count: 39) + "\(number + 1)"
            self.password = password
        }

        /// True while it runs.
        package var isRunning: Bool { self.process.withLock { $0 } != nil }

        /// Starts it again with what it knew; its configuration must have been written.
        package func launch() async throws {
            let arguments = ["/usr/bin/env", "redis-server", "\(self.directory)/sentinel.conf", "--sentinel"]
            let process = try await WatchedProcess(arguments, directory: self.directory)
            self.process.withLock { $0 = process }
            try await eventually("the Sentinel answers") { (try? await self.command(["MYID"])) != nil }
        }

        /// Kills it; `launch()` starts it again.
        package func kill() async { await self.take()?.end(keepingDirectory: true) }

        /// Stops it and removes its folder.
        package func stop() async {
            await self.take()?.end(keepingDirectory: false)
            TemporaryDirectory.remove(self.directory)
        }

        private func take() -> WatchedProcess? {
            self.process.withLock { process in
                defer { process = nil }
                return process
            }
        }

        /// Sends `SENTINEL …` over a connection of its own.
        package func command(_ arguments: [String]) async throws -> RESPReply {
            let ca = "\(self.directory)/ca.pem"
            let isEncrypted = readFile(ca) != nil
            let place = "127.0.0.1:\(self.port)"
            let url = isEncrypted ? "rediss://\(place)?ca=\(ca)" : "redis://\(place)"
            var configuration = try RedisConfiguration(url: url, clientName: "apus-test-kit")
            configuration.password = self.password
            let connection = try await RedisConnection.connect(
                to: configuration.endpoint,
                configuration: configuration,
                on: MultiThreadedEventLoopGroup.singleton.any(),
            ).get()
            do {
                let command = RedisCommand("SENTINEL", arguments.map { RedisArgument.text($0) })
                let reply = try await connection.send(command).get()
                try await connection.close().get()
                return reply
            } catch {
                _ = try? await connection.close().get()
                throw error
            }
        }
    }
}
