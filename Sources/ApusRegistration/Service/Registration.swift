internal import ApusCore
internal import ApusInstallation
internal import ApusMetrics
internal import ApusRedis
package import ApusService
internal import ApusStore
package import ApusStreams
internal import ApusTLS
internal import Logging
internal import ServiceLifecycle

/// The registration service, which fills the device store: by HTTP from devices and backends, by the register stream from backends.
package struct Registration: Service {
    private let context: ServiceContext<RegistrationSettings, RegistrationMetrics>
    private let credentials: LiveCredentials
    private let replicas: ReplicaConfirmations
    private let isListening = ListeningFlag()
    private let start: StartCheck

    /// Creates the registration service of a process. Reads the key files.
    ///
    /// - Parameter replicas: what the services before this one, of the same process, know of replicas, of whichever Redis.
    package init(
        _ context: ServiceContext<RegistrationSettings, RegistrationMetrics>,
        replicas: ReplicaConfirmations = ReplicaConfirmations(),
    ) throws {
        self.context = context
        self.replicas = replicas
        self.credentials = try LiveCredentials(context.settings.current)
        context.renewal.setReview { [credentials, logger = context.logger] in credentials.review($0, logger: logger) }
        self.start = context.addStartCheck()
        // It is added before the service counts as started, so that it is never ready without it.
        context.readiness.add("http") { [isListening] in isListening.check }
    }

    /// Runs until a graceful shutdown, then until nothing is in hand.
    package func run() async throws {
        let logger = self.context.logger
        // Before the settings are read, so that no change is missed.
        let changes = self.context.settings.updates()
        let settings = self.context.settings.current
        self.context.renewal.setOpening { client throws(RedisError) in
            _ = try await Installation(client, clock: SystemClock())
        }
        let client = try self.context.openRedis(settings.common.redis)
        self.context.addRedisCheck(client)
        // Nothing is in hand yet, so a service that is asked to stop does not wait for Redis any more.
        guard
            var installation = try await unlessShutdown({
                try await Installation.waiting(client, clock: SystemClock(), logger: logger)
            })
        else {
            await firstWithin(ShutdownLimits.closingMax) { await client.close() }
            return
        }
        let encryption = installation.store.encryption
        encryption.setKeys(settings.common.store.encryptionKeys)
        installation.countRefusedRecords(as: self.context.commonMetrics.refusedRecords, in: self.context.registry)
        let statistics = StreamStatistics(
            installation.streams,
            labels: self.context.name.streams,
            metrics: self.context.commonMetrics.streams,
            shared: self.context.registry.shared,
            logger: logger,
        )
        self.context.registry.addCollector { await statistics.collect() }
        let keys = APIKeys(client)
        // If this fails for an app, its keys are known a moment later, and until then their callers are asked to come back.
        await self.credentials.readKeys(keys)
        let counts = StreamCounts(
            self.context.commonMetrics.streams,
            shared: self.context.registry.shared,
            vanished: self.context.metrics.entriesVanished,
            groupsLost: self.context.metrics.groupsLost,
        )
        self.context.readiness.add("streams") { [shardCount = installation.keyspace.queueShards] in
            await .reads(counts.unansweredReads, of: counts.shardsWithUnansweredReads, among: shardCount, client)
        }
        installation.store.devicesPerApp = settings.own.devicesPerApp
        installation.store.topicLimits = settings.own.topicLimits
        let consumer = StreamConsumer.ofThisProcess(group: StreamGroup.registration)
        let heartbeat = ServiceHeartbeat(
            installation,
            consumer,
            version: BuildInformation.versionWithRevision,
            logger: logger,
            refusedConfiguration: { [settings = self.context.settings] in settings.refusal },
            problem: { [readiness = self.context.readiness] in await readiness.report().problem },
        )
        let barrier = ReplicaBarrier(client, confirmations: self.replicas)
        let shards = self.shards(installation, settings.own, consumer, counts, barrier)
        // A change that is acknowledged over HTTP is not done again by anybody.
        let demanding =
            settings.own.waitsForReplica
            ? ReplicaBarrier(client, demandMax: ReplicaBarrier.demandMax, confirmations: self.replicas) : nil
        let server = self.server(installation, settings.own, demanding, userRemovals: demanding ?? barrier)
        let janitor = self.janitor(installation, settings.own, barrier)
        let devices = self.deviceCounter(installation)
        self.start.pass()
        logger.notice("registering devices", metadata: ["shards": "\(shards.count)"])
        let stop: @Sendable () -> Void = { for shard in shards { shard.stop() } }
        try await withTaskCancellationHandler {
            try await withGracefulShutdownHandler {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for shard in shards { group.addTask { await shard.run() } }
                    group.addTask {
                        await untilShutdown { await self.credentials.follow(keys, logger: logger) }
                    }
                    group.addTask {
                        await untilShutdown {
                            for await new in changes { encryption.setKeys(new.common.store.encryptionKeys) }
                        }
                    }
                    group.addTask { await untilShutdown { await janitor.run() } }
                    group.addTask { await untilShutdown { await devices.run() } }
                    group.addTask {
                        await untilShutdown { await heartbeat.run() }
                        await firstWithin(ShutdownLimits.closingMax) { await heartbeat.end() }
                    }
                    group.addTask { try await server.run() }
                    do {
                        while try await group.next() != nil {}
                    } catch {
                        stop()
                        group.cancelAll()
                        throw error
                    }
                }
            } onGracefulShutdown: {
                stop()
            }
        } onCancel: {
            stop()
        }
        await firstWithin(ShutdownLimits.closingMax) {
            await barrier.close()
            await demanding?.close()
            await client.close()
        }
        logger.notice("drained")
    }

    private func server(
        _ installation: Installation,
        _ own: RegistrationSettings,
        _ barrier: ReplicaBarrier?,
        userRemovals: ReplicaBarrier,
    ) -> APIServer {
        let changes = ReplicatedChanges(barrier: barrier)
        let (credentials, shared) = (self.credentials, self.context.registry.shared)
        let (metrics, clock, subscriptions) = (self.context.metrics, SystemClock(), self.subscriptions)
        let (streams, settings) = (installation.streams, self.context.settings)
        let store = installation.store.guarded(by: barrier)
        let memory = MemoryBudget(limit: own.memoryLimit)
        let shares = MemoryShares(memory)
        let sends = SendAPI(
            streams: streams,
            changes: changes,
            apps: AppsOfDispatchers(streams.routes, clock: clock),
            publishers: { settings.current.common.publishers },
            receiptStreams: { settings.current.common.apps[$0]?.receiptStreams ?? [] },
            clock: clock,
        )
        self.context.registry.addCollector { shared.set(metrics.memoryHeld, to: Int64(memory.bytes)) }
        let responder = APIResponder(
            api: RegistrationAPI(
                devices: DeviceAPI(
                    store: store,
                    changes: changes,
                    userRemovals: ReplicatedChanges(barrier: userRemovals),
                    deadLetters: streams.deadLetters,
                    auditTrail: streams.audit,
                    topicNames: TopicNames(store),
                    subscriptions: subscriptions,
                    metrics: metrics,
                    shared: shared,
                ),
                imports: ImportAPI(
                    store: store,
                    changes: changes,
                    subscriptions: subscriptions,
                    memory: shares,
                    metrics: metrics,
                    shared: shared,
                ),
                sends: sends,
                gorush: GorushAPI(sends: sends),
                matrix: MatrixAPI(store: store, sends: sends),
                events: EventAPI(streams: streams, clock: clock),
            ),
            rates: RequestRates(own.rates),
            failures: AuthenticationGuard(perMinute: own.failedAuthenticationsPerMinute),
            memory: shares,
            authenticator: { credentials.authenticator },
            apps: { settings.current.common.apps[$0] },
            metrics: metrics,
            shared: shared,
            clock: clock,
            errors: ErrorLog(self.context.logger),
        )
        return APIServer(
            settings: own,
            responder: responder,
            tls: self.tls,
            eventLoopGroup: self.context.eventLoopGroup,
            logger: self.context.logger,
            isListening: self.isListening,
        )
    }

    private func janitor(
        _ installation: Installation,
        _ settings: RegistrationSettings,
        _ barrier: ReplicaBarrier,
    ) -> Janitor {
        let credentials = self.credentials
        return Janitor(
            // It ends claims of registrations that waited for replicas.
            store: installation.store.guarded(by: barrier),
            streams: installation.streams,
            apps: { credentials.authenticator.appIDs },
            recordsPerSecond: settings.janitorRate,
            interval: settings.janitorInterval,
            staleAfterMilliseconds: settings.staleMilliseconds,
            metrics: self.context.metrics,
            shared: self.context.registry.shared,
            logger: self.context.logger,
        )
    }

    private func deviceCounter(_ installation: Installation) -> DeviceCounter {
        let credentials = self.credentials
        return DeviceCounter(
            store: installation.store,
            apps: { credentials.authenticator.appIDs },
            metrics: self.context.metrics,
            shared: self.context.registry.shared,
            logger: self.context.logger,
        )
    }

    /// The rules of an app for subscriptions, by the current configuration.
    private var subscriptions: @Sendable (AppID) -> SubscriptionRules {
        let settings = self.context.settings
        return { app in
            let found = settings.current.common.apps[app]?.subscriptions
            return SubscriptionRules(
                hosts: EndpointHosts(further: found?.hosts ?? []),
                serverKey: found?.publicKey ?? []
            )
        }
    }

    private var tls: (@Sendable () -> TLSContext)? {
        let credentials = self.credentials
        guard let first = credentials.tls else { return nil }
        return { credentials.tls ?? first }
    }

    private func shards(
        _ installation: Installation,
        _ settings: RegistrationSettings,
        _ consumer: StreamConsumer,
        _ counts: StreamCounts,
        _ barrier: ReplicaBarrier,
    ) -> [ShardConsumer] {
        let gate = PoisonGate()
        return (0..<installation.keyspace.queueShards).map {
            self.shard($0, of: installation, settings, consumer, gate, counts, barrier)
        }
    }

    private func shard(
        _ shard: Int,
        of installation: Installation,
        _ settings: RegistrationSettings,
        _ consumer: StreamConsumer,
        _ gate: PoisonGate,
        _ counts: StreamCounts,
        _ barrier: ReplicaBarrier,
    ) -> ShardConsumer {
        let credentials = self.credentials
        let handler = CommandHandler(
            keys: installation.streams.keys(shard: shard),
            streams: installation.streams.observed(by: counts).guarded(by: barrier),
            store: installation.store.guarded(by: barrier),
            consumer: consumer,
            order: CommandOrder(installation.streams.entries, consumer),
            authenticator: { credentials.authenticator },
            subscriptions: self.subscriptions,
            metrics: self.context.metrics,
            shared: self.context.registry.shared,
            clock: SystemClock(),
            logger: self.context.logger,
        )
        return ShardConsumer(
            tag: handler.keys.tag,
            streams: installation.streams,
            consumer: consumer,
            // One entry is handled at a time, after those that other processes have in hand, so that commands for one device keep their order. One
            // whose process has died, or that waits for a server of Redis that is away, loses its place.
            feeds: [ShardConsumer.Feed(handler.keys.register, inHandMax: 1, countPerRead: 1)],
            leaseMilliseconds: settings.leaseMilliseconds,
            gate: gate,
            observer: counts,
            logger: self.context.logger,
        ) { entry, _ in
            try await handler.handle(entry)
        }
    }
}
