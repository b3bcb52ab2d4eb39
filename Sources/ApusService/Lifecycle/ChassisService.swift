internal import ApusCore
public import ApusMetrics
internal import ApusTLS
internal import Logging
public import NIOCore
public import ServiceLifecycle

/// Runs one of the three services with everything around it: alone in a program (`ServiceChassis.run`) or with others
/// in one process (`apus-lab demo`).
///
/// Runs until its task is asked to shut down gracefully. Then readiness goes off first, the service's own parts stop in
/// reverse order, and the admin endpoints respond until the end.
public struct ChassisService<Own: ServiceSettings, Metrics: MetricSet>: Service {
    /// Creates the service's own parts. Work that may take long, such as waiting for Redis, belongs in their `run`: the
    /// admin endpoints respond only after this function has returned.
    public typealias Assemble = @Sendable (ServiceContext<Own, Metrics>) async throws -> [any Service]

    /// The context that the service's parts receive.
    public let context: ServiceContext<Own, Metrics>
    private let sink: LogSink
    private let watcher: SettingsWatcher<Own>
    private let reloadAsked: AsyncStream<Void>.Continuation
    private let assemble: Assemble

    /// Declares the metrics and prepares everything; nothing runs yet.
    ///
    /// - Parameters:
    ///   - settings: the settings, read and valid.
    ///   - metrics: the service's own metric families.
    ///   - sink: the destination of log lines.
    ///   - eventLoopGroup: event loops that outlive the service.
    ///   - pollInterval: the time between two checks of the configuration's files for changes.
    ///   - canRenew: true when somebody makes the service anew if its settings need that; otherwise they wait for the next start.
    ///   - assemble: creates the service's own parts.
    public init(
        _ settings: LiveSettings<Own>,
        metrics: Metrics.Type,
        sink: LogSink,
        eventLoopGroup: any EventLoopGroup,
        pollInterval: Duration = .seconds(5),
        canRenew: Bool = false,
        assemble: @escaping Assemble,
    ) {
        let logger = sink.logger(settings.service.programName)
        self.context = ServiceContext(
            settings,
            metrics: metrics,
            eventLoopGroup: eventLoopGroup,
            canRenew: canRenew,
            logger: logger
        )
        sink.count(in: self.context.registry.shared, self.context.commonMetrics)
        let (asked, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        self.reloadAsked = continuation
        self.watcher = SettingsWatcher(
            settings: settings,
            inUse: settings.current,
            sink: sink,
            logger: logger,
            shared: self.context.registry.shared,
            metrics: self.context.commonMetrics,
            clock: SystemClock(),
            pollInterval: pollInterval,
            asked: asked,
            renewal: self.context.renewal,
        )
        self.sink = sink
        self.assemble = assemble
    }

    /// Requests a check of the configuration now.
    public func askForReload() { self.reloadAsked.yield() }

    /// Runs the service until it is asked to stop.
    public func run() async throws {
        do {
            try await self.serve()
        } catch {
            await Task { await self.context.openedResources.close() }.value
            throw error
        }
    }

    private func serve() async throws {
        let context = self.context
        let shared = context.registry.shared
        let common = context.commonMetrics
        self.watcher.announceSuccess()
        context.settings.inForce = self.watcher.inUse
        let isFormer = context.settings.failure != nil
        context.registry.addCollector { [watcher = self.watcher] in watcher.collect() }
        // New parts read every credential as it is now.
        context.settings.refuse(.credentials, because: nil)
        context.readiness.add("configuration") { [settings = context.settings] in
            .ok(settings.refusal.map { "former settings stay in use: \($0)" })
        }
        let reader = ProcessReader(shared: shared, metrics: common.process)
        reader.start(at: SystemClock().nanosecondsSince1970())
        context.registry.addCollector { reader.collect() }
        context.registry.addCollector {
            shared.set(common.ready, to: await context.readiness.report().isReady ? 1 : 0)
        }
        let settings = context.settings.current.common
        let exporter = try self.exporter(settings.tracing)
        let adminTLS = try settings.admin.tls.map { try AdminTLS($0) }
        context.settings.refuse(.adminTLS, because: nil)
        let reloader = adminTLS.map { tls in
            AdminTLSReloader(
                tls: tls,
                settings: context.settings,
                updates: context.settings.updates(),
                logger: context.logger,
            )
        }
        let own = try await self.assemble(context)
        let admin = AdminServer(
            programName: context.name.programName,
            settings: settings.admin,
            registry: context.registry,
            readiness: context.readiness,
            pages: context.pages,
            tls: adminTLS,
            eventLoopGroup: context.eventLoopGroup,
            logger: context.logger,
        )
        let monitor = EventLoopMonitor(
            eventLoopGroup: context.eventLoopGroup,
            registry: context.registry,
            metrics: common,
        )
        let environment = context.settings.source.environment
        let manager = ServiceManager(environment: environment)
        let health = EventLoopHealth(eventLoopGroup: context.eventLoopGroup)
        let watchdog = Watchdog(manager, environment: environment, health: health).map { [$0] } ?? []
        // Services stop in reverse order: first nothing new comes in, no settings either, last the endpoints close.
        let marker = PhaseMarker(
            manager: manager,
            isRenewed: { context.renewal.isRequested },
            onReady: {
                // Parts that went back to former settings say nothing about the newest.
                guard !isFormer else { return }
                context.settings.noteReady()
                context.renewal.look()
            },
            readiness: context.readiness,
            shared: shared,
            metrics: common,
            logger: context.logger
        )
        let reloaders: [any Service] = reloader.map { [$0] } ?? []
        let services: [any Service] =
            watchdog + [admin, monitor, MemoryTrimmer()] + exporter + own + [self.watcher] + reloaders + [marker]
        var configuration = ServiceGroupConfiguration(
            services: services.map { service in
                .init(service: service, failureTerminationBehavior: .gracefullyShutdownGroup)
            } + [
                .init(service: context.renewal.trigger, successTerminationBehavior: .gracefullyShutdownGroup)
            ],
            logger: context.logger.forServiceGroup,
        )
        configuration.maximumGracefulShutdownDuration = settings.drainTimeout
        try await ServiceGroup(configuration: configuration).run()
    }

    /// Returns the exporter of spans, or nothing when no collector is configured.
    private func exporter(_ settings: TracingSettings) throws -> [any Service] {
        let context = self.context
        guard let recorder = context.spans, let collector = settings.endpoint.flatMap({ TraceCollector($0) }) else {
            return []
        }
        let tls =
            try collector.address.isSecure
            ? TLSContext.client(trust: settings.caFile.map { .file($0) } ?? .system) : nil
        return [
            SpanExporter(
                recorder: recorder,
                collector: collector,
                tls: tls,
                serviceName: context.name.programName,
                version: BuildInformation.packageVersion,
                eventLoopGroup: context.eventLoopGroup,
                logger: context.logger,
            )
        ]
    }
}

/// Turns readiness on and off, and tells the service manager: it is started last and stopped first.
private struct PhaseMarker: Service {
    /// The time between two looks whether the service is ready yet.
    static let readinessInterval = Duration.milliseconds(250)

    let manager: ServiceManager?
    let isRenewed: @Sendable () -> Bool
    let onReady: @Sendable () -> Void
    let readiness: Readiness
    let shared: SharedMetrics
    let metrics: CommonMetrics
    let logger: Logger

    func run() async throws {
        self.readiness.enter(.serving)
        self.logger.info("running")
        await cancelWhenGracefulShutdown { await self.waitUntilReady() }
        try? await gracefulShutdown()
        self.readiness.enter(.draining)
        let isRenewed = self.isRenewed()
        self.manager?.notify(isRenewed ? .reloading : .stopping)
        self.shared.set(self.metrics.draining, to: 1)
        self.logger.notice(isRenewed ? "ending the parts, to begin again with the changed settings" : "draining")
    }

    /// Waits until every check passes, which may take as long as Redis is away, and notifies the service manager.
    private func waitUntilReady() async {
        while !Task.isCancelled {
            guard await !self.readiness.report().isReady else {
                self.manager?.notify(.ready)
                self.onReady()
                return
            }
            try? await Task.sleep(for: Self.readinessInterval)
        }
    }
}
