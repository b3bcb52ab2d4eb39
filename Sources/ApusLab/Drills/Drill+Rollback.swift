internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusStore
internal import ApusStreams
internal import ApusTestKit
internal import NIOPosix

extension Drill {
    static let masterRolledBack = Drill(
        "master-rolled-back",
        "A Redis master forgets what its replica had not got, with devices for which messages wait; others get their places."
    ) { run in
        let terms = DrillSettings(
            devices: run.sized(2_000, 50_000),
            dispatchers: 2,
            isAppendOnly: true,
            masters: 3,
        )
        return try await DrillEnvironment.with(run, terms) { environment in
            let (cluster, redis) = (environment.cluster, environment.redisCluster)
            let places = DevicePlaces(environment, owner: try await redis.owner(ofSlot: environment.slots[0]))
            let replica = try await redis.replica(of: places.owner)
            let singles = try await AcknowledgedSends(cluster, environment.devices)
            let routes = try await cluster.pauseRoutes(providers: DrillSettings.providers)
            try await environment.publish()
            try await environment.waitUntilPlanned(DrillEnvironment.send, environment.devices.count)
            // The replicas have all that came before these.
            let before = await singles.publish("before", count: run.sized(20, 200))

            replica.suspend()
            let count = run.sized(20, 500)
            let forgotten = try await places.register("forgotten", count)
            let send = try places.sendElsewhere()
            try await cluster.send(.topic(DevicePlaces.topic), id: send)
            try await environment.waitUntilPlanned(send, count)
            run.say("\(count) messages wait for devices that the replica does not know")
            let meanwhile = await singles.publish("meanwhile", count: run.sized(20, 200))
            environment.report.bound += environment.boundOfOneKill * terms.dispatchers
            try await redis.rollBack(places.owner, to: replica)
            run.say("its replica is the master, without the last writes")

            let strangers = try await places.register("strangers", count)
            environment.report.figures["devices_forgotten"] = .integer(
                try await cluster.deleted(forgotten.map(\.device))
            )
            let taken = Set(forgotten.map(\.place)).intersection(strangers.map(\.place)).count
            environment.report.figures["places_taken"] = .integer(taken)
            environment.report.require(taken > 0, "nobody got the place of a device that was forgotten")
            for route in routes { try await cluster.installation.streams.routes.control(route, .resume) }
            let ledger = try await cluster.completion(of: send) { try await cluster.makeRetriesDue() }
            let audit = cluster.audit(send, forgotten.map(\.device))
            environment.report.add(ledger, of: send)
            environment.report.figures["wrong_recipients"] = .integer(audit.strangers)
            environment.report.require(audit.strangers == 0, "\(audit.strangers) messages reached others")
            try await places.owner.restart()
            try await environment.finishAndAudit()
            var published = before
            published.replica += meanwhile.replica
            published.memory += meanwhile.memory
            published.unproven += meanwhile.unproven
            published.refused += meanwhile.refused
            singles.report(published, in: &environment.report)
            await singles.close()
        }
    }

    static let registrationRolledBack = Drill(
        "registration-rolled-back",
        "Devices register over HTTP, then a Redis master forgets what its replica had not got."
    ) { run in
        let terms = DrillSettings(
            devices: run.sized(2_000, 50_000),
            isAppendOnly: true,
            masters: 3,
            apiKey: Self.apiKey,
        )
        return try await DrillEnvironment.with(run, terms) { environment in
            let (cluster, redis) = (environment.cluster, environment.redisCluster)
            let victim = try await redis.owner(ofSlot: environment.slots[0])
            let replica = try await redis.replica(of: victim)
            let (waiting, port) = try await cluster.startRegistration(["wait_for_replica": "true"])
            let (hasty, hastyPort) = try await cluster.startRegistration()
            let count = run.sized(60, 500)
            func register(_ from: Int, over port: Int) async throws -> [SampleDevice] {
                let devices = (from..<from + count).map { SampleDevice(app: "http", index: $0, providers: [.apns]) }
                return try await Self.register(devices, port)
            }
            let before = try await register(0, over: port)
            // A replica that is late costs an acknowledgement, as its client would ask again.
            environment.report.require(before.count * 2 > count, "only \(before.count) of \(count) were acknowledged")
            replica.suspend()
            let proven = try await register(count, over: port)
            let unproven = try await register(2 * count, over: hastyPort)
            run.say("\(proven.count) and \(unproven.count) of \(count) are acknowledged while a replica is silent")
            try await redis.rollBack(victim, to: replica)
            for (name, devices) in [("replica", before + proven), ("memory", unproven)] {
                environment.report.figures["registrations_\(name)"] = .integer(devices.count)
                environment.report.figures["registrations_\(name)_lost"] = .integer(try await cluster.deleted(devices))
            }
            let lost = environment.report.figures["registrations_replica_lost"]?.int64 ?? 0
            environment.report.require(lost == 0, "\(lost) registrations that replicas had were lost")
            try await victim.restart()
            for service in [waiting, hasty] { try await service.terminate() }
            try await environment.startDispatcher()
            try await environment.publish()
            try await environment.finishAndAudit()
        }
    }

