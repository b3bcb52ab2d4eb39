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

    /// Sends a command, and repeats it while that is safe and its deadline has not passed.
    func perform(_ request: Request, attempt: Int, topology: any RedisTopology) -> EventLoopFuture<RESPReply> {
        let endpoint =
            switch request.target {
            case .tag(let tag): topology.endpoint(forSlot: tag.slot)
            case .server(let endpoint): endpoint
            }
        let reply: EventLoopFuture<RESPReply>
        if let connection = self.live(endpoint) {
            reply = self.send(request, over: connection, to: endpoint)
        } else {
            reply = self.connection(to: endpoint, notAfter: request.deadline).assumeIsolated()
                .flatMap { self.send(request, over: $0, to: endpoint) }.nonisolated()
        }
        return reply.assumeIsolated().flatMapError { error in
            self.failed(request, RedisError(error), attempt: attempt, topology: topology)
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
        attempt: Int,
        topology: any RedisTopology,
    ) -> EventLoopFuture<RESPReply> {
        let now = self.eventLoop.now
        if error.code == .moved, let (slot, target) = RedisRedirection.parse(error.message),
            now < request.deadline, topology.moved(slot: slot, to: target)
        {
            return self.perform(request, attempt: attempt + 1, topology: topology)
        }
        let decision = RetryDecision(
            error: error,
            attempt: attempt,
            idempotent: request.isIdempotent,
            left: Duration(request.deadline - now),
            draw: Double.random(in: 0..<1),
        )
        guard case .resend(let wait) = decision, !self.isClosed else { return self.eventLoop.makeFailedFuture(error) }
        let promise = self.eventLoop.makePromise(of: RESPReply.self)
        self.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(wait)) {
            self.perform(request, attempt: attempt + 1, topology: topology).cascade(to: promise)
        }
        return promise.futureResult
    }
}

/// Parses a redirection such as `MOVED 3999 127.0.0.1:6381`, which names the server of a slot.
package enum RedisRedirection {
    /// Returns the slot and the server; nil for any other text, and for an empty host, which means "the same host" and
    /// which a topology cannot use.
    package static func parse(_ text: String) -> (slot: Int, endpoint: RedisEndpoint)? {
        let words = text.split(separator: " ")
        guard words.count == 3, let slot = Int(words[1]), (0..<HashTag.slotCount).contains(slot),
            let colon = words[2].lastIndex(of: ":"), colon != words[2].startIndex,
            let port = Int(words[2][words[2].index(after: colon)...]), (1...65_535).contains(port)
        else { return nil }
        return (slot, .host(String(words[2][..<colon]), port: port))
    }
}
