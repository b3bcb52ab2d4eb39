import ApusCore
import ApusInstallation
import ApusMessages
import ApusMetrics
import ApusRedis
import ApusService
import ApusStore
import ApusStreams
import ApusTestKit
import Logging
import NIOPosix
import Testing

@testable import ApusFeedback

/// A redis-server with an installation, one registered device "d" of "shop", and a handler that is not bound to a service.
struct HandlerFixture: Sendable {
    let installation: Installation
    let client: RedisClient
    let handler: OutcomeHandler
    let device: StoredDevice

    static func with(
        deletingSuspectsAfter delay: Int64 = 600_000,
        progress: ProgressRules = ProgressRules(everyMilliseconds: 0, percent: 25),
        _ body: (HandlerFixture) async throws -> Void,
    ) async throws {
        try await RedisServer.with { server in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: logger,
            )
            try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 4))
            let installation = try await Installation(client, clock: SystemClock())
            let registration = DeviceRegistration(
                device: "d",
                provider: .apns,
                token: String(repeating: "ab", count: 32)
            )
            let device = try await installation.store.register(try AppID("shop"), registration).device
            let handler = Self.handler(installation, deletingSuspectsAfter: delay, progress: progress, logger)
            try await body(
                HandlerFixture(installation: installation, client: client, handler: handler, device: device)
            )
            await client.close()
        }
    }

    static func handler(
        _ installation: Installation,
        name: String = "f",
        deletingSuspectsAfter delay: Int64 = 600_000,
        progress: ProgressRules? = nil,
        barrier: ReplicaBarrier? = nil,
        acknowledgements: CallBatcher<OutcomeHandler.Acknowledgement, Result<Bool, any Error>>? = nil,
        _ logger: Logger,
    ) -> OutcomeHandler {
        var catalogue = MetricCatalogue()
        let build = BuildInformation(service: "test", version: "0", revision: "0", swiftVersion: "6")
        _ = catalogue.declare { CommonMetrics(build: build, reading: [.outcomes]) }
        let metrics = FeedbackMetrics(&catalogue)
        let shared = MetricRegistry(catalogue).shared
        let history = HistoryWriter(
            store: installation.store,
            rules: DeviceStore.HistoryRules(keepMilliseconds: 60_000),
            logger: logger
        )
        let rules = GuardRules(
            windowMilliseconds: 60_000,
            delayMilliseconds: delay,
            tokensMin: 20,
            percentMax: 10,
            deadPercentMax: 50,
        )
        let massFailureGuard = MassFailureGuard(
            streams: installation.streams,
            store: installation.store,
            history: history,
            rules: rules,
            undo: .default,
            metrics: metrics,
            shared: shared,
            logger: logger,
        )
        let keys = installation.streams.keys(shard: 0)
        let streams = barrier.map { installation.streams.guarded(by: $0) } ?? installation.streams
        let consumer = StreamConsumer(group: StreamGroup.feedback, name: name)
        return OutcomeHandler(
            keys: keys,
            streams: streams,
            store: installation.store,
            massFailureGuard: massFailureGuard,
            history: history,
            consumer: consumer,
            acknowledgements: acknowledgements ?? OutcomeHandler.acknowledgements(streams, keys, consumer, on: nil),
            settings: FeedbackSettings(
                leaseMilliseconds: 10_000,
                batchesInHandMax: 4,
                ledgerMilliseconds: 60_000,
                history: DeviceStore.HistoryRules(keepMilliseconds: 60_000),
                progress: progress,
            ),
            metrics: metrics,
            shared: shared,
            clock: SystemClock(),
            logger: logger,
        )
    }

    /// Writes a batch and reads it as the handler's consumer.
    static func deliver(
        _ batch: OutcomeBatch,
        _ client: RedisClient,
        _ handler: OutcomeHandler,
    ) async throws -> StreamEntry {
        try await self.deliver(try batch.encode(), client, handler)
    }

    static func deliver(
        _ message: [UInt8],
        _ client: RedisClient,
        _ handler: OutcomeHandler,
    ) async throws -> StreamEntry {
        let keys = handler.keys
        let reader = StreamReader(client: client, tag: keys.tag, consumer: handler.consumer)
        try await reader.ensure([keys.outcomes])
        _ = try await client.send(
            .init("XADD", .text(keys.outcomes), "*", "m", .bytes(message)),
            on: keys.tag
        )
        let connection = client.blockingConnection(for: keys.tag)
        let entries = try await reader.read([keys.outcomes], count: 1, blockMilliseconds: 100, on: connection)
        await connection.close()
        return try #require(entries.first)
    }

    static func receipts(_ client: RedisClient, _ handler: OutcomeHandler) async throws -> [SendReceipt] {
        let reply = try await client.send(.init("XRANGE", .text(handler.keys.receipts), "-", "+"), on: handler.keys.tag)
        return try reply.root.children.map { try SendReceipt.decode($0[1][1].bytes ?? []) }
    }

    /// Delivers a batch and lets the handler work it off.
    func apply(_ batch: OutcomeBatch) async throws {
        try await self.handler.handle(try await Self.deliver(batch, self.client, self.handler))
        await self.handler.history.flush()
    }

    /// Works off the next batch that somebody else wrote.
    func applyNext() async throws {
        let keys = self.handler.keys
        let reader = StreamReader(client: self.client, tag: keys.tag, consumer: self.handler.consumer)
        try await reader.ensure([keys.outcomes])
        let entries = try await reader.read(keys.outcomes, count: 1)
        try await self.handler.handle(try #require(entries.first))
        await self.handler.history.flush()
    }

    func receipts() async throws -> [SendReceipt] { try await Self.receipts(self.client, self.handler) }

    /// The ledger of a planned send whose recipients are all found.
    func makeLedger(of send: String, planned: Int) async throws {
        let keys = self.handler.keys
        let command = RedisCommand(
            "HSET",
            [
                .text(keys.send(SendKey(app: "shop", id: send))), "app", "shop", "state", "running", "planning", "0",
                "planned",
                .integer(planned), "closed", "0",
            ]
        )
        _ = try await self.client.send(command, on: keys.tag)
    }
}
