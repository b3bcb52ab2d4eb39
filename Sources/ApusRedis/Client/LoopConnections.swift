internal import Logging
internal import NIOCore

/// Holds the connections of one event loop, one per server, and routes commands to them. Confined to the loop.
final class LoopConnections {
    /// Names a connection. Where the topology confirms masters, slots have connections of their own, which were made to a
    /// confirmed master.
    private struct Key: Hashable {
        var endpoint: RedisEndpoint
        var isConfirmed: Bool
    }

    private let configuration: RedisConfiguration
    private let topology: any RedisTopology
    private let security: RedisSecurity
    private let observer: (any RedisObserver)?
    private let eventLoop: any EventLoop
    private let logger: Logger
    private var connections: [Key: ReconnectingConnection] = [:]
    private var isClosed = false

    init(
        _ configuration: RedisConfiguration,
        topology: any RedisTopology,
        security: RedisSecurity,
        observer: (any RedisObserver)?,
        eventLoop: any EventLoop,
        logger: Logger,
    ) {
        self.configuration = configuration
        self.topology = topology
        self.security = security
        self.observer = observer
        self.eventLoop = eventLoop
        self.logger = logger
    }

    /// Returns a connection to a server as soon as there is one.
    private func connection(_ key: Key, notAfter deadline: NIODeadline) -> EventLoopFuture<RedisConnection> {
        guard !self.isClosed else {
            return self.eventLoop.makeFailedFuture(RedisError(.closed, "the client is closed"))
        }
        return self.reconnecting(key).connection(notAfter: deadline)
    }

    private func key(_ endpoint: RedisEndpoint, isForSlot: Bool) -> Key {
        Key(endpoint: endpoint, isConfirmed: isForSlot && self.topology.confirmsMasters)
    }

    /// Returns a connection to the server of a tag as soon as there is one, wherever the tag is by then.
    func connection(for tag: HashTag, notAfter deadline: NIODeadline) -> EventLoopFuture<RedisConnection> {
        let endpoint = self.topology.endpoint(forSlot: tag.slot)
        let key = endpoint.map { self.key($0, isForSlot: true) }
        if let key, let live = self.connections[key]?.live { return self.eventLoop.makeSucceededFuture(live) }
        guard let patience = self.topology.connectionPatience else {
            guard let key else {
                return self.eventLoop.makeFailedFuture(self.topology.unknownServer(ofSlot: tag.slot))
            }
            return self.connection(key, notAfter: deadline)
        }
        if let endpoint, let key, let refusal = self.refusal(key, slot: tag.slot) {
            self.topology.failed(endpoint)
            return self.eventLoop.makeFailedFuture(refusal)
        }
        let made = key.map { self.connection($0, notAfter: min(deadline, .now() + TimeAmount(patience))) }
        let reached = made ?? self.eventLoop.makeFailedFuture(self.topology.unknownServer(ofSlot: tag.slot))
        return reached.assumeIsolated().flatMapError { error in
            self.topology.failed(endpoint)
            let wait = TimeAmount(RetryDecision.base)
            guard !self.isClosed, NIODeadline.now() + wait < deadline, !self.mustSkip(endpoint, slot: tag.slot)
            else {
                return self.eventLoop.makeFailedFuture(error)
            }
            let promise = self.eventLoop.makePromise(of: RedisConnection.self)
            self.eventLoop.assumeIsolated().scheduleTask(in: wait) {
                self.connection(for: tag, notAfter: deadline).cascade(to: promise)
            }
            return promise.futureResult
        }.nonisolated()
    }

    /// Sends a command, and repeats it while that is safe and its deadline has not passed. `receive` takes the last reply.
    func perform(_ request: Request, attempt: Int, _ receive: @escaping ReceiveReply) {
        let found: Key?
        var deadline = request.deadline
        switch request.target {
        case .tag(let tag):
            found = self.topology.endpoint(forSlot: tag.slot).map { self.key($0, isForSlot: true) }
            if let patience = self.topology.connectionPatience {
                deadline = min(deadline, .now() + TimeAmount(patience))
            }
        case .server(let endpoint): found = self.key(endpoint, isForSlot: false)
        }
        guard let key = found else {
            let error = self.topology.unknownServer(ofSlot: request.slot ?? 0)
            return self.failed(request, error, at: nil, attempt: attempt, receive)
        }
        if let connection = self.connections[key]?.live {
            return self.send(request, over: connection, key, attempt: attempt, receive)
        }
        if let slot = request.skippedSlot, let refusal = self.refusal(key, slot: slot) {
            self.topology.failed(key.endpoint)
            return receive(.failure(refusal))
        }
        self.connection(key, notAfter: deadline).assumeIsolated().whenComplete { result in
            switch result {
            case .success(let connection):
                self.send(request, over: connection, key, attempt: attempt, receive)
            case .failure(let error):
                self.failed(request, RedisError(error), at: key.endpoint, attempt: attempt, receive)
            }
        }
    }

    /// Sends commands one behind the other over one connection, each once.
    ///
    /// - Returns: the replies; nil when nothing was sent, since the tags have several servers, or there is no connection.
    func sendInOrder(_ commands: [RedisClient.AddressedCommand]) -> [EventLoopFuture<RESPReply>]? {
        guard let first = commands.first, let endpoint = self.topology.endpoint(forSlot: first.tag.slot),
            commands.allSatisfy({ self.topology.endpoint(forSlot: $0.tag.slot) == endpoint }),
            let connection = self.connections[self.key(endpoint, isForSlot: true)]?.live
        else { return nil }
        return commands.map { connection.submit($0.command, to: nil, timeout: nil) }
    }

