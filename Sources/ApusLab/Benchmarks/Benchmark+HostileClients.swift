internal import ApusCore
internal import ApusInstallation
internal import ApusStore
internal import ApusTLS
internal import ApusTestKit
internal import NIOPosix

extension Benchmark {
    /// The accounts that ask for what is of others.
    private static let accounts = 50
    /// The users who ask for what is theirs, each with one device.
    private static let others = 10
    /// The requests of all of them in a second.
    private static let othersPerSecond = 100.0
    /// The requests of each hostile account in a second: more than the 50 that it may ask.
    private static let accountPerSecond = 60.0
    private static let measuredSeconds = 60.0
    private static let warmUpSeconds = 5.0

    static let hostileClients = Benchmark(
        "hostile-clients",
        "How long other users wait for registration while 50 accounts ask for what is theirs at more than their rate, for a minute.",
        figure: "p99_over_quiet",
        bar: 2,
    ) { run in
        let secret = "0123456789abcdef0123456789abcdef"
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        var configuration = LocalClusterConfiguration()
        configuration.identitySecretFile = try folder.write("secret", secret)
        return try await LocalCluster.with(configuration) { cluster in
            let devices = try await cluster.register(Self.others, user: { "good-\($0)" })
            let (_, port) = try await cluster.startRegistration()
            @Sendable func token(_ user: String) throws -> String {
                let end = cluster.clock.now().seconds + 3_600
                return try JWS.sign(
                    header: #"{"alg":"HS256","typ":"JWT"}"#,
                    payload: #"{"sub":"\#(user)","aud":"cluster","exp":\#(end)}"#,
                    with: .sharedSecret(Array(secret.utf8)),
                )
            }
            let good = try await HostileLoad.connect(Self.others, port: port) { try token("good-\($0)") }
            let before = try await Self.records(cluster, devices)
            let quiet = try await good.measure(
                Self.plan(Self.othersPerSecond),
                devices: devices,
                clock: cluster.clock,
            )
            run.say("quiet: p99 \(quiet.latency.milliseconds(percentile: 99) ?? 0) ms")
            let accounts = Self.accounts
            let bad = try await HostileLoad.connect(accounts, port: port) { try token("bad-\($0)") }
            async let attack = bad.attack(
                Self.plan(Self.accountPerSecond * Double(accounts)),
                devices: devices,
                clock: cluster.clock,
            )
            let busy = try await good.measure(Self.plan(Self.othersPerSecond), devices: devices, clock: cluster.clock)
            let statuses = try await attack
            let after = try await Self.records(cluster, devices)
            await good.close()
            await bad.close()
            try await cluster.terminate()
            let changed = zip(before, after).count { $0 != $1 }
            let (p99, quietP99) = (
                busy.latency.milliseconds(percentile: 99) ?? .infinity,
                quiet.latency.milliseconds(percentile: 99) ?? .infinity
            )
            return [
                "lost": Double(changed + busy.refused + quiet.refused),
                "quiet_p50_ms": quiet.latency.milliseconds(percentile: 50) ?? .infinity, "quiet_p99_ms": quietP99,
                "hostile_p50_ms": busy.latency.milliseconds(percentile: 50) ?? .infinity, "hostile_p99_ms": p99,
                "p99_over_quiet": p99 / quietP99, "hostile_requests": Double(statuses.values.reduce(0, +)),
                "hostile_limited": Double(statuses[429] ?? 0), "hostile_unanswered": Double(statuses[0] ?? 0),
            ]
        }
    }

    private static func plan(_ rate: Double) -> LoadPlan {
        LoadPlan(
            ratePerSecond: rate,
            warmUp: Int(rate * Self.warmUpSeconds),
            measured: Int(rate * Self.measuredSeconds),
        )
    }

    /// Returns the records of devices as the store has them.
    private static func records(_ cluster: LocalCluster, _ devices: [SampleDevice]) async throws -> [StoredDevice?] {
        let app = try AppID(LocalCluster.app)
        var records: [StoredDevice?] = []
        for device in devices {
            records.append(try await cluster.installation.store.get(app, try DeviceID(device.id)))
        }
        return records
    }
}

/// Asks registration in the name of users, each of whom has a token and a connection.
private struct HostileLoad {
    /// Holds the answers to users who asked for their own devices.
    struct Findings {
        /// The latencies from when a request was due, of the measured ones.
        var latency = LatencySummary()
        /// The requests that did not get what they asked for.
        var refused = 0
    }

    private let users: [(token: String, connection: HTTPConnection)]

    /// Connects each of some users.
    static func connect(_ count: Int, port: Int, token: (Int) throws -> String) async throws -> HostileLoad {
        var users: [(token: String, connection: HTTPConnection)] = []
        for index in 0..<count {
            let group = MultiThreadedEventLoopGroup.singleton
            let connection = try await HTTPConnection.connect(host: "127.0.0.1", port: port, on: group)
            users.append((try token(index), connection))
        }
        return HostileLoad(users: users)
    }

    func close() async {
        for user in self.users { await user.connection.close() }
    }

    /// Asks for each user's own device in turn, at the planned rate.
    func measure(_ plan: LoadPlan, devices: [SampleDevice], clock: any WallClock) async throws -> Findings {
        let answers = try await OpenLoop(plan, clock: clock).run { index, due in
            let user = self.users[index % self.users.count]
            let status = await Self.status(user, "GET", devices[index % devices.count])
            return (index: index, status: status, nanoseconds: clock.nanosecondsSince1970() - due)
        }
        var findings = Findings()
        for answer in answers {
            if answer.status != 200 { findings.refused += 1 }
            if plan.isMeasured(answer.index) { findings.latency.record(nanoseconds: answer.nanoseconds) }
        }
        return findings
    }

    /// Asks for devices of others at the planned rate, to take, read and delete them.
    ///
    /// - Returns: the number of answers by status; 0 stands for none.
    func attack(_ plan: LoadPlan, devices: [SampleDevice], clock: any WallClock) async throws -> [Int: Int] {
        let statuses = try await OpenLoop(plan, clock: clock).run { index, _ in
            let user = self.users[index % self.users.count]
            let round = index / self.users.count
            let method = ["PUT", "GET", "DELETE"][round % 3]
            return await Self.status(user, method, devices[round % devices.count])
        }
        return statuses.reduce(into: [:]) { $0[$1, default: 0] += 1 }
    }

    private static func status(
        _ user: (token: String, connection: HTTPConnection),
        _ method: String,
        _ device: SampleDevice,
    ) async -> Int {
        let theft: JSONObject = ["provider": .string(device.provider.name), "token": .string(device.token)]
        let order = HTTPClientRequest(
            method,
            "/v1/apps/\(LocalCluster.app)/devices/\(device.id)",
            headers: [("content-type", "application/json"), ("authorization", "Bearer \(user.token)")],
            body: method == "PUT" ? JSONValue.object(theft).bytes : [],
        )
        return (try? await user.connection.send(order).status) ?? 0
    }
}
