import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

/// The services on a Redis Cluster of which a part is away.
@Suite(.serialized) struct PartialRedisTests {
    @Test func `While one of three masters is away, sends of the others go on, and its own when it is back`()
        async throws
    {
        var configuration = LocalClusterConfiguration()
        configuration.masters = 3
        configuration.replicas = 0
        configuration.redis.isAppendOnly = true
        // Without it one missing master stops all of them.
        configuration.redis.settings["cluster-require-full-coverage"] = "no"
        configuration.keyspace = Keyspace(queueShards: 6, devicePartitions: 6)
        try await Fleet.with(configuration) { fleet in
            let redis = try #require(fleet.redisCluster)
            let devices = try await fleet.register(60, providers: [.apns])
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            let (registration, _) = try await fleet.startRegistration()

            // Neither the one that has the table of the installation, which a service needs to start, nor the one that has the
            // route's rate: a route stops while that is away.
            let route = Route(app: try AppID(Fleet.app), provider: .apns, environment: .production)
            let number = try await fleet.installation.streams.routes.number(of: route)
            let needed = [HashTag(ofKey: ApusMeta.key), fleet.installation.streams.keys(ofRoute: number).tag]
            var owners: [RedisServer] = []
            for tag in needed { owners.append(try await redis.owner(ofSlot: tag.slot)) }
            let victim = try #require(redis.masters.first { master in !owners.contains { $0 === master } })
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
            for service in [feedback, dispatcher, registration] {
                let (status, text) = try await service.get("/readyz")
                #expect(status == 200, "\(service.name): \(text)")
                #expect(text.contains("127.0.0.1:\(victim.port)"), "\(service.name): \(text)")
            }

            try await victim.restart()
            for device in devices {
                let id = "back-\(device.id)"
                try await eventually("\(id) is taken") {
                    (try? await fleet.send(.devices([device.id]), id: id, lane: .express)) != nil
                }
            }
            try await eventually("everybody is reached") {
                devices.allSatisfy { fleet.accepted(of: "back-\($0.id)").count == 1 }
            }
            for service in [dispatcher, feedback, registration] { try await service.terminate() }
        }
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
