import ApusCore
import ApusRedis
import ApusTestKit
import Logging
import NIOPosix
import Synchronization
import Testing

@testable import ApusInstallation

/// Tests that services know an installation while the masters of its tables are away.
@Suite struct InstallationCopiesTests {
    private static let meta = ApusMeta(Keyspace(queueShards: 6, devicePartitions: 12))
    private static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    @Test func `A copy is read as it was written`() {
        let content = InstallationCopies.Content(meta: Self.meta, routes: ["shop/apns/production": RouteNumber(7)])
        #expect(InstallationCopies.Content(fields: content.fields) == content)
        #expect(content.fields["shop/apns/production"] == "7")
    }

    @Test(arguments: [
        [:], ["version": "1"], ["version": "2", "queue_shards": "6", "device_partitions": "12"],
        ["version": "1", "queue_shards": "0", "device_partitions": "12"],
        ["version": "1", "queue_shards": "6", "device_partitions": "12", "shop/apns/production": "x"],
    ])
    func `A damaged copy is none`(fields: [String: String]) {
        #expect(InstallationCopies.Content(fields: fields) == nil)
    }

    @Test func `Copies are joined, unless two contradict each other`() throws {
        func content(_ routes: [String: UInt32], _ meta: ApusMeta = Self.meta) -> InstallationCopies.Content {
            InstallationCopies.Content(meta: meta, routes: routes.mapValues { RouteNumber($0) })
        }
        let (one, two) = (["a/apns/production": UInt32(1)], ["b/fcm/production": UInt32(2)])
        #expect(try InstallationCopies.Content.joined([]) == nil)
        let joined = try InstallationCopies.Content.joined([content(one), content(two), content([:])])
        #expect(joined == content(one.merging(two) { $1 }))
        let other = ApusMeta(Keyspace(queueShards: 6, devicePartitions: 13))
        for contradicting in [content(["a/apns/production": 2]), content(one, other)] {
            let failure = #expect(throws: RedisError.self) {
                try InstallationCopies.Content.joined([content(one), contradicting])
            }
            #expect(failure?.code == .layoutMismatch)
            #expect(failure?.message.hasSuffix("run `apus init`") == true, "nothing of the sentence is cut off")
        }
    }

    @Test(arguments: [RedisError.Code.notConnected, .outOfMemory])
    func `A setup keeps no slot waiting for another, and ends when the last one has answered`(
        _ code: RedisError.Code,
    ) async throws {
        let tags = Keyspace(queueShards: 3, devicePartitions: 1).shardTags
        let away = Mutex([tags[1]])
        let calls = Mutex([HashTag: Int]())
        var setup = SlotSetup("test", in: tags) { tag throws(RedisError) in
            calls.withLock { $0[tag, default: 0] += 1 }
            if away.withLock({ $0.contains(tag) }) { throw RedisError(code, "away") }
        }
        #expect(try await setup.attempt()?.code == code)
        #expect(setup.tags == [tags[1]])
        #expect(try await setup.attempt()?.code == code)
        away.withLock { $0 = [] }
        await setup.run(Self.logger)
        #expect(setup.tags.isEmpty)
        #expect(calls.withLock { $0 } == [tags[0]: 1, tags[1]: 3, tags[2]: 1])
    }

    @Test func `A setup that waiting does not cure fails`() async throws {
        let tags = Keyspace(queueShards: 2, devicePartitions: 1).shardTags
        var setup = SlotSetup("test", in: tags) { tag throws(RedisError) in
            throw RedisError(tag == tags[0] ? .notConnected : .noPermission, "no")
        }
        await #expect(throws: RedisError.self) { try await setup.attempt() }
        #expect(setup.tags == tags)
    }

    @Test func `The sizes come from a copy while the master that has them is away`() async throws {
        var options = RedisServer.Options()
        options.settings["cluster-require-full-coverage"] = "no"
        // Of five, three are left in the end: a majority.
        try await RedisCluster.with(masters: 5, replicas: 0, options) { cluster in
            let configuration = try RedisConfiguration(url: cluster.url, clientName: "test")
            func with(_ body: (RedisClient) async throws -> Void) async throws {
                let client = try RedisClient(
                    configuration: configuration,
                    eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                    logger: Self.logger,
                )
                do { try await body(client) } catch {
                    await client.close()
                    throw error
                }
                await client.close()
            }
            let keyspace = Keyspace(queueShards: 6, devicePartitions: 12)
            try await with { try await Installation.initialize($0, keyspace: keyspace) }
            await (try await cluster.owner(ofSlot: HashTag(ofKey: ApusMeta.key).slot)).kill()
            try await with { client in
                #expect(try await Installation(client, clock: SystemClock()).keyspace == keyspace)
                let copies = InstallationCopies(client)
                let route = ["shop/apns/production": RouteNumber(3)]
                let content = InstallationCopies.Content(meta: ApusMeta(keyspace), routes: route)
                var setup = SlotSetup("copies", in: copies.tags) { tag throws(RedisError) in
                    try await copies.write(content, at: tag)
                }
                try await setup.attempt()
                #expect(!setup.tags.isEmpty && setup.tags.count < copies.tags.count)
                #expect(try await copies.read() == content)
                // The table of routes is needed for the demand, too.
                await (try await cluster.owner(ofSlot: HashTag(ofKey: "apus:routes").slot)).kill()
                let demand = DispatchDemand(try await Installation(client, clock: SystemClock()).streams)
                #expect(await demand.report()?.backlogByProvider == [.apns: 0])
            }
        }
    }
}
