public import ApusMetrics
package import ApusRedis
public import Logging
public import NIOCore

/// Holds the parts that the chassis gives to a service.
public struct ServiceContext<Own: ServiceSettings, Metrics: MetricSet>: Sendable {
    /// The service's name.
    public let name: ServiceName
    /// The configuration in force and its later versions.
    public let settings: LiveSettings<Own>
    /// The service's own families.
    public let metrics: Metrics
    /// The families that every service has.
    public let commonMetrics: CommonMetrics
    /// The registry that provides metric cells: `registry.makeShard(on:)` for an event loop, `registry.shared` for the rest.
    public let registry: MetricRegistry
    /// The checks of `/readyz`: `readiness.add("redis") { … }`.
    public let readiness: Readiness
    /// The pages of its own at the admin endpoints: `pages.add("scale") { … }`.
    public let pages: AdminPages
    /// Makes the service's parts anew after a change that running parts cannot take over.
    public let renewal: Renewal<Own>
    /// The holder of what the service's parts have opened, to be closed if they fail: `openedResources.add { await client.close() }`.
    public let openedResources: OpenedResources
    /// Takes the spans of recorded traces; nil without a collector.
    public let spans: SpanRecorder?
    /// The service's logger.
    public let logger: Logger
    /// The event loops that drive sockets.
    public let eventLoopGroup: any EventLoopGroup
}

extension ServiceContext {
    /// Opens the client of Redis that the whole service uses. It is closed with the service's opened resources.
    ///
    /// - Throws: `configuration` for an invalid address or a password file that cannot be read.
    package func openRedis(_ settings: RedisSettings) throws(RedisError) -> RedisClient {
        let client = try RedisClient(
            settings,
            clientName: self.name.programName,
            metrics: self.commonMetrics.redis,
            shared: self.registry.shared,
            eventLoopGroup: self.eventLoopGroup,
            logger: self.logger,
        )
        self.openedResources.add { await client.close() }
        return client
    }

    /// Adds the check to `/readyz` that the service has started. A part adds it when it is made, so that the service is never ready without.
    ///
    /// - Returns: the check, which fails until it is passed.
    package func addStartCheck() -> StartCheck {
        let start = StartCheck()
        self.readiness.add("start") { start.result }
        return start
    }

    /// Adds the check to `/readyz` that Redis answers.
    package func addRedisCheck(_ client: RedisClient) {
        self.readiness.add("redis") { await .redis(client) }
    }

    /// Declares the metrics of a service and prepares what it is given; nothing runs yet.
    package init(
        _ settings: LiveSettings<Own>,
        metrics: Metrics.Type,
        eventLoopGroup: any EventLoopGroup,
        canRenew: Bool = false,
        logger: Logger,
    ) {
        let name = settings.service
        var catalogue = MetricCatalogue()
        let common = catalogue.declare {
            CommonMetrics(build: .current(name), reading: name.streams, letters: name.deadLetterStreams)
        }
        let own = Metrics(&catalogue)
        let registry = MetricRegistry(catalogue)
        self.init(
            name: name,
            settings: settings,
            metrics: own,
            commonMetrics: common,
            registry: registry,
            readiness: Readiness(),
            pages: AdminPages(),
            renewal: Renewal(isPossible: canRenew),
            openedResources: OpenedResources(),
            spans: settings.current.common.tracing.endpoint == nil
                ? nil : SpanRecorder(common.spans, shared: registry.shared),
            logger: logger,
            eventLoopGroup: eventLoopGroup,
        )
    }
}
