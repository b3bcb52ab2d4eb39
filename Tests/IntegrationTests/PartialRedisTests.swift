import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusPublisher
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

/// The services on a Redis Cluster of which a part is away.
@Suite(.serialized) struct PartialRedisTests {
    @Test
    func `Sends of living masters go on while one is away or lacks functions, and its own when it is back or has them`()
        async throws
    {
        var configuration = Self.threeMasters
        configuration.spares = 1
        try await Fleet.with(configuration) { fleet in
            let redis = try #require(fleet.redisCluster)
            let devices = try await fleet.register(60, providers: [.apns])
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            let (registration, _) = try await fleet.startRegistration()

            let victim = try await Self.victim(redis, fleet)
            let lost = try await Self.tags(of: victim, fleet)
            #expect(!lost.isEmpty)
            await victim.kill()

            // A device and a send whose home both lie elsewhere.
            let keyspace = fleet.installation.keyspace
            let reached = devices.filter {
                !lost.contains(keyspace.tag(partition: keyspace.partition(app: Fleet.app, id: $0.id)))
            }
            #expect(!reached.isEmpty && reached.count < devices.count)
            let sends = reached.enumerated().map { (id: "s\($0)", device: $1) }
            let free = sends.filter { !lost.contains(fleet.installation.streams.home(app: Fleet.app, $0.id).tag) }
            #expect(free.count > 5)
            for send in free { try await fleet.send(.devices([send.device.id]), id: send.id, lane: .express) }
            try await eventually("the others are sent") {
                free.allSatisfy { fleet.accepted(of: $0.id).count == 1 }
            }
            // Of an audience, too, those on other masters do not wait for those on the one that is away.
            let everyone = (0...).lazy.map { "all\($0)" }.first { id in
                !lost.contains(fleet.installation.streams.home(app: Fleet.app, id).tag)
            }
            let all = try #require(everyone)
            try await fleet.send(.everyone([]), id: all)
            try await eventually("all others of an audience are sent") {
                fleet.accepted(of: all).count == reached.count
            }
            for service in [feedback, dispatcher, registration] {
                let (status, text) = try await service.get("/readyz")
                #expect(status == 200, "\(service.name): \(text)")
                let sentence = "No connection to Redis at 127.0.0.1:\(victim.port)."
                #expect(text.contains(sentence), "\(service.name): \(text)")
            }

            try await victim.restart()
            try await eventually("the rest of the audience is sent, and nobody twice") {
                fleet.accepted(of: all).count == devices.count
            }
            #expect(fleet.accepted(of: all).values.allSatisfy { $0 == 1 })
            try await Self.reachAll(devices, "back", fleet)

            // One that hangs, rather than refuses, keeps only its own shards' numbers away from a scrape.
            let shards = (0..<keyspace.queueShards).count { lost.contains(keyspace.tag(shard: $0)) }
            try await eventually("all answer") { try await feedback.metric("apus_stream_unreachable_shards") == 0 }
            victim.suspend()
            try await eventually("its shards are missed") {
                try await feedback.metric("apus_stream_unreachable_shards") == Double(shards)
            }
            for _ in 0..<3 {
                try await Task.sleep(for: .seconds(1))
                #expect(try await feedback.metric("apus_stream_unreachable_shards") == Double(shards))
            }
            victim.resume()
            try await eventually("it answers again") {
                try await feedback.metric("apus_stream_unreachable_shards") == 0
            }

            // A master that joins without functions gets a slot with data: the services say so, and what needs it waits.
            let spare = redis.spares[0]
            try await redis.join(spare)
            try await eventually("the new master calls the cluster well") {
                try await spare.command("CLUSTER", "INFO").root.text().contains("cluster_state:ok")
            }
            let device = devices[0]
            let partition = keyspace.tag(partition: keyspace.partition(app: Fleet.app, id: device.id))
            try await redis.move(partition.slot, to: spare)
            try await fleet.send(.devices([device.id]), id: "held", lane: .express)
            try await eventually("its functions are missed") {
                try await feedback.metric("apus_redis_servers_without_functions") == 1
            }
            let (before, start) = (try await Self.callCount(spare), ContinuousClock.now)
            try await Task.sleep(for: .seconds(2))
            let seconds = (ContinuousClock.now - start) / .seconds(1)
            let perSecond = Double(try await Self.callCount(spare) - before) / seconds
            #expect(perSecond < 100, "\(perSecond) calls a second")
            #expect(fleet.accepted(of: "held").isEmpty)
            try await fleet.initializeAgain()
            try await eventually("it is sent once the functions are there") { fleet.accepted(of: "held").count == 1 }
            for service in [dispatcher, feedback, registration] { try await service.terminate() }
        }
    }

