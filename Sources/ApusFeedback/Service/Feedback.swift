internal import ApusCore
internal import ApusInstallation
internal import ApusMetrics
internal import ApusRedis
package import ApusService
internal import ApusStreams
internal import ApusTLS
internal import Logging
internal import NIOCore
internal import ServiceLifecycle
internal import Synchronization

/// The feedback service, which turns outcomes into effects: dead tokens pruned, ledgers moved, receipts written.
package struct Feedback: Service {
    private let context: ServiceContext<FeedbackSettings, FeedbackMetrics>
    private let start: StartCheck

    /// The time that outcomes are gathered under load, so that they are read and written together. The first one is read at once.
    private static let rest = Duration.milliseconds(50)

    /// Creates the feedback service of a process.
    package init(_ context: ServiceContext<FeedbackSettings, FeedbackMetrics>) {
        self.context = context
        self.start = context.addStartCheck()
    }

    /// Runs until a graceful shutdown, then until nothing is in hand.
    package func run() async throws {
        let logger = self.context.logger
        let clock = SystemClock()
        // Before the settings are read, so that no change is missed.
        let changes = self.context.settings.updates()
        let settings = self.context.settings.current
        self.context.renewal.setOpening { client throws(RedisError) in
            _ = try await Installation(client, clock: clock)
        }
        let client = try self.context.openRedis(settings.common.redis)
        self.context.addRedisCheck(client)
        // Here and not at the dispatchers, so that it answers also while none of them runs.
        let scale = ScalePage()
        self.context.pages.add("scale") { await scale.answer() }
        // Nothing is in hand yet, so a service that is asked to stop does not wait for Redis any more.
        guard
            let installation = try await unlessShutdown({
                try await Installation.waiting(client, clock: clock, logger: logger)
            })
        else {
            await firstWithin(ShutdownLimits.closingMax) { await client.close() }
            return
        }
        installation.setRecordKeys(settings.common.store.encryptionKeys)
        installation.countRefusedRecords(as: self.context.commonMetrics.refusedRecords, in: self.context.registry)
        let counts = StreamCounts(
            self.context.commonMetrics.streams,
            shared: self.context.registry.shared,
            vanished: self.context.metrics.entriesVanished,
            groupsLost: self.context.metrics.groupsLost,
        )
        self.context.readiness.add("streams") { [shardCount = installation.keyspace.queueShards] in
            await .reads(counts.unansweredReads, of: counts.shardsWithUnansweredReads, among: shardCount, client)
        }
        let statistics = StreamStatistics(
            installation.streams,
            labels: self.context.name.streams,
            metrics: self.context.commonMetrics.streams,
            shared: self.context.registry.shared,
            logger: logger,
        )
        self.context.registry.addCollector { await statistics.collect() }
        let consumer = StreamConsumer.ofThisProcess(group: StreamGroup.feedback)
        let heartbeat = ServiceHeartbeat(
            installation,
            consumer,
            version: BuildInformation.versionWithRevision,
            logger: logger,
            refusedConfiguration: { [settings = self.context.settings] in settings.refusal },
            problem: { [readiness = self.context.readiness] in await readiness.report().problem },
        )
        let availability = ServiceProcessGauges(
            processes: installation.streams.processes,
            metrics: self.context.metrics,
            shared: self.context.registry.shared,
        )
        self.context.registry.addCollector { await availability.collect() }
        scale.open(
            DispatchDemand(installation.streams, logger: logger) { [settings = self.context.settings] in
                settings.current.common.publishers.keys.sorted()
            }
        )
        let gate = PoisonGate()
        let barrier = ReplicaBarrier(client)
        let store = installation.store.guarded(by: barrier)
        let history = HistoryWriter(
            store: store,
            rules: settings.own.history,
            logger: logger,
        )
        let massFailureGuard = MassFailureGuard(
            streams: installation.streams,
            store: store,
            history: history,
            rules: settings.own.guardRules,
            undo: settings.own.undo,
            metrics: self.context.metrics,
            shared: self.context.registry.shared,
            logger: logger,
        )
        let executors = Array(self.context.eventLoopGroup.makeIterator()).map { LoopExecutor($0) }
        let shards = (0..<installation.keyspace.queueShards).map { shard in
            let site = ShardConsumer.Site(executor: executors[shard % executors.count], client: client)
            let keys = installation.streams.keys(shard: shard)
            let streams = installation.streams.observed(by: counts).guarded(by: barrier)
            let handler = OutcomeHandler(
                keys: keys,
                streams: streams,
                store: store,
                massFailureGuard: massFailureGuard,
                history: history,
                consumer: consumer,
                acknowledgements: OutcomeHandler.acknowledgements(streams, keys, consumer, on: site.executor),
                settings: settings.own,
                metrics: self.context.metrics,
                shared: self.context.registry.shared,
                spans: self.context.spans,
                clock: clock,
                logger: logger,
            )
            let eventHandler = EventHandler(
                keys: handler.keys,
                streams: handler.streams,
                consumer: consumer,
                metrics: self.context.metrics,
                shared: self.context.registry.shared,
                clock: clock,
                logger: logger,
            )
            return ShardConsumer(
                tag: handler.keys.tag,
                streams: installation.streams,
                consumer: consumer,
                feeds: [
                    .init(
                        handler.keys.outcomes,
                        inHandMax: settings.own.batchesInHandMax,
                        countPerRead: 16,
                        site: site,
                    ),
                    .init(
                        handler.keys.events,
                        inHandMax: settings.own.batchesInHandMax,
                        countPerRead: 64,
                        site: site,
                    ),
                ],
                leaseMilliseconds: settings.own.leaseMilliseconds,
                rest: Self.rest,
                gate: gate,
                observer: counts,
                logger: logger,
            ) { entry, _ in
                if entry.stream == handler.keys.events {
                    try await eventHandler.handle(entry)
                } else {
                    try await handler.handle(entry)
                }
            }
        }
        let sweeper = SendSweeper(
            streams: installation.streams,
            silenceMilliseconds: settings.own.silenceMilliseconds,
            metrics: self.context.metrics,
            shared: self.context.registry.shared,
            clock: clock,
            logger: logger,
        )
        let senders = try self.webhookSenders(installation, settings.own.webhook, counts, clock)
        self.start.pass()
        logger.notice("applying outcomes", metadata: ["shards": "\(shards.count)", "consumer": "\(consumer.name)"])
        await withGracefulShutdownHandler {
            await withTaskGroup(of: Void.self) { group in
                for shard in shards { group.addTask { await shard.run() } }
                group.addTask {
                    await untilShutdown {
                        for await new in changes { installation.setRecordKeys(new.common.store.encryptionKeys) }
                    }
                }
                group.addTask { await untilShutdown { await massFailureGuard.run() } }
                group.addTask { await untilShutdown { await sweeper.run() } }
                group.addTask(executorPreference: executors.first) { await untilShutdown { await history.run() } }
                group.addTask {
                    await untilShutdown { await heartbeat.run() }
                    await firstWithin(ShutdownLimits.closingMax) { await heartbeat.end() }
                }
                for sender in senders { group.addTask { await untilShutdown { await sender.run() } } }
                await group.waitForAll()
            }
        } onGracefulShutdown: {
            for shard in shards { shard.stop() }
        }
        await firstWithin(ShutdownLimits.closingMax) { await history.flush() }
        await firstWithin(ShutdownLimits.closingMax) {
            await barrier.close()
            await client.close()
        }
        logger.notice("drained")
    }

    /// Returns one webhook sender for each shard; none when no webhook is configured.
    private func webhookSenders(
        _ installation: Installation,
        _ settings: WebhookSettings?,
        _ counts: StreamCounts,
        _ clock: any WallClock,
    ) throws -> [WebhookSender] {
        guard let settings else { return [] }
        let trust = settings.caFile.map { TLSTrust.file($0) } ?? .system
        let client = WebhookClient(
            address: settings.address,
            tls: settings.address.isSecure ? try TLSContext.client(trust: trust) : nil,
            timeout: settings.timeout,
            eventLoopGroup: self.context.eventLoopGroup,
        )
        let consumer = StreamConsumer.ofThisProcess(group: StreamGroup.webhooks)
        let progress = WebhookProgress(self.context.metrics, shared: self.context.registry.shared)
        return (0..<installation.keyspace.queueShards).map { shard in
            WebhookSender(
                keys: installation.streams.keys(shard: shard),
                shard: shard,
                streams: installation.streams.observed(by: counts),
                consumer: consumer,
                client: client,
                settings: settings,
                retry: WebhookSender.retry(attemptsMax: settings.attemptsMax),
                lease: WebhookSender.lease(timeout: settings.timeout),
                progress: progress,
                metrics: self.context.metrics,
                shared: self.context.registry.shared,
                clock: clock,
                logger: self.context.logger,
            )
        }
    }
}

/// Answers at `/scale` how much waits for dispatchers, once the installation is known.
private final class ScalePage: Sendable {
    private let demand = Mutex<DispatchDemand?>(nil)

    /// Begins to answer.
    func open(_ demand: DispatchDemand) { self.demand.withLock { $0 = demand } }

    /// Returns the numbers; nil while there are none.
    func answer() async -> JSONObject? {
        guard let demand = self.demand.withLock({ $0 }) else { return nil }
        return await demand.report()?.json
    }
}