    /// Replaces the connection to a server if it is older than the given age.
    func reconnect(to endpoint: RedisEndpoint, olderThan age: TimeAmount) {
        let error = RedisError(.disconnected, "the server did not answer reads")
        for isConfirmed in [false, true] {
            let key = Key(endpoint: endpoint, isConfirmed: isConfirmed)
            guard let connection = self.connections[key], let live = connection.live else { continue }
            connection.discard(live, olderThan: age, because: error)
        }
    }

    /// Replaces the connection to an address if it leads to that server, which has lost the address to another one, or if its server is not known.
    func leave(_ server: RedisServerIdentity, at endpoint: RedisEndpoint) {
        guard let connection = self.connections[self.key(endpoint, isForSlot: true)], let live = connection.live,
            (live.knownIdentity ?? server) == server
        else { return }
        connection.discard(live, because: RedisError(.disconnected, "another server has its address by now"))
    }

    /// Closes all connections for good.
    func close() -> EventLoopFuture<Void> {
        self.isClosed = true
        let closing = self.connections.values.map { $0.close() }
        self.connections.removeAll()
        return EventLoopFuture.andAllComplete(closing, on: self.eventLoop)
    }

    private func reconnecting(_ key: Key) -> ReconnectingConnection {
        if let known = self.connections[key] { return known }
        let made = ReconnectingConnection(
            endpoint: key.endpoint,
            configuration: self.configuration,
            confirming: key.isConfirmed ? self.topology : nil,
            reportingTo: self.topology,
            security: self.security,
            observer: self.observer,
            eventLoop: self.eventLoop,
            logger: self.logger,
        )
        self.connections[key] = made
        return made
    }

    private func send(
        _ request: Request,
        over connection: RedisConnection,
        _ key: Key,
        attempt: Int,
        _ receive: @escaping ReceiveReply,
    ) {
        connection.submit(
            request.command,
            to: request.server,
            timeout: request.timeout,
            mayWait: request.mayWait,
        ) { result in
            guard case .failure(let error) = result else { return receive(result) }
            switch error.code {
            // The server was demoted or has lost its master: the address may lead to another one by now.
            case .readOnly, .masterDown: self.connections[key]?.discard(connection, because: error)
            // A later connection has met another server at this address, for which the command is meant.
            case .serverChanged where self.topology.hasOneAddress && connection.isOutdated(for: request.server):
                self.connections[key]?.discard(connection, because: error)
                return self.perform(request, attempt: attempt + 1, receive)
            default: break
            }
            self.failed(request, error, at: key.endpoint, attempt: attempt, receive)
        }
    }

    private func failed(
        _ request: Request,
        _ error: RedisError,
        at endpoint: RedisEndpoint?,
        attempt: Int,
        _ receive: @escaping ReceiveReply,
    ) {
        let now = self.eventLoop.now
        if case .tag = request.target {
            if let endpoint, let redirection = RedisRedirection(error, by: endpoint) {
                let isKnown = self.topology.moved(slot: redirection.slot, to: redirection.endpoint, by: endpoint)
                if isKnown, attempt <= RedisLimits.redirectionsMax, now < request.deadline {
                    return self.perform(request, attempt: attempt + 1, receive)
                }
            } else if error.suggestsAnotherServer {
                self.topology.failed(endpoint)
            }
        }
        let decision = RetryDecision(
            error: error,
            attempt: attempt,
            idempotent: request.isIdempotent,
            left: Duration(request.deadline - now),
            draw: Double.random(in: 0..<1),
        )
        let isSkipped = request.skippedSlot.map { self.mustSkip(endpoint, slot: $0) } ?? false
        guard case .resend(let wait) = decision, !self.isClosed, !isSkipped else {
            return receive(.failure(Self.explained(error, self.topology)))
        }
        self.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(wait)) {
            self.perform(request, attempt: attempt + 1, receive)
        }
    }

    // MARK: Lost servers

    /// Returns the error of a command that is not to wait for a server; nil when it may be tried.
    private func refusal(_ key: Key, slot: Int) -> RedisError? {
        guard self.mustSkip(key.endpoint, slot: slot), !self.topology.admitsCommand(for: key.endpoint) else {
            return nil
        }
        return RedisError(.notConnected, "\(key.endpoint) cannot be reached, while others of the cluster can")
    }

    /// Returns true when commands for a slot are not to wait for its server: nobody reaches it, and there is a connection to another one
    /// with slots.
    private func mustSkip(_ endpoint: RedisEndpoint?, slot: Int) -> Bool {
        guard self.configuration.skipsLostServers, let endpoint, self.topology.isLost(endpoint),
            self.topology.endpoint(forSlot: slot) == endpoint
        else { return false }
        return self.connections.contains { key, connection in
            key.endpoint != endpoint && connection.live != nil && self.topology.holdsSlots(key.endpoint)
        }
    }

    /// Adds the cure to a `MOVED` that nobody follows.
    private static func explained(_ error: RedisError, _ topology: any RedisTopology) -> RedisError {
        guard error.code == .moved, topology is SingleServerTopology else { return error }
        return RedisError(.moved, "\(error.message): it is one of several servers, address them with redis+cluster://")
    }
}