    @Test func `Commands and sends of living masters do not wait behind those that need one that is away`() async throws
    {
        try await Fleet.with(Self.threeMasters) { fleet in
            let redis = try #require(fleet.redisCluster)
            let keyspace = fleet.installation.keyspace
            let devices = try await fleet.register(200, providers: [.apns])
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            let (registration, _) = try await fleet.startRegistration()
            let victim = try await Self.victim(redis, fleet)
            let lost = try await Self.tags(of: victim, fleet)
            func isReached(_ device: SampleDevice) -> Bool {
                !lost.contains(keyspace.tag(partition: keyspace.partition(app: Fleet.app, id: device.id)))
            }
            /// Returns the first id of a send whose home is a shard.
            func id(_ prefix: String, _ keys: StreamKeys) throws -> String {
                let ids = (0...).lazy.map { "\(prefix)-\($0)" }
                return try #require(ids.first { fleet.installation.streams.home(app: Fleet.app, $0).tag == keys.tag })
            }
            let living = (0..<keyspace.queueShards).map { fleet.installation.streams.keys(shard: $0) }
                .filter { !lost.contains($0.tag) }
            let shard = try #require(living.first)
            let all = try id("all", shard)
            try await fleet.send(.everyone([]), id: all)
            await victim.kill()

            // Each of the first ones would hold the only place of the shard for as long as Redis is waited for.
            let more = (1_000..<1_200).map { SampleDevice(app: Fleet.app, index: $0, providers: [.apns]) }
            let (app, store) = (try AppID(Fleet.app), fleet.installation.store)
            // The token of a device has a slot of its own.
            let free = more.filter { lost.isDisjoint(with: store.slots(app, changedBy: $0.registration)) }.prefix(10)
            let stranded = more.filter { !isReached($0) }.prefix(30)
            #expect(free.count == 10 && stranded.count == 30)
            for device in stranded + free {
                let command = RegistrationCommand(app: Fleet.app, action: .register(device.registration))
                let arguments: [RedisArgument] = [
                    .text(shard.register), .text("*"), .text("m"), .bytes(try command.encode()),
                ]
                _ = try await fleet.client.send(RedisCommand("XADD", arguments), on: shard.tag)
            }
            // So does a send to devices that are away.
            for device in devices.filter({ !isReached($0) }).prefix(30) {
                try await fleet.send(.devices([device.id]), id: try id("lost-\(device.id)", shard), lane: .express)
            }
            let reached = devices.filter(isReached)
            var sends: [String] = []
            for device in reached.prefix(20) {
                sends.append(try id("free-\(device.id)", shard))
                try await fleet.send(.devices([device.id]), id: sends[sends.count - 1], lane: .express)
            }
            try await eventually("living devices are registered", timeout: .seconds(40)) {
                try await fleet.deleted(Array(free)) == 0
            }
            try await eventually("living devices are sent to", timeout: .seconds(40)) {
                sends.allSatisfy { fleet.accepted(of: $0).count == 1 }
            }
            try await victim.restart()
            try await eventually("the others are registered once it is back") {
                try await fleet.deleted(Array(stranded)) == 0
            }
            // Those who have come meanwhile may be among the audience.
            try await eventually("and the audience is sent, nobody twice") {
                let accepted = fleet.accepted(of: all)
                return devices.allSatisfy { accepted[$0.ledgerToken] != nil }
            }
            #expect(fleet.accepted(of: all).values.allSatisfy { $0 == 1 })
            for service in [dispatcher, feedback, registration] { try await service.terminate() }
        }
    }

