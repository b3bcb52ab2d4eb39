internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusSimulator
internal import ApusStreams
internal import ApusTLS
internal import ApusTestKit
internal import FoundationEssentials

/// Configures the cluster of a drill.
struct DrillSettings: Sendable {
    /// The devices of the audience.
    var devices: Int
    /// The providers of the devices, in turn; each is one route with a window of its own, however often it is listed.
    var providers = Self.providers
    /// The number of dispatchers at the start.
    var dispatchers = 1
    /// The delay of every provider's answers, in milliseconds, so that a fault happens during the send.
    var delayMilliseconds: Int64 = 50
    /// The maximum number of unrecorded recipients, per route and event loop.
    var window = 100
    /// The interval at which progress is recorded, in milliseconds.
    var flushMilliseconds: Int64 = 10
    /// The time of silence after which an owner loses its work, in milliseconds.
    var leaseMilliseconds: Int64 = 1_000
    /// True when dispatchers present a client certificate to Apple instead of signing tokens.
    var showsCertificate = false
    /// The share of dead tokens.
    var deadShare = 0.0
    /// True when Redis uses an append-only file.
    var isAppendOnly = false
    /// The number of Redis masters.
    var masters = 1
    /// The number of replicas of each of several masters.
    var replicas = 1
    /// The number of Redis servers that can join later.
    var spares = 0
    /// True for one Redis master with a replica and three Sentinels.
    var hasSentinels = false
    /// The key of the registration's API; nil when nobody registers over HTTP.
    var apiKey: String?
    /// The further faults from the start.
    var faults: @Sendable (inout FaultPlan) -> Void = { _ in }

    /// The providers of most drills' devices.
    static let providers: [Provider] = [.apns, .fcm, .webpush]

    var dispatcherSettings: ServiceSettingsText {
        [
            "lease": "\(self.leaseMilliseconds)ms", "flush_interval": "\(self.flushMilliseconds)ms",
            "window": "\(self.window)",
        ]
    }

    /// Returns the initial plan of faults.
    func plan(seed: UInt64) -> FaultPlan {
        var plan = FaultPlan(seed: seed)
        plan.apns.delayMilliseconds = self.delayMilliseconds
        plan.fcm.delayMilliseconds = self.delayMilliseconds
        plan.webpush.delayMilliseconds = self.delayMilliseconds
        self.faults(&plan)
        return plan
    }
}

/// Holds a cluster with a topic's subscribers, feedback and dispatchers, and the report of the drill that runs in it.
///
/// Confined to the task that performs the drill.
final class DrillEnvironment {
    /// The id of the default send.
    static let send = "drill"
    private static let topic = "news"
    /// The sizes where there are several masters: enough that each has shards and partitions.
    private static let clusterKeyspace = Keyspace(queueShards: 6, devicePartitions: 12)
    /// The longest time of a send.
    private var patience: Duration { .seconds(self.run.sized(300, 600)) }

    let run: DrillRun
    let terms: DrillSettings
    let cluster: LocalCluster
    let devices: [SampleDevice]
    var report: DrillReport
    private(set) var dispatchers: [ServiceProcess] = []
    private(set) var feedback: ServiceProcess
    private var publishedAt: Int64 = 0

    private init(
        _ run: DrillRun,
        _ terms: DrillSettings,
        _ cluster: LocalCluster,
        _ devices: [SampleDevice],
        _ feedback: ServiceProcess,
    ) {
        self.run = run
        self.terms = terms
        self.cluster = cluster
        self.devices = devices
        self.feedback = feedback
        self.report = DrillReport(name: run.drill.name, size: run.size, seed: run.seed)
        self.report.devices = devices.count
        self.report.window = terms.window
        self.report.flushMilliseconds = terms.flushMilliseconds
    }

    /// Starts a cluster, runs `body` in it, and stops everything.
    static func with(
        _ run: DrillRun,
        _ terms: DrillSettings,
        _ body: (DrillEnvironment) async throws -> Void,
    ) async throws -> DrillReport {
        var terms = terms
        if let devices = run.devices { terms.devices = devices }
        var configuration = LocalClusterConfiguration()
        configuration.hasWebPush = true
        configuration.hasRedisUsers = true
        configuration.redis.isAppendOnly = terms.isAppendOnly
        configuration.masters = terms.masters
        configuration.replicas = terms.replicas
        configuration.keyDigest = terms.apiKey.map { Hexadecimal.encode(SHA256.hash(utf8: $0)) }
        configuration.spares = terms.spares
        configuration.hasSentinels = terms.hasSentinels
        if terms.masters > 1 {
            configuration.keyspace = Self.clusterKeyspace
            configuration.nodeTimeoutMilliseconds = 2_000
            // Without it one missing master stops all of them.
            configuration.redis.settings["cluster-require-full-coverage"] = "no"
        }
        configuration.simulator.deadShare = DeadShare(terms.deadShare, seed: run.seed)
        configuration.simulator.faults = terms.plan(seed: run.seed)
        return try await LocalCluster.with(configuration) { cluster in
            run.say("registering \(terms.devices) devices")
            let devices = try await cluster.register(
                terms.devices,
                providers: terms.providers,
                topics: { _ in [Self.topic] },
            )
            let feedback = try await cluster.startFeedback(["lease": "\(terms.leaseMilliseconds)ms"])
            let environment = DrillEnvironment(run, terms, cluster, devices, feedback)
            for _ in 0..<terms.dispatchers { try await environment.startDispatcher() }
            try await body(environment)
            return environment.report
        }
    }

