internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusSimulator
internal import ApusStore
internal import ApusStreams
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
    /// The requests of each hostile account in a second: more than the 20 that it may ask.
    private static let accountPerSecond = 60.0
    private static let measuredSeconds = 60.0
    /// The topic of the others' devices.
    private static let topic = "news"
    private static let warmUpSeconds = 5.0

    static let hostileClients = Benchmark(
        "hostile-clients",
        "How long other users wait for registration while 50 accounts ask at more than their rate for a minute: for what is theirs, and for "
            + "junk tokens, topics and test notifications of their own.",
        figure: "p99_over_quiet",
        bar: 2,
    ) { run in
        let secret = "0123456789abcdef0123456789abcdef"
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        var configuration = LocalClusterConfiguration()
        configuration.identitySecretFile = try folder.write("secret", secret)
        return try await LocalCluster.with(configuration) { cluster in
            let devices = try await cluster.register(Self.others, topics: { _ in [Self.topic] }, user: { "good-\($0)" })
            _ = try await cluster.startDispatcher()
            _ = try await cluster.startFeedback()
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
            try await cluster.send(.topic(Self.topic), id: "before")
            _ = try await cluster.completion(of: "before")
            let before = try await Self.state(cluster, devices)
            let quiet = try await good.measure(
                Self.plan(Self.othersPerSecond),
                devices: devices,
                clock: cluster.clock,
            )
            run.say("quiet: p99 \(quiet.latency.milliseconds(percentile: 99) ?? 0) ms")
            let accounts = Self.accounts
            let bad = try await HostileLoad.connect(accounts, port: port) { try token("bad-\($0)") }
            let junk = (0..<accounts).map { HostileLoad.junk(of: $0) }
            cluster.simulator.declare(.bad, of: Array(junk.joined()), provider: .apns)
            async let attack = bad.attack(
                Self.plan(Self.accountPerSecond * Double(accounts)),
                devices: devices,
                junk: junk,
                clock: cluster.clock,
            )
            try await cluster.send(.topic(Self.topic), id: "during")
            let busy = try await good.measure(Self.plan(Self.othersPerSecond), devices: devices, clock: cluster.clock)
            let statuses = try await attack
            let during = try await cluster.completion(of: "during")
            let after = try await Self.state(cluster, devices)
            let roomLeft = await Self.hasRoomForTopic(cluster, devices[0])
            await good.close()
            await bad.close()
            try await cluster.terminate()
            let changed = before.differences(from: after) + (roomLeft ? 0 : 1)
            let unsent = Self.others - Int(during.total(.accepted))
            run.say(
                "\(changed) changed, \(unsent) not sent to, \(after.stoppedRoutes) routes stopped, answers \(statuses)"
            )
            let (p99, quietP99) = (
                busy.latency.milliseconds(percentile: 99) ?? .infinity,
                quiet.latency.milliseconds(percentile: 99) ?? .infinity
            )
            return [
                "lost": Double(changed + unsent + busy.refused + quiet.refused),
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

    /// The state of what belongs to others than the hostile accounts.
    private struct OtherUsersState: Sendable {
        var records: [StoredDevice?] = []
        /// The ledger of the send before the attack.
        var ledger: SendLedger?
        /// True when the app's list of sends has that send.
        var isListed = false
        /// The number of the app's routes that send nothing.
        var stoppedRoutes = 0

        func differences(from other: Self) -> Int {
            zip(self.records, other.records).count { $0 != $1 } + (self.ledger == other.ledger ? 0 : 1)
                + (self.isListed == other.isListed ? 0 : 1) + abs(self.stoppedRoutes - other.stoppedRoutes)
        }
    }

    private static func state(_ cluster: LocalCluster, _ devices: [SampleDevice]) async throws -> OtherUsersState {
        let (app, streams) = (try AppID(LocalCluster.app), cluster.installation.streams)
        var state = OtherUsersState()
        for device in devices {
            state.records.append(try await cluster.installation.store.get(app, try DeviceID(device.id)))
        }
        state.ledger = try await cluster.ledger(of: "before")
        let listed = try await streams.sendLists.page(of: app, limit: StreamLimits.sendsPerPageMax, search: "before")
        state.isListed = listed.rows.contains { $0.send == "before" }
        for provider in [Provider.apns, .fcm] {
            let route = Route(app: app, provider: provider, environment: .production)
            let number = try await streams.routes.number(of: route)
            if try await streams.routes.state(of: number).stop != nil { state.stoppedRoutes += 1 }
        }
        return state
    }

    /// Returns true when a backend can still enter a device in a topic that is new.
    private static func hasRoomForTopic(_ cluster: LocalCluster, _ device: SampleDevice) async -> Bool {
        do {
            let (store, app) = (cluster.installation.store, try AppID(LocalCluster.app))
            _ = try await store.subscribe(app, try DeviceID(device.id), to: ["new"])
            return true
        } catch {
            return false
        }
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

    /// The tokens that an account registers, one after the other, which its provider calls bad.
    static func junk(of account: Int) -> [String] {
        var generator = SeededGenerator(seed: UInt64(account))
        return (0..<20).map { _ in SampleToken.apple(&generator) }
    }

    /// Asks at the planned rate for devices of others, to take, read and delete them, and then for a device of one's own: with a junk token, in
    /// topics that nobody has named before, and sent to as a test.
    ///
    /// - Parameter junk: the tokens of each account.
    /// - Returns: the number of answers by status; 0 stands for none.
    func attack(
        _ plan: LoadPlan,
        devices: [SampleDevice],
        junk: [[String]],
        clock: any WallClock,
    ) async throws -> [Int: Int] {
        let statuses = try await OpenLoop(plan, clock: clock).run { index, _ in
            let account = index % self.users.count
            let (user, round) = (self.users[account], index / self.users.count)
            let device = devices[round % devices.count]
            let tokens = junk[account]
            let own = "junk-\(account)-\(round / 6 % tokens.count)"
            switch round % 6 {
            case 0: return await Self.status(user, "PUT", device)
            case 1: return await Self.status(user, "GET", device)
            case 2: return await Self.status(user, "DELETE", device)
            case 3:
                let token = tokens[round / 6 % tokens.count]
                return await Self.status(user, "PUT", own, ["provider": "apns", "token": .string(token)])
            case 4: return await Self.status(user, "PUT", "\(own)/topics/invented-\(account)-\(round)", nil)
            default: return await Self.status(user, "POST", "\(own)/test", nil)
            }
        }
        return statuses.reduce(into: [:]) { $0[$1, default: 0] += 1 }
    }

    private static func status(
        _ user: (token: String, connection: HTTPConnection),
        _ method: String,
        _ device: SampleDevice,
    ) async -> Int {
        let theft: JSONObject = ["provider": .string(device.provider.name), "token": .string(device.token)]
        return await self.status(user, method, device.id, method == "PUT" ? theft : nil)
    }

    private static func status(
        _ user: (token: String, connection: HTTPConnection),
        _ method: String,
        _ path: String,
        _ body: JSONObject?,
    ) async -> Int {
        let order = HTTPClientRequest(
            method,
            "/v1/apps/\(LocalCluster.app)/devices/\(path)",
            headers: [("content-type", "application/json"), ("authorization", "Bearer \(user.token)")],
            body: body.map { JSONValue.object($0).bytes } ?? [],
        )
        return (try? await user.connection.send(order).status) ?? 0
    }
}