    /// A send to everyone on a slow route, in a home that lives on, whose dispatcher has one unit in hand. A master falls silent that has devices
    /// of this unit.
    private struct HeldSend {
        let fleet: Fleet
        let id: String
        let victim: RedisServer
        let dispatcher: ServiceProcess
        let feedback: ServiceProcess
        let devices: [SampleDevice]
        /// The devices all of whose units need living masters only: a unit that needs another waits as a whole.
        let reached: [SampleDevice]

        var accepted: [String: Int] { self.fleet.accepted(of: self.id) }

        static func with(_ body: (HeldSend) async throws -> Void) async throws {
            var configuration = PartialRedisTests.threeMasters
            // Each unit takes longer than a record counts as recent.
            configuration.rates.applePerSecond = 50
            try await Fleet.with(configuration) { fleet in
                let redis = try #require(fleet.redisCluster)
                let keyspace = fleet.installation.keyspace
                let devices = try await fleet.register(1_200, providers: [.apns])
                let feedback = try await fleet.startFeedback()
                // A unit that keeps the only place keeps all others waiting.
                let dispatcher = try await fleet.startDispatcher(["units_in_hand": "1", "lease": "2s"])
                let victim = try await PartialRedisTests.victim(redis, fleet)
                let lost = try await PartialRedisTests.tags(of: victim, fleet)
                let isReached = { (device: SampleDevice) in
                    !lost.contains(keyspace.tag(partition: keyspace.partition(app: Fleet.app, id: device.id)))
                }
                let id = try #require(
                    (0..<100).map { "all\($0)" }.first { id in
                        !lost.contains(fleet.installation.streams.home(app: Fleet.app, id).tag)
                    }
                )
                try await fleet.send(.everyone([]), id: id)
                try await eventually("all are planned") {
                    try await fleet.ledger(of: id).map { !$0.isPlanning && $0.planned == 1_200 } ?? false
                }
                let units = try await Self.partitionsOfUnits(of: id, fleet)
                #expect(!units.isEmpty)
                let waiting = Set(
                    units.filter { unit in unit.contains { lost.contains(keyspace.tag(partition: $0)) } }.joined()
                )
                let send = HeldSend(
                    fleet: fleet,
                    id: id,
                    victim: victim,
                    dispatcher: dispatcher,
                    feedback: feedback,
                    devices: devices,
                    reached: devices.filter { !waiting.contains(keyspace.partition(app: Fleet.app, id: $0.id)) },
                )
                #expect(!send.reached.isEmpty)
                let stranded = devices.filter { !isReached($0) }
                try await eventually("a unit has begun that will need the master again", timeout: .seconds(60)) {
                    let accepted = send.accepted
                    return stranded.contains { accepted[$0.ledgerToken] != nil }
                }
                victim.suspend()
                try await body(send)
            }
        }

        /// Returns the partitions that each unit of a send needs, before any of them has ended.
        private static func partitionsOfUnits(of id: String, _ fleet: Fleet) async throws -> [Set<Int>] {
            let keys = fleet.installation.streams.home(app: Fleet.app, id)
            let number = try await fleet.installation.streams.routes.number(of: PartialRedisTests.route)
            let range = RedisCommand("XRANGE", .text(keys.work(number, .bulk)), "-", "+")
            return try await fleet.client.send(range, on: keys.tag).root.children.map { entry in
                let unit = try WorkUnit.decode(try #require(entry.element(1)?.element(1)?.bytes))
                guard case .segments(let segments) = unit.recipients else { return [] }
                return Set(segments.map { Int($0.partition) })
            }
        }
    }

    @Test func `A unit that waits for a master which is away keeps no other waiting, and is cancelled all the same`()
        async throws
    {
        try await HeldSend.with { send in
            let fleet = send.fleet
            try await eventually("devices of living masters are sent to", timeout: .seconds(90)) {
                let accepted = send.accepted
                return send.reached.allSatisfy { accepted[$0.ledgerToken] == 1 }
            }
            let key = SendKey(app: Fleet.app, id: send.id)
            let home = fleet.installation.streams.home(app: Fleet.app, send.id)
            _ = try await fleet.installation.streams.control.apply(.cancel, to: key, at: home)
            let ledger = try await fleet.completion(of: send.id, timeout: .seconds(90))
            let accepted = send.accepted
            #expect(accepted.count < send.devices.count && accepted.values.allSatisfy { $0 == 1 })
            #expect(ledger.total(.accepted) == UInt64(accepted.count))
            #expect(ledger.total(.cancelled) == UInt64(send.devices.count - accepted.count))
            // The unit says so once, at its last try.
            let warnings = send.dispatcher.log.split(separator: "\n").filter { $0.contains("cannot be read again") }
            let tries = StreamLimits.outagesPerDeliveryMax + 1
            #expect(!warnings.isEmpty && warnings.allSatisfy { $0.contains("\"tries\":\"\(tries)\"") })
            send.victim.resume()
            for service in [send.dispatcher, send.feedback] { try await service.terminate() }
        }
    }

