internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusStore
internal import ApusStreams
internal import ApusTestKit

extension Benchmark {
    /// The time for which Redis answers with a fault once all services have met it.
    private static let faultTime = Duration.milliseconds(700)
    /// The time for which Redis is frozen: longer than a call waits for its reply.
    private static let freezeTime = Duration.seconds(14)
    /// The number of commands that meet the fault before that: each service has several connections.
    private static let metCommands = 12
    /// The time after which a service counts as deaf.
    private static let patience = Duration.seconds(30)
    /// The time between two looks at what has become of a send.
    private static let lookInterval = Duration.milliseconds(20)
    /// The settings of the services: with 30 seconds to drain, nothing ends because its time was up.
    private static let settings: ServiceSettingsText = ["drain_timeout": "30s"]

    static let recovery = Benchmark(
        "recovery",
        """
        How long dispatcher, feedback and registration take to go on when Redis has answered everything with a fault or was frozen for 14 s, \
        the slowest of all; and how long each takes to end while Redis is away and it has nothing in hand. After commands that are never \
        answered it is the time-out of a reply that counts, a figure of its own.
        """,
        figure: "slowest_s",
        bar: 2,
    ) { run in
        let recovery = try await LocalCluster.with { try await Self.recover($0, run.say) }
        var stop: (seconds: Double, service: String) = (0, "")
        for isFrozen in [false, true] {
            let slowest = try await LocalCluster.with { try await Self.end($0, isFrozen: isFrozen) }
            run.say("\(isFrozen ? "frozen" : "killed") Redis: \(slowest.service) ends after \(slowest.seconds) s")
            if slowest.seconds > stop.seconds { stop = slowest }
        }
        return [
            "lost": Double(recovery.lost), "slowest_s": max(recovery.slowest, stop.seconds),
            "recovery_slowest_s": recovery.slowest, "recovery_median_s": recovery.median,
            "unanswered_s": recovery.unanswered,
            "stop_slowest_s": stop.seconds,
        ]
    }

    private static func seconds(since start: ContinuousClock.Instant) -> Double { (.now - start) / .seconds(1) }

    /// A trouble of Redis.
    private enum Fault: CustomStringConvertible {
        /// The proxy treats every command so.
        case behavior(RedisProxy.Behavior)
        /// The server is frozen.
        case frozen

        var description: String {
            switch self {
            case .behavior(.answer(let reply)): String(reply.prefix { $0 != "\r\n" })
            case .behavior(let behavior): "\(behavior)"
            case .frozen: "frozen"
            }
        }
    }

    private struct Recovery {
        var slowest: Double
        var median: Double
        var unanswered: Double
        var lost: Int
    }

    /// Lets Redis answer with each fault in turn. Each time a send and a registration wait for the end of it.
    private static func recover(_ cluster: LocalCluster, _ say: @Sendable (String) -> Void) async throws -> Recovery {
        let proxy = try await RedisProxy.start(to: cluster.redis.port)
        let device = try await cluster.register(1, providers: [.apns])[0]
        for name in ["dispatcher", "feedback"] { _ = try await cluster.start(name, Self.settings, redisURL: proxy.url) }
        _ = try await cluster.startRegistration(Self.settings, redisURL: proxy.url)
        let faults = RedisProxy.faultReplies.map { Fault.behavior(.answer($0)) } + [.behavior(.close), .frozen]
        var (times, lost): ([Double], Int) = ([], 0)
        for (number, fault) in (faults + [.behavior(.ignore)]).enumerated() {
            try await Self.cause(fault, proxy, cluster) {
                try await cluster.send(.devices([device.id]), id: "s\(number)", lane: .express)
                try await Self.register(number, cluster)
            }
            let cured = ContinuousClock.now
            while try await !Self.isDone(number, cluster), .now - cured < Self.patience {
                try await Task.sleep(for: Self.lookInterval)
            }
            if .now - cured >= Self.patience { lost += 1 }
            times.append(Self.seconds(since: cured))
            say("\(times[times.count - 1]) s after \(fault)")
        }
        try await cluster.terminate()
        await proxy.stop()
        let unanswered = times.removeLast()
        let spread = BenchmarkReport.Spread(times)
        return Recovery(slowest: spread.most, median: spread.median, unanswered: unanswered, lost: lost)
    }

    /// Keeps the services from Redis until all have met the fault, and a while longer; meanwhile `body` gives them work.
    private static func cause(
        _ fault: Fault,
        _ proxy: RedisProxy,
        _ cluster: LocalCluster,
        _ body: () async throws -> Void,
    ) async throws {
        // They meet this before the server is frozen, because the work is still to be given.
        let loading = RedisProxy.Behavior.answer("-LOADING Redis is loading the dataset in memory\r\n")
        if case .behavior(let behavior) = fault { proxy.set(behavior) } else { proxy.set(loading) }
        try await body()
        while proxy.interceptedCount < Self.metCommands { try await Task.sleep(for: Self.lookInterval) }
        if case .frozen = fault {
            cluster.redis.suspend()
            defer { cluster.redis.resume() }
            proxy.set(.forward)
            try await Task.sleep(for: Self.freezeTime)
        } else {
            try await Task.sleep(for: Self.faultTime)
            proxy.set(.forward)
        }
    }

    private static func name(_ number: Int) -> String { "new-\(number)" }

    private static func register(_ number: Int, _ cluster: LocalCluster) async throws {
        let sample = SampleDevice(app: Self.name(number), index: 0)
        let registration = DeviceRegistration(device: Self.name(number), provider: sample.provider, token: sample.token)
        let command = RegistrationCommand(app: LocalCluster.app, action: .register(registration))
        let keys = cluster.installation.streams.home(app: LocalCluster.app, Self.name(number))
        let add = RedisCommand("XADD", .text(keys.register), "*", "m", .bytes(try command.encode()))
        _ = try await cluster.client.send(add, on: keys.tag)
    }

    /// True when a send has its receipt, and the device is registered that waited with it.
    private static func isDone(_ number: Int, _ cluster: LocalCluster) async throws -> Bool {
        let (app, device) = (try AppID(LocalCluster.app), try DeviceID(Self.name(number)))
        guard try await cluster.installation.store.get(app, device) != nil else { return false }
        return try await cluster.receipts(of: "s\(number)").contains { $0.kind == .final }
    }

    /// Asks each service to end while Redis is away; the slowest one.
    private static func end(_ cluster: LocalCluster, isFrozen: Bool) async throws -> (seconds: Double, service: String)
    {
        let services = [
            try await cluster.startDispatcher(Self.settings), try await cluster.startFeedback(Self.settings),
            try await cluster.startRegistration(Self.settings).service,
        ]
        if isFrozen { cluster.redis.suspend() } else { await cluster.redis.kill() }
        defer { cluster.redis.resume() }
        // Reads and calls that began before are being tried again by now.
        try await Task.sleep(for: .seconds(2))
        var slowest: (seconds: Double, service: String) = (0, "")
        for service in services {
            let start = ContinuousClock.now
            try await service.terminate()
            let seconds = Self.seconds(since: start)
            if seconds > slowest.seconds { slowest = (seconds, service.name) }
        }
        return slowest
    }
}