    // MARK: Services

    /// Starts another dispatcher.
    @discardableResult
    func startDispatcher() async throws -> ServiceProcess {
        let certificate = self.terms.showsCertificate ? try self.writeCertificate() : nil
        let dispatcher = try await self.cluster.start(
            "dispatcher",
            self.terms.dispatcherSettings,
            certificate: certificate,
        )
        self.dispatchers.append(dispatcher)
        return dispatcher
    }

    /// Replaces the certificate by a new one, and waits until the dispatchers use it.
    func renewCertificate() async throws {
        _ = try self.writeCertificate()
        for dispatcher in self.dispatchers {
            dispatcher.reload()
            try await eventually("\(dispatcher.name) shows the new certificate", timeout: self.patience) {
                try await dispatcher.metric("apus_provider_credential_reloads_total") >= 1
            }
        }
    }

    /// Writes a certificate that serves the app; the file's name is always the same.
    private func writeCertificate() throws -> String {
        let file = "\(self.cluster.folder)/apple-certificate.pem"
        let topic = SimulatedApp.demo.bundleID ?? ""
        let pem = try self.cluster.simulator.clientCertificatePEM(topics: [topic])
        try Data(pem.utf8).write(to: URL(filePath: file), options: .atomic)
        return file
    }

    /// Starts feedback again, after the first one ended.
    func restartFeedback() async throws {
        self.feedback = try await self.cluster.startFeedback(["lease": "\(self.terms.leaseMilliseconds)ms"])
    }

    /// Kills a dispatcher and raises the bound of repetitions.
    func kill(_ dispatcher: ServiceProcess) async {
        self.report.bound += self.boundOfOneKill
        self.dispatchers.removeAll { $0 === dispatcher }
        await dispatcher.kill()
    }

    /// Stops a dispatcher in order.
    func terminate(_ dispatcher: ServiceProcess) async throws {
        self.dispatchers.removeAll { $0 === dispatcher }
        try await dispatcher.terminate()
    }

    /// The maximum repetitions after one dispatcher ended abruptly: its windows, and what it sends while progress is recorded.
    var boundOfOneKill: Int {
        Set(self.terms.providers).count * self.terms.window + Int(self.rateNow() * self.flushSeconds)
    }

    /// The maximum repetitions at each provider after one dispatcher ended abruptly.
    var boundsOfOneKill: [Provider: Int] {
        Dictionary(
            uniqueKeysWithValues: Set(self.terms.providers).map { provider in
                (provider, self.terms.window + Int((self.rateNow(provider) * self.flushSeconds).rounded(.up)))
            }
        )
    }

    private var flushSeconds: Double { Double(self.terms.flushMilliseconds) / 1_000 }

    /// Waits until a dead or frozen process owns nothing any more, and records the time since `start`.
    func waitForTakeover(of dispatcher: ServiceProcess, since start: ContinuousClock.Instant) async throws {
        try await eventually("others take over what \(dispatcher.name) had in hand", timeout: self.patience) {
            try await self.cluster.pendingEntries(of: dispatcher.processID) == 0
        }
        self.report.takeoverSeconds.append((ContinuousClock.now - start) / .seconds(1))
    }

    // MARK: Sending

    /// Publishes the send to all devices.
    func publish(_ send: String = DrillEnvironment.send) async throws {
        self.publishedAt = self.cluster.clock.nanosecondsSince1970()
        self.run.say("sending to \(self.devices.count) devices")
        try await self.cluster.send(.topic(Self.topic), id: send)
    }

    /// The number of acceptances so far.
    var acceptedCount: Int { self.cluster.simulator.ledger.snapshot.timeline.accepted(from: 0) }

    /// Returns the acceptances per second at the moment: the maximum of any tenth of the last second.
    private func rateNow(_ provider: Provider? = nil) -> Double {
        let timeline = self.cluster.simulator.ledger.snapshot.timeline
        let now = self.cluster.clock.nanosecondsSince1970()
        let tenth: Int64 = 100_000_000
        return (1...10).map { back in
            let from = now - Int64(back) * tenth
            return Double(timeline.accepted(provider, from: from, to: from + tenth)) * 10
        }.max() ?? 0
    }