    @Test func `A dispatcher that stops while a unit waits for a master which is away repeats nothing`() async throws {
        try await HeldSend.with { send in
            // Its records are too old by then. Nothing but time tells of that while the master does not answer.
            try await Task.sleep(for: .milliseconds(2_500))
            try await send.dispatcher.terminate()
            #expect(!send.dispatcher.log.contains("handing back what has not ended"))
            send.victim.resume()
            let dispatcher = try await send.fleet.startDispatcher()
            let ledger = try await send.fleet.completion(of: send.id, timeout: .seconds(120))
            #expect(ledger.total(.accepted) == UInt64(send.devices.count))
            let accepted = send.accepted
            #expect(accepted.count == send.devices.count && accepted.values.allSatisfy { $0 == 1 })
            for service in [dispatcher, send.feedback] { try await service.terminate() }
        }
    }

    @Test func `A send that cannot be planned or read because a master is away is cancelled all the same`() async throws
    {
        try await Fleet.with(Self.threeMasters) { fleet in
            let redis = try #require(fleet.redisCluster)
            let (keyspace, streams) = (fleet.installation.keyspace, fleet.installation.streams)
            let victim = try await Self.victim(redis, fleet)
            let lost = try await Self.tags(of: victim, fleet)
            func isLost(_ name: String) -> Bool {
                lost.contains(keyspace.tag(partition: keyspace.partition(app: Fleet.app, id: name)))
            }
            /// Returns the first id of a send whose home lives on.
            func id(_ prefix: String) throws -> String {
                let ids = (0..<100).map { "\(prefix)\($0)" }
                return try #require(ids.first { !lost.contains(streams.home(app: Fleet.app, $0).tag) })
            }
            let topic = try #require((0..<100).map { "topic\($0)" }.first { isLost($0) })
            let devices = try await fleet.register(200, providers: [.apns], topics: { _ in [topic] })
            let reached = UInt64(devices.count { !isLost($0.id) })
            #expect(reached > 0 && reached < 200)

            // Units wait that no process has read when the master goes.
            try await fleet.pauseRoutes(providers: [.apns])
            let feedback = try await fleet.startFeedback()
            let (topical, listed, everyone) = (try id("topic"), try id("list"), try id("all"))
            let former = try await fleet.startDispatcher()
            try await fleet.send(.topic(topic), id: topical)
            try await eventually("the topic's devices are planned") {
                try await fleet.ledger(of: topical).map { !$0.isPlanning && $0.planned == 200 } ?? false
            }
            try await former.terminate()
            await victim.kill()
            let dispatcher = try await fleet.startDispatcher(["lease": "2s"])
            try await fleet.send(.devices(devices.map(\.id)), id: listed)
            try await fleet.send(.everyone([]), id: everyone)
            try await eventually("as much is planned as can be", timeout: .seconds(60)) {
                // A send without a ledger is looked for on all masters.
                guard let ledger = try? await fleet.ledger(of: everyone), ledger.planned == reached else {
                    return false
                }
                return (try? await fleet.ledger(of: listed)) != nil
            }

            let sends = [topical, listed, everyone]
            for send in sends {
                let key = SendKey(app: Fleet.app, id: send)
                _ = try await streams.control.apply(.cancel, to: key, at: streams.home(app: Fleet.app, send))
            }
            for send in sends {
                let ledger = try await fleet.completion(of: send, timeout: .seconds(90))
                #expect(ledger.total(.cancelled) == ledger.planned && fleet.accepted(of: send).isEmpty, "\(send)")
            }
            try await victim.restart()
            for service in [dispatcher, feedback] { try await service.terminate() }
        }
    }

