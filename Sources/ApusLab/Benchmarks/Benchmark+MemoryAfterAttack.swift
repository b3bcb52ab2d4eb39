internal import ApusCore
internal import ApusInstallation
internal import NIOCore
internal import NIOPosix

extension Benchmark {
    private static let mebibyte = 1_048_576.0
    /// The limit of the service, in bytes: the default.
    private static let memoryLimit = 256 << 20
    /// The size that the service may have when the attack is over, as a multiple of its idle size.
    private static let afterOverIdleMax = 2.0
    private static let secondsAfter = 30

    static let memoryAfterAttack = Benchmark(
        "memory-after-attack",
        "What registration occupies under slow clients, large bodies and clients that read no answers, and 30 seconds later.",
        figure: "worst_share_of_bar",
        bar: 1,
    ) { run in
        try await LocalCluster.with { cluster in
            let (service, port) = try await cluster.startRegistration(["memory_limit": "\(Self.memoryLimit)"])
            let app = try AppID(LocalCluster.app)
            let now = cluster.clock.now()
            let key = try await APIKeys(cluster.client).create(app, name: "attacker", role: .admin, now: now)
            // A new key is known a second later.
            try await Task.sleep(for: .seconds(3))
            @Sendable func size() throws -> Double {
                try service.checkIsRunning()
                return Double(ProcessStatistics.residentBytes(of: service.processID) ?? 0) / Self.mebibyte
            }
            let idle = try size()
            let attack = MemoryAttack(port: port, key: key, bodies: run.devices ?? 10_000)
            let sampler = Task {
                var peak = idle
                while !Task.isCancelled {
                    peak = max(peak, try size())
                    try? await Task.sleep(for: .milliseconds(50))
                }
                return peak
            }
            defer { sampler.cancel() }
            let result = try await attack.run { run.say("\($0) (\((try? size()) ?? 0) MiB)") }
            sampler.cancel()
            let most = try await sampler.value
            run.say("over: \(most) MiB at most; waiting \(Self.secondsAfter) s")
            try await Task.sleep(for: .seconds(Self.secondsAfter))
            let after = try size()
            let limit = Double(Self.memoryLimit) / Self.mebibyte
            try await cluster.terminate()
            return [
                "idle_mib": idle, "peak_mib": most, "after_mib": after, "limit_mib": limit,
                "after_over_idle": after / idle, "peak_over_idle_mib": most - idle,
                "worst_share_of_bar": max(after / idle / Self.afterOverIdleMax, (most - idle) / limit),
                "slow_clients": Double(attack.slowClients), "unread_imports": Double(attack.readers),
                "bodies_refused": Double(result.refused), "bodies_without_room": Double(result.withoutRoom),
                "bodies_unanswered": Double(result.unanswered),
            ]
        }
    }
}

/// Puts the registration service under clients that mean harm: some send a byte a second, some read no answers of their imports, and the
/// rest send large bodies.
private struct MemoryAttack {
    /// Counts the answers to large bodies.
    struct Findings {
        /// The bodies that were read as a whole and refused for their content.
        var refused = 0
        /// The bodies that found no room in memory.
        var withoutRoom = 0
        /// The bodies whose connection was closed.
        var unanswered = 0
    }

    /// The bytes of a large body: as large as that of a send may be.
    private static let bodyBytes = 320 * 1_024 - 16
    /// The connections that send large bodies.
    private static let senders = 64
    /// The lines of an import, each of which costs an answer of some 200 bytes.
    private static let lines = 20_000
    private static let holdSeconds = 10

    let port: Int
    let key: String
    /// The number of large bodies.
    let bodies: Int
    /// The number of clients that send a byte a second.
    var slowClients: Int { max(1, self.bodies / 5) }
    /// The number of clients that read no answers.
    var readers: Int { max(1, self.bodies / 20) }

    private var group: MultiThreadedEventLoopGroup { .singleton }

