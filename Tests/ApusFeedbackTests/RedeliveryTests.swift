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

/// Outcomes that come again and again, to feedbacks that die in between.
@Suite struct RedeliveryTests {
    private static let batches = 60

    /// A feedback of its own: what is in hand when its connections are closed ends where it is, as with a process that is killed.
    fileprivate struct Process {
        let client: RedisClient
        let handler: OutcomeHandler

        static func start(_ server: RedisServer, _ name: String) async throws -> Process {
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: logger,
            )
            let installation = try await Installation(client, clock: SystemClock())
            return Process(client: client, handler: HandlerFixture.handler(installation, name: name, logger))
        }

        /// Works off all at once; what fails stays with whoever owns it.
        func handle(_ entries: [StreamEntry]) async {
            await withTaskGroup(of: Void.self) { group in
                for entry in entries { group.addTask { try? await self.handler.handle(entry) } }
            }
        }
    }

    /// One of each kind of outcome, and the device whose token is dead.
    private static func batch(_ index: Int, _ device: StoredDevice) -> OutcomeBatch {
        var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
        batch.unit = "{q}work:1:bulk/\(index)-0"
        batch.sequence = 1
        batch.receiptLevel = .recipients
        batch.counts = [
            OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 3),
            OutcomeCount(provider: .apns, outcome: .unregistered, reason: .unregistered, count: 1),
            OutcomeCount(provider: .apns, outcome: .rejected, reason: .payload, count: 1),
        ]
        let asOf = device.registeredAt.advanced(byMilliseconds: 1)
        batch.unregistered = [
            TokenVerdict(
                place: .device(device.reference),
                tokenDigest: DeviceToken.digest(device.record.token),
                asOf: asOf,
                reason: .unregistered,
                providerReason: "Unregistered",
            )
        ]
        batch.recipients = [
            RecipientOutcome(place: .device(device.reference), outcome: .unregistered, reason: .unregistered, at: asOf)
        ]
        return batch
    }

    @Test func `Each batch is delivered three times, feedback dies in between, and everything counts once`()
        async throws
    {
        try await RedisServer.with { server in
            let first = try await Process.start(on: server)
            let (handler, keys) = (first.handler, first.handler.keys)
            let app = try AppID("shop")
            let operatorClient = first.operatorClient
            var devices: [StoredDevice] = []
            for index in 0..<Self.batches {
                let token = String(repeating: "0", count: 60) + String(0x1000 + index, radix: 16)
                let registration = DeviceRegistration(device: "d\(index)", provider: .apns, token: token)
                devices.append(try await handler.store.register(app, registration).device)
            }
            let planned = 5 * Self.batches
            let ledger = RedisCommand(
                "HSET",
                [
                    .text(keys.send("shop/s")), "app", "shop", "state", "running", "planning", "0", "planned",
                    .integer(planned), "closed", "0",
                ]
            )
            _ = try await operatorClient.send(ledger, on: keys.tag)
            for (index, device) in devices.enumerated() {
                let bytes = try Self.batch(index, device).encode()
                _ = try await operatorClient.send(
                    RedisCommand("XADD", .text(keys.outcomes), "*", "m", .bytes(bytes)),
                    on: keys.tag
                )
            }
            let reader = StreamReader(client: operatorClient, tag: keys.tag, consumer: handler.consumer)
            try await reader.ensure([keys.outcomes])
            let entries = try await reader.read(keys.outcomes, count: Self.batches)
            #expect(entries.count == Self.batches)

            // The first two die when a third, and two thirds, of the recipients are closed.
            func closed() async throws -> Int64 {
                try await operatorClient.send(RedisCommand("HGET", .text(keys.send("shop/s")), "closed"), on: keys.tag)
                    .root
                    .integer ?? 0
            }
            var process = Process(client: first.client, handler: handler)
            for (round, name) in ["second", "third"].enumerated() {
                let (victim, goal) = (process, Int64(planned * (round + 1) / 3))
                async let work: Void = victim.handle(entries)
                try await eventually("a share is closed") { try await closed() >= goal }
                await victim.client.close()
                await work
                // Whatever the dead one owned is the next one's; it is given all the rest as well, which it does not own.
                process = try await Process.start(server, name)
                let ids = entries.map { RedisArgument.text($0.id) }
                let claim = RedisCommand(
                    "XCLAIM",
                    [.text(keys.outcomes), .text(StreamGroup.feedback), .text(name), "0"] + ids
                )
                _ = try await operatorClient.send(claim, on: keys.tag)
            }
            await process.handle(entries)
            // And once more: the batch that completes the send gives the same answer until it is acknowledged.
            await process.handle(entries)

            let streams = handler.streams
            let reread = try #require(
                try await SendStreams(client: operatorClient, keyspace: streams.keyspace).outcomes.ledger(
                    app: "shop",
                    send: "s"
                )
            )
            #expect(reread.planned == UInt64(planned) && reread.state == .done && reread.total(.open) == 0)
            #expect(reread.total(.accepted) == UInt64(3 * Self.batches))
            #expect(reread.total(.unregistered) == UInt64(Self.batches))
            #expect(reread.total(.rejected) == UInt64(Self.batches))
            for device in devices {
                let id = try DeviceID(device.id)
                #expect(try await process.handler.store.get(app, id) == nil)
                // Told once at most: a process that dies right after the removal tells nobody.
                #expect(try await process.handler.store.history(app, id).count <= 1)
            }
            let receipts = try await HandlerFixture.receipts(operatorClient, handler)
            #expect(Set(receipts.filter { $0.kind == .final }.map(\.id)) == ["final:shop/s"])
            #expect(Set(receipts.filter { $0.kind == .recipients }.map(\.id)).count == Self.batches)
            let pending = RedisCommand("XPENDING", .text(keys.outcomes), .text(StreamGroup.feedback))
            #expect(try await operatorClient.send(pending, on: keys.tag).root.element(0)?.integer == 0)
            #expect(
                try await operatorClient.send(RedisCommand("XLEN", .text(keys.outcomes)), on: keys.tag).root.integer
                    == 0
            )
            await process.client.close()
            await operatorClient.close()
        }
    }
}

extension RedeliveryTests.Process {
    /// The first one, over a Redis that it lays out, and a connection that nobody closes.
    fileprivate static func start(
        on server: RedisServer
    ) async throws -> (client: RedisClient, handler: OutcomeHandler, operatorClient: RedisClient) {
        let operatorClient = try RedisClient(
            configuration: server.configuration,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        )
        try await Installation.initialize(operatorClient, keyspace: Keyspace(queueShards: 1, devicePartitions: 4))
        let first = try await Self.start(server, "first")
        return (first.client, first.handler, operatorClient)
    }
}