    @Test func `A command sends while the audit trail is away, and says that it has no entry there`() async throws {
        try await Fleet.with(Self.threeMasters) { fleet in
            let redis = try #require(fleet.redisCluster)
            let trail = HashTag(ofKey: StreamKeys.keyAudit(of: Fleet.app))
            let victim = try await redis.owner(ofSlot: trail.slot)
            let lost = try await Self.tags(of: victim, fleet)
            let id = (0...).lazy.map { "s\($0)" }.first { id in
                !lost.contains(fleet.installation.streams.home(app: Fleet.app, id).tag)
            }
            let living = try #require(id)
            await victim.kill()
            let words = ["send", "--app", Fleet.app, "--topic", "news", "--title", "Hi", "--id", living]
            let answer = try OperatorProgram.run(words + ["--redis", redis.url])
            #expect(answer.code == 0 && answer.lines == [living], "\(answer.talk)")
            #expect(answer.talk.contains("the send has no entry there"), "\(answer.talk)")
        }
    }

    /// Returns the number of function calls that a server has got.
    private static func callCount(_ server: RedisServer) async throws -> Int {
        let statistics = try await server.command("INFO", "commandstats").root.text()
        return statistics.split(whereSeparator: \.isNewline).filter { $0.hasPrefix("cmdstat_fcall") }
            .flatMap { $0.split(whereSeparator: { ":,".contains($0) }) }
            .filter { $0.hasPrefix("calls=") }
            .reduce(0) { $0 + (Int($1.dropFirst(6)) ?? 0) }
    }