    func run(say: @Sendable (String) -> Void) async throws -> Findings {
        let slow = Task { try await self.dripBytes() }
        defer { slow.cancel() }
        say("\(self.slowClients) slow clients, \(self.bodies) large bodies")
        var findings = try await self.sendBodies(self.bodies / 2)
        say("\(self.readers) imports whose answers nobody reads")
        let imports = try await self.startImports()
        do {
            let more = try await self.sendBodies(self.bodies - self.bodies / 2)
            findings.refused += more.refused
            findings.withoutRoom += more.withoutRoom
            findings.unanswered += more.unanswered
            try await Task.sleep(for: .seconds(Self.holdSeconds))
        } catch {
            for channel in imports { channel.close(promise: nil) }
            throw error
        }
        say("the attack ends")
        for channel in imports { channel.close(promise: nil) }
        slow.cancel()
        _ = try? await slow.value
        return findings
    }

    private func connect(reads: Bool) async throws -> any Channel {
        try await ClientBootstrap(group: self.group).channelOption(.autoRead, value: reads)
            .connect(host: "127.0.0.1", port: self.port).get()
    }

    /// Keeps connections that send a byte a second, until it is cancelled; what the service closes is connected again.
    private func dripBytes() async throws {
        var channels: [any Channel] = []
        defer { for channel in channels { channel.close(promise: nil) } }
        while !Task.isCancelled {
            channels.removeAll { !$0.isActive }
            while channels.count < self.slowClients, !Task.isCancelled {
                let channel = try await self.connect(reads: true)
                channel.writeAndFlush(ByteBuffer(string: "GET / HTTP/1.1\r\nx: "), promise: nil)
                channels.append(channel)
            }
            for channel in channels { channel.writeAndFlush(ByteBuffer(string: "x"), promise: nil) }
            try await Task.sleep(for: .seconds(1))
        }
    }

    /// Starts imports whose answers nobody reads, and which never end.
    private func startImports() async throws -> [any Channel] {
        let lines = String(repeating: "{}\n", count: Self.lines)
        let request = ByteBuffer(
            string: "POST /v1/apps/\(LocalCluster.app)/devices:import HTTP/1.1\r\nHost: localhost\r\n"
                + "Authorization: Bearer \(self.key)\r\nContent-Type: application/x-ndjson\r\n"
                + "Transfer-Encoding: chunked\r\n\r\n\(String(lines.utf8.count, radix: 16))\r\n\(lines)\r\n"
        )
        var channels: [any Channel] = []
        for _ in 0..<self.readers {
            let channel = try await self.connect(reads: false)
            channel.writeAndFlush(request, promise: nil)
            channels.append(channel)
        }
        return channels
    }

    /// Sends large bodies over some connections, and waits for their answers.
    private func sendBodies(_ count: Int) async throws -> Findings {
        let text = "{\"unknown\":\"" + String(repeating: "x", count: Self.bodyBytes - 16) + "\"}"
        let order = HTTPClientRequest(
            "POST",
            "/v1/apps/\(LocalCluster.app)/sends",
            headers: [("content-type", "application/json"), ("authorization", "Bearer \(self.key)")],
            body: Array(text.utf8),
        )
        return try await withThrowingTaskGroup(of: Findings.self) { group in
            for sender in 0..<Self.senders {
                group.addTask {
                    var findings = Findings()
                    var connection: HTTPConnection?
                    for _ in stride(from: sender, to: count, by: Self.senders) {
                        do {
                            let open: HTTPConnection
                            if let connection {
                                open = connection
                            } else {
                                open = try await HTTPConnection.connect(
                                    host: "127.0.0.1",
                                    port: self.port,
                                    on: self.group
                                )
                            }
                            connection = open
                            switch try await open.send(order).status {
                            case 422: findings.refused += 1
                            case 503: findings.withoutRoom += 1
                            case let status: throw LocalClusterError("a large body was answered with \(status)")
                            }
                        } catch let error as LocalClusterError {
                            throw error
                        } catch {
                            findings.unanswered += 1
                            connection = nil
                        }
                    }
                    await connection?.close()
                    return findings
                }
            }
            var all = Findings()
            for try await each in group {
                all.refused += each.refused
                all.withoutRoom += each.withoutRoom
                all.unanswered += each.unanswered
            }
            return all
        }
    }
}
