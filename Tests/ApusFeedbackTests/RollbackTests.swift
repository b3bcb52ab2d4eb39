import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Logging
import NIOPosix
import Testing

@testable import ApusFeedback

/// Tests what becomes of an outcome when a master comes back without the last writes: that of the device it is about, or its own.
@Suite(.serialized) struct RollbackTests {
    /// Without the barrier the outcome is gone, and the dead token stays.
    @Test(arguments: [true, false])
    func `A master forgets that a dead token was pruned, and the outcome is handled again`(isGuarded: Bool) async throws
    {
        let options = RedisServer.Options(isAppendOnly: true)
        try await RedisCluster.with(masters: 3, options) { cluster in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let client = try RedisClient(
                configuration: RedisConfiguration(url: cluster.url),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: logger,
            )
            try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 16))
            let installation = try await Installation(client, clock: SystemClock())
            let (app, store, keyspace) = (try AppID("shop"), installation.store, installation.keyspace)
            let barrier = ReplicaBarrier(client, patience: .milliseconds(300))
            let handler = HandlerFixture.handler(installation, barrier: isGuarded ? barrier : nil, logger)
            let home = handler.keys.tag
            let quarantine = installation.streams.keys(ofRoute: RouteNumber(1)).tag
            let owner = try await cluster.owner(ofSlot: home.slot)
            let victim = try #require(cluster.masters.first { $0 !== owner })
            func tag(_ id: String) -> HashTag { keyspace.tag(partition: keyspace.partition(app: app.text, id: id)) }
            let id = try #require(
                (0..<64).map { "d\($0)" }.first {
                    client.topology.endpoint(forSlot: tag($0).slot) == RedisCluster.endpoint(victim)
                }
            )
            let registration = DeviceRegistration(
                device: id,
                provider: .apns,
                token: String(repeating: "ab", count: 32)
            )
            let device = try await store.register(app, registration).device
            try await eventually("a replica has the device") {
                let ticket = barrier.ticket()
                return (try? await barrier.wait(for: [tag(id), quarantine], acknowledgedAt: home, since: ticket)) != nil
            }
            let replica = try await cluster.replica(of: victim)
            replica.suspend()

            var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
            batch.counts = [OutcomeCount(provider: .apns, outcome: .unregistered, reason: .unregistered, count: 1)]
            batch.unregistered = [
                TokenVerdict(
                    place: .device(device.reference),
                    tokenDigest: DeviceToken.digest(device.record.token),
                    asOf: device.registeredAt.advanced(byMilliseconds: 1),
                    reason: .unregistered,
                    providerReason: "Unregistered",
                )
            ]
            batch.isFinal = true
            batch.planned = 1
            let entry = try await HandlerFixture.deliver(batch, client, handler)
            if isGuarded {
                let error = await #expect(throws: RedisError.self) { try await handler.handle(entry) }
                #expect(error?.disposition == .retryLater, "\(String(describing: error))")
            } else {
                try await handler.handle(entry)
            }
            #expect(try await store.get(app, try DeviceID(id)) == nil)

            // The bytes that the replica had not read yet are gone with it.
            await victim.kill()
            await replica.kill()
            try await replica.restart()
            try await cluster.untilMaster(replica)
            try await eventually("the device is back") {
                (try? await store.get(app, try DeviceID(id))) != nil
            }
            func count(_ command: String) async throws -> Int64? {
                let question = RedisCommand(command, .text(handler.keys.outcomes))
                return try await client.send(question, on: handler.keys.tag, options: .idempotent).root.integer
            }
            if isGuarded {
                #expect(try await count("XLEN") == 1)
                try await eventually("it is handled again") { (try? await handler.handle(entry)) != nil }
                #expect(try await store.get(app, try DeviceID(id)) == nil)
            } else {
                #expect(try await store.get(app, try DeviceID(id)) != nil)
            }
            #expect(try await count("XLEN") == 0)
            await handler.history.flush()
            await barrier.close()
            await client.close()
        }
    }

    @Test(arguments: [true, false])
    func `A receipt that a server forgets before its acknowledgement is written again`(isDirect: Bool) async throws {
        try await RedisServer.with { server in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            func connect() throws -> RedisClient {
                try RedisClient(
                    configuration: server.configuration,
                    eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                    logger: logger,
                )
            }
            let client = try connect()
            try await Installation.initialize(client, keyspace: Keyspace(queueShards: 1, devicePartitions: 1))
            let installation = try await Installation(client, clock: SystemClock())
            let handler = HandlerFixture.handler(installation, logger)
            let keys = handler.keys
            // The server is another one when the acknowledgement comes: as it was at the last `SAVE`.
            let held = CallBatcher<OutcomeHandler.Acknowledgement, Result<Bool, any Error>>(countMax: 1) { requests in
                try await server.restart()
                return [try await handler.acknowledgements.answer(to: requests[0])]
            }
            let interrupted = HandlerFixture.handler(installation, acknowledgements: held, logger)
            var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
            batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
            (batch.isFinal, batch.planned) = (isDirect, 1)
            if !isDirect {
                let fields: [RedisArgument] = [
                    "app", "shop", "state", "running", "planning", "0", "planned", 1, "closed", "0",
                ]
                _ = try await client.send(RedisCommand("HSET", [.text(keys.send("shop/s"))] + fields), on: keys.tag)
            }
            let entry = try await HandlerFixture.deliver(batch, client, handler)
            _ = try await server.command("SAVE")
            let error = await #expect(throws: RedisError.self) { try await interrupted.handle(entry) }
            #expect(error?.code == .serverChanged)
            func receipts() async throws -> [String] {
                let reply = try await server.command("XRANGE", .text(keys.receipts), "-", "+")
                return try reply.root.children.map { try SendReceipt.decode($0[1][1].bytes ?? []).id }
            }
            #expect(try await receipts() == [])
            #expect(try await server.command("XLEN", .text(keys.outcomes)).root.integer == 1)
            // The same consumer, by connections that never led to another server.
            let later = try connect()
            try await HandlerFixture.handler(Installation(later, clock: SystemClock()), logger).handle(entry)
            #expect(try await receipts() == ["final:shop/s"])
            #expect(try await server.command("XLEN", .text(keys.outcomes)).root.integer == 0)
            await later.close()
            await client.close()
        }
    }
}