    @Test
    func `Services start while two of five masters are away, and while three are, as soon as one of those is back`()
        async throws
    {
        var configuration = LocalClusterConfiguration()
        configuration.masters = 5
        configuration.replicas = 0
        configuration.hasRedisUsers = true
        configuration.redis.isAppendOnly = true
        configuration.redis.settings["cluster-require-full-coverage"] = "no"
        configuration.keyspace = Keyspace(queueShards: 10, devicePartitions: 10)
        try await Fleet.with(configuration) { fleet in
            let redis = try #require(fleet.redisCluster)
            let keyspace = fleet.installation.keyspace
            let devices = try await fleet.register(60, providers: [.apns])

            // They have the sizes of the installation and the numbers of routes. The rate of the route must be elsewhere.
            let victims = [
                try await redis.owner(ofSlot: HashTag(ofKey: ApusMeta.key).slot),
                try await redis.owner(ofSlot: HashTag(ofKey: StreamKeys.routes).slot),
            ]
            #expect(victims[0] !== victims[1])
            var lost = Set<HashTag>()
            for victim in victims { lost.formUnion(try await Self.tags(of: victim, fleet)) }
            let routes = fleet.installation.streams.routes
            for filler in 0..<keyspace.queueShards {
                let name = Route(app: try AppID("filler\(filler)"), provider: .apns, environment: .production)
                let next = RouteNumber(try await routes.number(of: name).value + 1)
                if !lost.contains(fleet.installation.streams.keys(ofRoute: next).tag) { break }
            }
            let route = Route(app: try AppID(Fleet.app), provider: .apns, environment: .production)
            let number = try await routes.number(of: route)
            let keys = fleet.installation.streams.keys(ofRoute: number)
            #expect(!lost.contains(keys.tag))
            let quarantine = RedisCommand("HSET", .text(keys.route(number)), "quarantined_at", "1")
            _ = try await fleet.client.send(quarantine, on: keys.tag)
            // It gives the routes their numbers, and copies them.
            try await fleet.startDispatcher().terminate()

            for victim in victims { await victim.kill() }
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let (registration, _) = try await fleet.startRegistration()
            for service in [dispatcher, feedback, registration] {
                let (_, text) = try await service.get("/readyz")
                for victim in victims {
                    #expect(text.contains("127.0.0.1:\(victim.port)"), "\(service.name): \(text)")
                }
            }
            // The list of routes is away, and feedback looks after those of living masters.
            try await eventually("the quarantine of the route is told") {
                try await feedback.metric("apus_feedback_quarantined_routes", "route=\"\(route)\"") == 1
            }
            let end = RedisCommand("HDEL", .text(keys.route(number)), "quarantined_at")
            _ = try await fleet.client.send(end, on: keys.tag)
            let reached = devices.filter {
                !lost.contains(keyspace.tag(partition: keyspace.partition(app: Fleet.app, id: $0.id)))
            }
            let free = reached.enumerated().map { (id: "s\($0)", device: $1) }.filter {
                !lost.contains(fleet.installation.streams.home(app: Fleet.app, $0.id).tag)
            }
            #expect(free.count > 5)
            for send in free { try await fleet.send(.devices([send.device.id]), id: send.id, lane: .express) }
            // A publisher that comes now can read neither the sizes nor the list of apps.
            let publisher = try await Publisher(redis: fleet.redisURL)
            let late = (0...).lazy.map { "late\($0)" }.first { id in
                !lost.contains(fleet.installation.streams.home(app: Fleet.app, id).tag)
            }
            let command = fleet.command(.devices([free[0].device.id]), id: try #require(late))
            _ = try await publisher.publish(command, lane: .express)
            await publisher.close()
            try await eventually("the sends of living masters are delivered") {
                (free.map(\.id) + [command.id]).allSatisfy { fleet.accepted(of: $0).count == 1 }
            }
            for victim in victims { try await victim.restart() }
            try await Self.reachAll(devices, "back", fleet)
            for service in [dispatcher, feedback, registration] { try await service.terminate() }

            // Without a majority of its masters the cluster answers nobody.
            let most = Array(redis.masters.prefix(3))
            for master in most { await master.kill() }
            async let starting = (fleet.startDispatcher(), fleet.startFeedback())
            for master in most { try await master.restart() }
            let services = try await starting
            try await Self.reachAll(devices, "again", fleet)
            try await services.0.terminate()
            try await services.1.terminate()
        }
    }

    /// Sends to every device, and waits until each is reached once.
    private static func reachAll(_ devices: [SampleDevice], _ prefix: String, _ fleet: Fleet) async throws {
        for device in devices {
            let id = "\(prefix)-\(device.id)"
            try await eventually("\(id) is taken") {
                (try? await fleet.send(.devices([device.id]), id: id, lane: .express)) != nil
            }
        }
        try await eventually("everybody is reached") {
            devices.allSatisfy { fleet.accepted(of: "\(prefix)-\($0.id)").count == 1 }
        }
    }

    /// Three masters without replicas, each of which serves while others are away.
    private static var threeMasters: LocalClusterConfiguration {
        var configuration = LocalClusterConfiguration()
        configuration.masters = 3
        configuration.replicas = 0
        configuration.redis.isAppendOnly = true
        // Without it one missing master stops all of them.
        configuration.redis.settings["cluster-require-full-coverage"] = "no"
        configuration.keyspace = Keyspace(queueShards: 6, devicePartitions: 6)
        return configuration
    }

    private static var route: Route {
        get throws { Route(app: try AppID(Fleet.app), provider: .apns, environment: .production) }
    }

    /// Returns a master that may be away: neither the one that has the table of the installation, which a service needs to start, nor the
    /// one that has the route's rate, without which a route stops.
    private static func victim(_ redis: RedisCluster, _ fleet: Fleet) async throws -> RedisServer {
        let number = try await fleet.installation.streams.routes.number(of: Self.route)
        let needed = [HashTag(ofKey: ApusMeta.key), fleet.installation.streams.keys(ofRoute: number).tag]
        var owners: [RedisServer] = []
        for tag in needed { owners.append(try await redis.owner(ofSlot: tag.slot)) }
        return try #require(redis.masters.first { master in !owners.contains { $0 === master } })
    }

    /// Returns the tags of queue shards and partitions that a master holds.
    private static func tags(of master: RedisServer, _ fleet: Fleet) async throws -> Set<HashTag> {
        let keyspace = fleet.installation.keyspace
        let shards = (0..<keyspace.queueShards).map { keyspace.tag(shard: $0) }
        let all = shards + (0..<keyspace.devicePartitions).map { keyspace.tag(partition: $0) }
        let endpoint = RedisCluster.endpoint(master)
        return Set(all.filter { fleet.client.topology.endpoint(forSlot: $0.slot) == endpoint })
    }
}