    private static let apiKey = "drill"

    /// Registers devices over HTTP, over several connections, and returns those that were acknowledged.
    private static func register(_ devices: [SampleDevice], _ port: Int) async throws -> [SampleDevice] {
        let connections = 20
        return try await withThrowingTaskGroup(of: [SampleDevice].self) { group in
            for first in 0..<connections {
                group.addTask {
                    let connection = try await HTTPConnection.connect(
                        host: "127.0.0.1",
                        port: port,
                        on: MultiThreadedEventLoopGroup.singleton,
                    )
                    var acknowledged: [SampleDevice] = []
                    for index in stride(from: first, to: devices.count, by: connections) {
                        let device = devices[index]
                        let body = #"{"provider":"apns","token":"\#(device.token)"}"#
                        let request = HTTPClientRequest(
                            "PUT",
                            "/v1/apps/\(LocalCluster.app)/devices/\(device.id)",
                            headers: [
                                ("content-type", "application/json"), ("authorization", "Bearer \(Self.apiKey)"),
                            ],
                            body: Array(body.utf8),
                        )
                        let status = try await connection.send(request).status
                        if status == 200 || status == 201 { acknowledged.append(device) }
                    }
                    await connection.close()
                    return acknowledged
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
    }
}

/// Registers devices whose records lie on one Redis master.
private struct DevicePlaces {
    /// The topic of these devices.
    static let topic = "places"

    /// The place of a device in the store, which goes to another one when it is forgotten.
    struct Place: Hashable {
        var partition: UInt32
        var ordinal: UInt32
    }

    let owner: RedisServer
    private let cluster: LocalCluster
    private let avoided: Set<HashTag>

    init(_ environment: DrillEnvironment, owner: RedisServer) {
        self.owner = owner
        self.cluster = environment.cluster
        let endpoint = RedisCluster.endpoint(owner)
        let topology = environment.cluster.client.topology
        self.avoided = Set(environment.tags.filter { topology.endpoint(forSlot: $0.slot) == endpoint })
    }

    /// Registers devices by names of their own, of Apple's.
    func register(_ name: String, _ count: Int) async throws -> [(device: SampleDevice, place: Place)] {
        let (keyspace, store) = (self.cluster.installation.keyspace, self.cluster.installation.store)
        let app = try AppID(LocalCluster.app)
        var registered: [(SampleDevice, Place)] = []
        var index = 0
        while registered.count < count {
            let device = SampleDevice(app: name, index: index, providers: [.apns])
            index += 1
            let partition = keyspace.partition(app: LocalCluster.app, id: device.id)
            guard self.avoided.contains(keyspace.tag(partition: partition)) else { continue }
            var registration = device.registration
            registration.topics = [Self.topic]
            let reference = try await store.register(app, registration).device.reference
            registered.append((device, Place(partition: reference.partition, ordinal: reference.ordinal)))
        }
        return registered
    }

    /// Returns the id of a send whose home is on another master.
    func sendElsewhere() throws -> String {
        for number in 0..<1_000 {
            let id = "elsewhere-\(number)"
            let home = self.cluster.installation.streams.home(app: LocalCluster.app, id).tag
            if !self.avoided.contains(home) { return id }
        }
        throw LocalClusterError("one master has every queue shard")
    }
}
