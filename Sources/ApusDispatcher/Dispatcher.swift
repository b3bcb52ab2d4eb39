internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusMetrics
internal import ApusProviders
internal import ApusRedis
package import ApusService
internal import ApusStore
internal import ApusStreams
internal import ApusTLS
internal import Logging
internal import NIOCore
internal import ServiceLifecycle

/// The dispatcher: takes send commands, finds whom they reach, sends, and writes down what became of each.
package struct Dispatcher: Service {
    private let context: ServiceContext<DispatcherSettings, DispatcherMetrics>

    /// The dispatcher of a process.
    package init(_ context: ServiceContext<DispatcherSettings, DispatcherMetrics>) { self.context = context }

    /// Runs until a graceful shutdown: reads no more, finishes what is on the wire, hands the rest back.
    package func run() async throws {
        let logger = self.context.logger
        let clock = SystemClock()
        let common = self.context.settings.current.common
        let client = try RedisClient(
            common.redis,
            clientName: self.context.name.programName,
            metrics: self.context.commonMetrics.redis,
            shared: self.context.registry.shared,
            eventLoopGroup: self.context.eventLoopGroup,
            logger: logger,
        )
        self.context.readiness.add("redis") { await .redis(client) }
        let installation = try await Installation.waiting(client, clock: clock, logger: logger)
        let routes = try await RouteBook(common.apps, streams: installation.streams)
        let counts = StreamCounts(
            self.context.commonMetrics.streams,
            shared: self.context.registry.shared,
            vanished: self.context.metrics.entriesVanished,
            groupsLost: self.context.metrics.groupsLost,
        )
        let census = StreamCensus(
            installation.streams,
            labels: self.context.name.streams,
            routes: routes.numbers,
            metrics: self.context.commonMetrics.streams,
            shared: self.context.registry.shared,
            clock: clock,
            logger: logger,
        )
        self.context.registry.addCollector { await census.collect() }
        let instruments = DispatcherInstruments(
            metrics: self.context.metrics,
            shared: self.context.registry.shared,
        )
        let workers = try await self.workers(routes, installation, clock, logger)
        self.context.registry.addCollector {
            for worker in workers { _ = try? await worker.onLoop { $0.collect() } }
        }
        let consumer = StreamConsumer.ofThisProcess(group: StreamGroup.dispatcher)
        let book = SendBook(streams: installation.streams, store: installation.store, routes: routes, clock: clock)
        let shards = (0..<installation.keyspace.queueShards).map { shard in
            let handler = DispatchHandler(
                keys: installation.streams.keys(shard: shard),
                streams: installation.streams.observed(by: counts),
                store: installation.store,
                book: book,
                routes: routes,
                consumer: consumer,
                worker: workers[shard % workers.count],
                settings: self.context.settings.current.own,
                instruments: instruments,
                clock: clock,
                logger: logger,
            )
            return DispatchedShard(handler: handler, routes: routes.numbers, observer: counts, logger: logger)
        }
        logger.notice(
            "dispatching",
            metadata: [
                "routes": "\(routes.numbers.count)", "shards": "\(shards.count)", "consumer": "\(consumer.name)",
            ],
        )
        await withGracefulShutdownHandler {
            await withTaskGroup(of: Void.self) { group in
                for shard in shards { group.addTask { await shard.run() } }
                await group.waitForAll()
            }
        } onGracefulShutdown: {
            for shard in shards { shard.stop() }
        }
        for worker in workers { await worker.drain() }
        await client.close()
        logger.notice("drained")
    }

    private func workers(
        _ routes: RouteBook,
        _ installation: Installation,
        _ clock: SystemClock,
        _ logger: Logger,
    ) async throws -> [WorkerHandle] {
        let own = self.context.settings.current.own
        let gateways = try GatewayFactory(
            apps: self.context.settings.current.common.apps,
            routes: routes,
            tokens: SharedTokens(client: installation.client),
            clock: clock,
            eventLoopGroup: self.context.eventLoopGroup,
            logger: logger,
        )
        var workers: [WorkerHandle] = []
        for eventLoop in self.context.eventLoopGroup.makeIterator() {
            let shard = self.context.registry.makeShard(on: eventLoop)
            let metrics = self.context.metrics
            let handle = try await eventLoop.submit {
                let worker = Worker(
                    eventLoop: eventLoop,
                    clock: clock,
                    flushInterval: .milliseconds(own.flushMilliseconds),
                    heartbeat: .milliseconds(own.heartbeatMilliseconds),
                    metrics: metrics,
                    shard: shard.value,
                )
                for entry in routes.apps.values.joined() {
                    worker.add(gateways.make(entry, on: eventLoop), for: entry.number)
                }
                return WorkerHandle(worker)
            }.get()
            workers.append(handle)
        }
        return workers
    }
}

/// One queue shard as the dispatcher runs it: its streams, and what is due in it.
struct DispatchedShard: Sendable {
    private let handler: DispatchHandler
    private let consumer: ShardConsumer
    private let logger: Logger

    init(handler: DispatchHandler, routes: [RouteNumber], observer: any StreamObserver, logger: Logger) {
        let keys = handler.keys
        let settings = handler.settings
        self.handler = handler
        self.logger = logger
        let stopFlag = StopFlag()
        // Express commands and plans have credits of their own: a long backlog of work keeps neither waiting.
        let work = routes.flatMap { [keys.work($0, .express), keys.work($0, .bulk)] }
        var feeds = [
            ShardConsumer.Feed([keys.mailbox(.express)], inHandMax: settings.commandsInHandMax, countPerRead: 64),
            ShardConsumer.Feed([keys.mailbox(.bulk)], inHandMax: settings.commandsInHandMax, countPerRead: 64),
            ShardConsumer.Feed([keys.plan], inHandMax: 2, countPerRead: 1),
        ]
        if !work.isEmpty { feeds.append(ShardConsumer.Feed(work, inHandMax: settings.unitsInHandMax, countPerRead: 1)) }
        self.consumer = ShardConsumer(
            tag: keys.tag,
            streams: handler.streams,
            consumer: handler.consumer,
            feeds: feeds,
            leaseMilliseconds: settings.leaseMilliseconds,
            observer: observer,
            logger: logger,
        ) { entry in
            try await handler.handle(entry, isStopping: { stopFlag.isSet })
        }
        self.stopFlag = stopFlag
    }

    private let stopFlag: StopFlag

    func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.consumer.run() }
            group.addTask { await self.moveDue() }
            await group.waitForAll()
        }
    }

    func stop() {
        self.stopFlag.set()
        self.consumer.stop()
    }

    private func moveDue() async {
        while !self.stopFlag.isSet {
            do {
                let result = try await self.handler.streams.moveDue(tag: self.handler.keys.tag)
                if result.moved == StreamLimits.dueBatchMax { continue }
            } catch {
                self.logger.warning("cannot move what is due", metadata: ["error": "\(error)"])
            }
            try? await Task.sleep(for: .milliseconds(self.handler.settings.dueMilliseconds))
        }
    }
}