    /// Waits until a number of notifications were accepted.
    ///
    /// - Throws: when the send was complete before.
    func waitForAccepted(_ count: Int, _ provider: Provider? = nil) async throws {
        try await eventually("\(count) are accepted", timeout: self.patience) {
            self.cluster.simulator.ledger.snapshot.timeline.accepted(provider, from: 0) >= count
        }
    }

    /// Waits until a share of the devices was accepted.
    func waitForShare(_ share: Double) async throws {
        try await self.waitForAccepted(Int(Double(self.devices.count) * share))
        self.run.say("\(self.acceptedCount) accepted")
    }

    // MARK: Faults

    /// Changes the faults from now on.
    func setFaults(_ change: (inout FaultPlan) -> Void) {
        var plan = self.terms.plan(seed: self.run.seed)
        change(&plan)
        self.cluster.simulator.setFaults(plan)
    }

    /// The Redis Cluster of a drill that asked for several masters.
    var redisCluster: RedisCluster {
        guard let cluster = self.cluster.redisCluster else { preconditionFailure("the drill has one Redis") }
        return cluster
    }

    /// The Sentinels of a drill that asked for them.
    var redisSentinels: RedisSentinels {
        guard let group = self.cluster.redisSentinels else { preconditionFailure("nobody watches the drill's Redis") }
        return group
    }

    /// The slots that hold data of the installation: those of queue shards and of device partitions.
    var slots: [Int] { self.tags.map(\.slot) }

    /// Returns the tags of queue shards and of device partitions.
    var tags: [HashTag] {
        let keyspace = self.cluster.installation.keyspace
        return (0..<keyspace.queueShards).map { keyspace.tag(shard: $0) }
            + (0..<keyspace.devicePartitions).map { keyspace.tag(partition: $0) }
    }

    /// Waits until a send has found all of its recipients, whose number is given, and so has units that wait.
    func waitUntilPlanned(_ send: String, _ count: Int) async throws {
        try await eventually("\(send) is planned", timeout: self.patience) {
            guard let ledger = try await self.cluster.ledger(of: send) else { return false }
            return !ledger.isPlanning && ledger.planned == UInt64(count)
        }
    }

    // MARK: Evaluation

    /// Waits until the send is complete, compares the counts, checks that nothing is left, and stops the services in order.
    ///
    /// - Parameters:
    ///   - sends: the ids of all planned sends to all devices.
    ///   - meanwhile: called repeatedly until they are complete.
    func finishAndAudit(
        _ sends: [String] = [DrillEnvironment.send],
        meanwhile: () async throws -> Void = {}
    ) async throws {
        self.run.say("waiting until all is done")
        for send in sends {
            let ledger = try await self.cluster.completion(of: send, timeout: self.patience, meanwhile: meanwhile)
            self.report.add(ledger, of: send)
            let living = self.devices.filter { !self.cluster.simulator.isDead($0.token, provider: $0.provider) }
            let audit = self.cluster.audit(send, living)
            self.report.add(audit)
            self.report.require(
                ledger.total(.accepted) == living.count
                    && ledger.total(.unregistered) == self.devices.count - living.count,
                "\(send): \(living.count) of \(self.devices.count) devices are alive, but the ledger counts "
                    + "\(ledger.total(.accepted)) accepted and \(ledger.total(.unregistered)) unregistered",
            )
        }
        self.noteRate()
        try await self.waitUntilIdle()
        let living = self.devices.filter { !self.cluster.simulator.isDead($0.token, provider: $0.provider) }
        self.report.wronglyDeleted += try await self.cluster.deleted(living)
        for dispatcher in self.dispatchers { try await dispatcher.terminate() }
        try await self.feedback.terminate()
        self.report.checkCommonRequirements()
    }

    /// Waits until nothing is left in Redis.
    private func waitUntilIdle() async throws {
        var left: [String: Int64] = [:]
        let deadline = ContinuousClock.now + .seconds(20)
        repeat {
            left = try await self.cluster.remainingEntries()
            if left.isEmpty { return }
            try await Task.sleep(for: .milliseconds(20))
        } while ContinuousClock.now < deadline
        self.report.complaints.append("left in Redis: \(left.sorted { $0.key < $1.key }.prefix(5))")
    }

    private func noteRate() {
        let timeline = self.cluster.simulator.ledger.snapshot.timeline
        let seconds = Double(timeline.buckets.count) * Double(AcceptanceTimeline.bucketNanoseconds) / 1e9
        if seconds > 0 { self.report.ratePerSecond = Double(timeline.accepted(from: 0)) / seconds }
    }

    /// Returns the number of entries that living dispatchers claimed from others.
    func claims() async throws -> Int {
        var count = 0.0
        for dispatcher in self.dispatchers { count += try await dispatcher.metric("apus_stream_entries_claimed_total") }
        return Int(count)
    }
}
