internal import ApusCore
internal import ApusInstallation
internal import ApusMetrics
internal import ApusRedis
package import ApusService
internal import ApusStreams
internal import Logging
internal import ServiceLifecycle

/// Feedback: turns outcomes into effects: dead tokens pruned, ledgers moved, receipts written.
package struct Feedback: Service {
    private let context: ServiceContext<FeedbackSettings, FeedbackMetrics>

    /// The feedback service of a process.
    package init(_ context: ServiceContext<FeedbackSettings, FeedbackMetrics>) { self.context = context }

    /// Runs until a graceful shutdown, then until nothing is in hand.
    package func run() async throws {
        let logger = self.context.logger
        let clock = SystemClock()
        let settings = self.context.settings.current
        let client = try RedisClient(
            settings.common.redis,
            clientName: self.context.name.programName,
            eventLoopGroup: self.context.eventLoopGroup,
            logger: logger,
        )
        self.context.readiness.add("redis") { await .redis(client) }
        let installation = try await Installation.waiting(client, clock: clock, logger: logger)
        let consumer = StreamConsumer.ofThisProcess(group: StreamGroup.feedback)
        let shards = (0..<installation.keyspace.queueShards).map { shard in
            let handler = OutcomeHandler(
                keys: installation.streams.keys(shard: shard),
                streams: installation.streams,
                store: installation.store,
                consumer: consumer,
                settings: settings.own,
                metrics: self.context.metrics,
                shared: self.context.registry.shared,
                clock: clock,
                logger: logger,
            )
            return ShardConsumer(
                tag: handler.keys.tag,
                streams: installation.streams,
                consumer: consumer,
                feeds: [.init([handler.keys.outcomes], inHandMax: settings.own.batchesInHandMax, countPerRead: 16)],
                leaseMilliseconds: settings.own.leaseMilliseconds,
                observer: FeedbackObserver(context: self.context),
                logger: logger,
            ) { entry in
                try await handler.handle(entry)
            }
        }
        logger.notice("applying outcomes", metadata: ["shards": "\(shards.count)", "consumer": "\(consumer.name)"])
        await withGracefulShutdownHandler {
            await withTaskGroup(of: Void.self) { group in
                for shard in shards { group.addTask { await shard.run() } }
                await group.waitForAll()
            }
        } onGracefulShutdown: {
            for shard in shards { shard.stop() }
        }
        await client.close()
        logger.notice("drained")
    }
}

/// Counts what happens to the outcome streams.
private struct FeedbackObserver: StreamObserver {
    let context: ServiceContext<FeedbackSettings, FeedbackMetrics>

    func entriesRead(_ count: Int, stream: String) {
        let counter = self.context.commonMetrics.streams.entriesRead[GroupedStream(.outcomes)]
        self.context.registry.shared.add(Int64(count), to: counter)
    }

    func entryClaimed(stream: String) {
        self.context.registry.shared.add(
            to: self.context.commonMetrics.streams.entriesClaimed[GroupedStream(.outcomes)]
        )
    }

    func entriesVanished(_ count: Int, stream: String) {
        self.context.registry.shared.add(Int64(count), to: self.context.metrics.entriesVanished)
    }

    func groupLost() {
        self.context.registry.shared.add(to: self.context.metrics.groupsLost)
    }
}
