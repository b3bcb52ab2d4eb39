internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusMetrics
package import ApusProviders
internal import ApusRedis
package import ApusService
internal import ApusStore
internal import ApusStreams
internal import ApusTLS
internal import Logging
internal import NIOCore
internal import NIOPosix
internal import ServiceLifecycle

/// The dispatcher service: it takes send commands, finds their recipients, sends to them, and records the outcomes.
package struct Dispatcher: Service {
    private let context: ServiceContext<DispatcherSettings, DispatcherMetrics>
    private let providers: ProviderList
    private let start: StartCheck

    /// Creates the dispatcher of a process.
    ///
    /// - Parameter providers: the providers that it sends to.
    package init(
        _ context: ServiceContext<DispatcherSettings, DispatcherMetrics>,
        providers: ProviderList = .installed,
    ) {
        self.context = context
        self.providers = providers
        self.start = context.addStartCheck()
    }

    /// Runs until a graceful shutdown. It then reads no further entries, finishes what is in flight, and hands the rest
    /// back.
    package func run() async throws {
        let logger = self.context.logger
        let clock = SystemClock()
        // Before the settings are read, so that no change is missed, however long Redis is waited for.
        let changes = self.context.settings.updates()
        // They are read once, so that everything is made with the same ones.
        let own = self.context.settings.current.own
        self.context.renewal.setOpening { client throws(RedisError) in
            _ = try await Installation(client, clock: clock)
        }
        let loops = DispatchLoops(self.context.eventLoopGroup)
        // Express shares no connection and no thread with bulk, because Redis answers a connection's commands in order.
        let client = try self.client(on: loops.express)
        self.context.openedResources.add { await client.close() }
        let bulkClient = try self.client(on: loops.bulk, sharing: client.topology)
        self.context.openedResources.add { await bulkClient.close() }
        self.context.addRedisCheck(client)
        // Nothing is in hand yet, so a shutdown need not wait for Redis.
        guard
            let (installation, common, routes, publishers, setups) = try await unlessShutdown({
                try await Installation.waiting(client, clock: clock, logger: logger) { installation in
                    let common = self.context.settings.current.common
                    let routes = try await RouteTable(
                        common.apps,
                        providers: self.providers,
                        streams: installation.streams,
                        copies: InstallationCopies(client),
                        logger: logger,
                    )
                    // Where their list cannot be read, those of the configuration are enough to begin with.
                    let former = (try? await installation.streams.publishers.all()) ?? []
                    let publishers = PublisherTable(common.publishers, former: former)
                    // The slots that are left get it when their server is back.
                    var setups = self.setups(installation, routes, own, common)
                    for index in setups.indices { try await setups[index].attempt() }
                    return (installation, common, routes, publishers, setups)
                }
            })
        else {
            await firstWithin(ShutdownLimits.closingMax) { await client.close() }
            return
        }
        installation.setRecordKeys(common.store.encryptionKeys)
        installation.countRefusedRecords(as: self.context.commonMetrics.refusedRecords, in: self.context.registry)
        let bulkInstallation = installation.reached(by: bulkClient, clock: clock)
        let counts = StreamCounts(
            self.context.commonMetrics.streams,
            shared: self.context.registry.shared,
            vanished: self.context.metrics.entriesVanished,
            groupsLost: self.context.metrics.groupsLost,
            replay: (self.context.metrics.callsReplayed, self.context.metrics.replayCallsDropped),
        )
        self.context.readiness.add("streams") { [shardCount = installation.keyspace.queueShards] in
            await .reads(counts.unansweredReads, of: counts.shardsWithUnansweredReads, among: shardCount, client)
        }
        let statistics = StreamStatistics(
            installation.streams,
            labels: self.context.name.streams,
            routes: routes.numbers,
            publishers: publishers.names,
            metrics: self.context.commonMetrics.streams,
            shared: self.context.registry.shared,
            logger: logger,
        )
        self.context.registry.addCollector { await statistics.collect() }
        let instruments = DispatcherInstruments(
            metrics: self.context.metrics,
            shared: self.context.registry.shared,
            spans: self.context.spans,
        )
        let consumer = StreamConsumer.ofThisProcess(group: StreamGroup.dispatcher)
        let threads = BackgroundThreads(
            count: own.cryptoThreads > 0 ? own.cryptoThreads : max(1, System.coreCount - 1),
            for: self.context.eventLoopGroup
        )
        self.context.openedResources.add { await threads.close() }
        let gateways = GatewayFactory(
            providers: self.providers,
            tools: GatewayTools(
                tokens: SharedTokens(client: installation.client),
                clock: clock,
                eventLoopGroup: self.context.eventLoopGroup,
                logger: logger,
                threads: threads,
                minted: instruments.minted,
            ),
        )
        try gateways.adopt(common.apps, routes)
        for advice in self.providers.all.flatMap({ $0.advice(on: common.apps) }) { logger.warning("\(advice)") }
        self.context.registry.addCollector { self.collectExpiries(gateways, routes) }
        let workers = try await self.workers(
            loops,
            routes,
            gateways,
            installation,
            consumer,
            own,
            clock
        )
        self.context.registry.addCollector {
            for worker in workers.all { _ = try? await worker.onLoop { $0.collect() } }
        }
        let heartbeat = ServiceHeartbeat(
            installation,
            consumer,
            version: BuildInformation.versionWithRevision,
            logger: logger,
            failingRoutes: { await Self.failingRoutes(of: workers, routes) },
            refusedConfiguration: { [settings = self.context.settings] in settings.refusal },
            problem: { [readiness = self.context.readiness] in await readiness.report().problem },
        )
        let watch = FaultWatch(
            factory: gateways,
            routes: routes,
            streams: bulkInstallation.streams,
            eventLoop: workers.bulk[0].eventLoop,
            logger: logger,
        )
        let reloader = CredentialReloader(
            factory: gateways,
            routes: routes,
            publishers: publishers.configured,
            eventLoop: workers.express.eventLoop,
            exchange: { entry, configuration in
                for worker in workers.all {
                    let eventLoop = worker.eventLoop
                    try await worker.onLoop { worker in
                        worker.exchange(gateways.make(entry, configuration, on: eventLoop), for: entry.number)
                    }
                }
            },
            watch: watch,
            metrics: self.context.metrics,
            shared: self.context.registry.shared,
            logger: logger,
        )
        self.context.renewal.setReview { await reloader.review($0.common) }
        let gate = PoisonGate()
        let confirmation = ReplicaConfirmation(client)
        let barrier = ReplicaBarrier(client)
        let budget = ReplayBudget(bytesMax: own.replayBytesMax, shards: installation.keyspace.queueShards)
        let logs = (0..<installation.keyspace.queueShards).map { shard in
            ReplayLog(
                tag: installation.keyspace.tag(shard: shard),
                client: client,
                consumer: consumer,
                leaseMilliseconds: own.leaseMilliseconds,
                budget: budget,
                observer: counts,
                logger: logger,
            )
        }
        let contexts = SendContextCache(
            streams: bulkInstallation.streams.logged(in: logs),
            store: bulkInstallation.store,
            routes: routes,
            instruments: instruments,
            clock: clock,
        )
        var bulkHandlers: [DispatchHandler] = []
        let shards = (0..<installation.keyspace.queueShards).map { shard in
            func handler(_ installation: Installation, _ worker: WorkerHandle) -> DispatchHandler {
                let keys = installation.streams.keys(shard: shard)
                let streams = installation.streams.observed(by: counts).logged(in: logs).guarded(by: barrier)
                let executor = LoopExecutor(worker.eventLoop)
                return DispatchHandler(
                    keys: keys,
                    streams: streams,
                    finisher: streams.mailboxes.finisher(tag: keys.tag, on: executor),
                    store: installation.store,
                    contexts: contexts,
                    routes: routes,
                    publishers: publishers,
                    consumer: consumer,
                    confirmation: confirmation,
                    worker: worker,
                    site: ShardConsumer.Site(
                        executor: executor,
                        client: installation.streams.client
                    ),
                    settings: own,
                    instruments: instruments,
                    clock: clock,
                    logger: logger,
                )
            }
            let bulk = handler(bulkInstallation, workers.bulk[shard % workers.bulk.count])
            bulkHandlers.append(bulk)
            return DispatchedShard(
                express: handler(installation, workers.express),
                bulk: bulk,
                routes: routes.numbers,
                gate: gate,
                replayLog: logs[shard],
                observer: counts,
                logger: logger,
            )
        }
        let removed = RemovedRoutes(
            configured: routes.entries.map { NumberedRoute(number: $0.number, name: $0.route.description) },
            handlers: bulkHandlers,
            absenceMilliseconds: own.removedRouteMilliseconds,
            observer: counts,
            logger: logger,
        )
        self.start.pass()
        logger.notice(
            "dispatching",
            metadata: [
                "routes": "\(routes.numbers.count)", "shards": "\(shards.count)", "consumer": "\(consumer.name)",
            ],
        )
        await withGracefulShutdownHandler {
            await withTaskGroup(of: Void.self) { group in
                for shard in shards { group.addTask { await shard.run() } }
                for setup in setups {
                    group.addTask {
                        await untilShutdown {
                            var setup = setup
                            await setup.run(logger)
                        }
                    }
                }
                group.addTask {
                    await untilShutdown {
                        for await new in changes {
                            installation.setRecordKeys(new.common.store.encryptionKeys)
                            publishers.update(new.common.publishers)
                        }
                    }
                }
                group.addTask { await untilShutdown { await watch.run() } }
                group.addTask { await untilShutdown { await removed.run() } }
                group.addTask {
                    await untilShutdown { await heartbeat.run() }
                    await firstWithin(ShutdownLimits.closingMax) { await heartbeat.end() }
                }
                await group.waitForAll()
            }
        } onGracefulShutdown: {
            for shard in shards { shard.stop() }
        }
        let draining = Task {
            for worker in workers.all { await worker.drain() }
        }
        // A cancelled task has run out of time and does not wait for requests in flight; other parts may be made in this process.
        if !Task.isCancelled { await draining.value }
        await threads.close()
        await firstWithin(ShutdownLimits.closingMax) {
            await confirmation.close()
            await barrier.close()
            await client.close()
            await bulkClient.close()
        }
        logger.notice("drained")
    }

    /// Returns what every slot is to be told at the start, none of which keeps another slot waiting.
    private func setups(
        _ installation: Installation,
        _ routes: RouteTable,
        _ own: DispatcherSettings,
        _ common: CommonSettings,
    ) -> [SlotSetup] {
        let mailboxes = installation.streams.mailboxes
        let milliseconds = own.idempotencyMilliseconds
        let publishers = installation.streams.publishers
        let names = common.publishers.keys.sorted()
        let copies = InstallationCopies(installation.client)
        let content = InstallationCopies.Content(
            meta: ApusMeta(installation.keyspace),
            routes: routes.namedNumbers,
        )
        return [
            SlotSetup("idempotency window", in: installation.keyspace.shardTags) { tag throws(RedisError) in
                try await mailboxes.setIdempotencyWindow(milliseconds: milliseconds, in: tag)
            },
            SlotSetup("publishers", in: [HashTag(ofKey: StreamKeys.publishers)]) { _ throws(RedisError) in
                try await publishers.add(names)
            },
            SlotSetup("copies of the installation", in: copies.tags) { tag throws(RedisError) in
                try await copies.write(content, at: tag)
            },
        ]
    }

    private func collectExpiries(_ gateways: GatewayFactory, _ routes: RouteTable) {
        let (metrics, shared) = (self.context.metrics, self.context.registry.shared)
        var earliest: [LabelSlot: [CredentialKind: UnixMilliseconds]] = [:]
        for entry in routes.entries {
            guard let (kind, expiresAt) = gateways.expiry(of: entry.number) else { continue }
            let slot = metrics.routes.slot(for: entry.route.description)
            earliest[slot, default: [:]][kind] = min(expiresAt, earliest[slot]?[kind] ?? expiresAt)
        }
        for slot in metrics.routes.slots {
            for kind in CredentialKind.allCases {
                let gauge = metrics.credentialExpiry[slot, kind]
                if let expiresAt = earliest[slot]?[kind] {
                    shared.set(gauge, to: expiresAt.value)
                } else {
                    // A kind that was replaced by another no longer expires.
                    shared.setAbsent(gauge)
                }
            }
        }
    }

    private func client(
        on loops: any EventLoopGroup,
        sharing topology: (any RedisTopology)? = nil,
    ) throws -> RedisClient {
        try RedisClient(
            self.context.settings.current.common.redis,
            clientName: self.context.name.programName,
            metrics: self.context.commonMetrics.redis,
            shared: self.context.registry.shared,
            topology: topology,
            eventLoopGroup: loops,
            logger: self.context.logger,
        )
    }

    /// The workers of the process, one per event loop.
    private struct Workers: Sendable {
        var express: WorkerHandle
        var bulk: [WorkerHandle]

        var all: [WorkerHandle] { [self.express] + self.bulk }
    }

    /// Returns the routes whose provider fails, or for which there is no connection or no credential, each as the worker has it that has seen
    /// that for longest.
    private static func failingRoutes(of workers: Workers, _ routes: RouteTable) async -> [FailingRoute] {
        var failing: [RouteNumber: FailingRoute] = [:]
        for worker in workers.all {
            let found = try? await worker.onLoop { $0.failures(now: NIODeadline.now().uptimeNanoseconds) }
            for entry in routes.entries {
                guard let failure = found?[entry.number] else { continue }
                guard failing[entry.number].map({ $0.milliseconds < failure.milliseconds }) ?? true else { continue }
                failing[entry.number] = FailingRoute(
                    route: entry.route.description,
                    milliseconds: failure.milliseconds,
                    word: failure.word,
                    isUnreachable: failure.isUnreachable,
                )
            }
        }
        return failing.values.sorted { $0.route < $1.route }
    }

    private func workers(
        _ loops: DispatchLoops,
        _ routes: RouteTable,
        _ gateways: GatewayFactory,
        _ installation: Installation,
        _ consumer: StreamConsumer,
        _ own: DispatcherSettings,
        _ clock: SystemClock,
    ) async throws -> Workers {
        let settings = WorkerSettings(
            flushInterval: .milliseconds(own.flushMilliseconds),
            heartbeat: .milliseconds(own.heartbeatMilliseconds),
            lease: .milliseconds(own.leaseMilliseconds),
            window: own.window,
            recheckAfter: .milliseconds(own.recheckMilliseconds),
        )
        let (metrics, spans) = (self.context.metrics, self.context.spans)
        let rateLimits = SharedRateLimits(
            streams: installation.streams,
            member: consumer.name,
            loopCount: 1 + loops.bulk.loops.count,
            eventLoop: loops.express,
        )
        func worker(on eventLoop: any EventLoop) async throws -> WorkerHandle {
            let shard = self.context.registry.makeShard(on: eventLoop)
            return try await eventLoop.submit {
                let worker = Worker(
                    eventLoop: eventLoop,
                    clock: clock,
                    settings: settings,
                    rateLimitSource: rateLimits,
                    metrics: metrics,
                    shard: shard.value,
                    spans: spans,
                )
                for entry in routes.entries {
                    worker.add(gateways.make(entry, on: eventLoop), for: entry.number, rateLimit: entry.rateLimit)
                }
                return WorkerHandle(worker)
            }.get()
        }
        var workers = Workers(
            express: try await worker(on: loops.express),
            bulk: [],
        )
        for loop in loops.bulk.loops { workers.bulk.append(try await worker(on: loop)) }
        return workers
    }
}
