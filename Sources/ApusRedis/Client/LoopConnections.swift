internal import Logging
internal import NIOCore

/// Holds the connections of one event loop, one per server, and routes commands to them. Confined to the loop.
final class LoopConnections {
    private let configuration: RedisConfiguration
    private let security: RedisSecurity
    private let observer: (any RedisObserver)?
    private let eventLoop: any EventLoop
    private let logger: Logger
    private var connections: [RedisEndpoint: ReconnectingConnection] = [:]
    private var isClosed = false

    init(
        _ configuration: RedisConfiguration,
        security: RedisSecurity,
        observer: (any RedisObserver)?,
        eventLoop: any EventLoop,
        logger: Logger,
    ) {
        self.configuration = configuration
        self.security = security
        self.observer = observer
        self.eventLoop = eventLoop
        self.logger = logger
    }

    /// Returns the open connection to a server; nil when there is none right now.
    func live(_ endpoint: RedisEndpoint) -> RedisConnection? { self.connections[endpoint]?.live }

    /// Returns a connection to a server as soon as there is one.
    func connection(to endpoint: RedisEndpoint, notAfter deadline: NIODeadline) -> EventLoopFuture<RedisConnection> {
        guard !self.isClosed else {
            return self.eventLoop.makeFailedFuture(RedisError(.closed, "the client is closed"))
        }
        return self.reconnecting(endpoint).connection(notAfter: deadline)
    }

    /// Returns a connection to the server of a tag as soon as there is one, wherever the tag is by then.
    func connection(
        for tag: HashTag,
        notAfter deadline: NIODeadline,
        topology: any RedisTopology,
    ) -> EventLoopFuture<RedisConnection> {
        let endpoint = topology.endpoint(forSlot: tag.slot)
        if let endpoint, let live = self.live(endpoint) { return self.eventLoop.makeSucceededFuture(live) }
        guard let patience = topology.connectionPatience else {
            guard let endpoint else {
                return self.eventLoop.makeFailedFuture(topology.unknownServer(ofSlot: tag.slot))
            }
            return self.connection(to: endpoint, notAfter: deadline)
        }
        let made = endpoint.map { self.connection(to: $0, notAfter: min(deadline, .now() + TimeAmount(patience))) }
        let reached = made ?? self.eventLoop.makeFailedFuture(topology.unknownServer(ofSlot: tag.slot))
        return reached.assumeIsolated().flatMapError { error in
            topology.failed(endpoint)
            let wait = TimeAmount(RetryDecision.base)
            guard !self.isClosed, NIODeadline.now() + wait < deadline else {
                return self.eventLoop.makeFailedFuture(error)
            }
            let promise = self.eventLoop.makePromise(of: RedisConnection.self)
            self.eventLoop.assumeIsolated().scheduleTask(in: wait) {
                self.connection(for: tag, notAfter: deadline, topology: topology).cascade(to: promise)
            }
            return promise.futureResult
        }.nonisolated()
    }

    /// Sends a command, and repeats it while that is safe and its deadline has not passed.
    func perform(_ request: Request, attempt: Int, topology: any RedisTopology) -> EventLoopFuture<RESPReply> {
        let found: RedisEndpoint?
        var deadline = request.deadline
        switch request.target {
        case .tag(let tag):
            found = topology.endpoint(forSlot: tag.slot)
            if let patience = topology.connectionPatience { deadline = min(deadline, .now() + TimeAmount(patience)) }
        case .server(let endpoint): found = endpoint
        }
        guard let endpoint = found else {
            let error = topology.unknownServer(ofSlot: request.slot ?? 0)
            return self.failed(request, error, at: nil, attempt: attempt, topology: topology)
        }
        let reply: EventLoopFuture<RESPReply>
        if let connection = self.live(endpoint) {
            reply = self.send(request, over: connection, to: endpoint)
        } else {
            reply = self.connection(to: endpoint, notAfter: deadline).assumeIsolated()
                .flatMap { self.send(request, over: $0, to: endpoint) }.nonisolated()
        }
        return reply.assumeIsolated().flatMapError { error in
            self.failed(request, RedisError(error), at: endpoint, attempt: attempt, topology: topology)
        }.nonisolated()
    }

    /// Replaces the connection to a server if it is older than the given age.
    func reconnect(to endpoint: RedisEndpoint, olderThan age: TimeAmount) {
        let error = RedisError(.disconnected, "the server did not answer reads")
        self.connections[endpoint]?.discard(olderThan: age, because: error)
    }

    /// Closes all connections for good.
    func close() -> EventLoopFuture<Void> {
        self.isClosed = true
        let closing = self.connections.values.map { $0.close() }
        self.connections.removeAll()
        return EventLoopFuture.andAllComplete(closing, on: self.eventLoop)
    }

    private func reconnecting(_ endpoint: RedisEndpoint) -> ReconnectingConnection {
        if let known = self.connections[endpoint] { return known }
        let made = ReconnectingConnection(
            endpoint: endpoint,
            configuration: self.configuration,
            security: self.security,
            observer: self.observer,
            eventLoop: self.eventLoop,
            logger: self.logger,
        )
        self.connections[endpoint] = made
        return made
    }

    private func send(
        _ request: Request,
        over connection: RedisConnection,
        to endpoint: RedisEndpoint,
    ) -> EventLoopFuture<RESPReply> {
        let reply = connection.submit(
            request.command,
            to: request.server,
            timeout: request.timeout,
            mayWait: request.mayWait,
        )
        reply.assumeIsolated().whenFailure { error in
            // The server was demoted or has lost its master: the address may lead to another one by now.
            let error = RedisError(error)
            guard error.code == .readOnly || error.code == .masterDown else { return }
            self.connections[endpoint]?.discard(connection, because: error)
        }
        return reply
    }

    private func failed(
        _ request: Request,
        _ error: RedisError,
        at endpoint: RedisEndpoint?,
        attempt: Int,
        topology: any RedisTopology,
    ) -> EventLoopFuture<RESPReply> {
        let now = self.eventLoop.now
        if case .tag = request.target {
            if let endpoint, let redirection = RedisRedirection(error, by: endpoint) {
                let isKnown = topology.moved(slot: redirection.slot, to: redirection.endpoint, by: endpoint)
                if isKnown, attempt <= RedisLimits.redirectionsMax, now < request.deadline {
                    return self.perform(request, attempt: attempt + 1, topology: topology)
                }
            } else if error.suggestsAnotherServer {
                topology.failed(endpoint)
            }
        }
        let decision = RetryDecision(
            error: error,
            attempt: attempt,
            idempotent: request.isIdempotent,
            left: Duration(request.deadline - now),
            draw: Double.random(in: 0..<1),
        )
        guard case .resend(let wait) = decision, !self.isClosed else {
            return self.eventLoop.makeFailedFuture(Self.explained(error, topology))
        }
        let promise = self.eventLoop.makePromise(of: RESPReply.self)
        self.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(wait)) {
            self.perform(request, attempt: attempt + 1, topology: topology).cascade(to: promise)
        }
        return promise.futureResult
    }

    /// Adds the cure to a `MOVED` that nobody follows.
    private static func explained(_ error: RedisError, _ topology: any RedisTopology) -> RedisError {
        guard error.code == .moved, topology is SingleServerTopology else { return error }
        return RedisError(.moved, "\(error.message): it is one of several servers, address them with redis+cluster://")
    }
}
