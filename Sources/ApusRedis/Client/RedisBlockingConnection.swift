internal import Logging
internal import NIOCore
internal import Synchronization

/// Represents a connection for blocking reads such as `XREADGROUP … BLOCK`, during which the connection serves no other command.
///
/// It takes one command at a time, from one caller. It connects at the first read and reconnects after a loss: a read
/// then waits for the next attempt, and after an error that the server answered it waits as long, so that a loop of reads never spins.
public final class RedisBlockingConnection: Sendable {
    private let client: RedisClient
    private let tag: HashTag
    /// The server's id of the connection whose read may be blocked right now.
    private let blocked = Mutex<Int64?>(nil)
    /// The errors that the server has answered in a row, and the time before which no further read is made.
    private let refusals = Mutex<(count: Int, notBefore: ContinuousClock.Instant)>((0, .now))
    private let eventLoop: any EventLoop
    private let requestTimeout: Duration
    private let reconnect: ReconnectPolicy
    private let state: NIOLoopBoundBox<State>

    /// Confined to the loop.
    private struct State {
        /// The connection to the server that had the slot when it was last used; nil before the first use.
        var connection: ReconnectingConnection?
        var endpoint: RedisEndpoint?
        var isClosed = false
        let make: (RedisEndpoint) -> ReconnectingConnection
    }

    init(
        client: RedisClient,
        tag: HashTag,
        configuration: RedisConfiguration,
        security: RedisSecurity,
        observer: (any RedisObserver)?,
        eventLoop: any EventLoop,
        logger: Logger,
    ) {
        self.client = client
        self.tag = tag
        self.eventLoop = eventLoop
        self.requestTimeout = configuration.requestTimeout
        self.reconnect = configuration.reconnect
        let topology = client.topology
        let state = State { endpoint in
            ReconnectingConnection(
                endpoint: endpoint,
                configuration: configuration,
                confirming: topology.confirmsMasters ? topology : nil,
                reportingTo: topology,
                security: security,
                observer: observer,
                eventLoop: eventLoop,
                logger: logger,
            )
        }
        self.state = .makeBoxSendingValue(state, eventLoop: eventLoop)
    }

    /// The open connection to the server that has the slot now; nil when there is none. Read it on the event loop.
    private var live: RedisConnection? {
        guard !self.state.value.isClosed, let live = self.state.value.connection?.live,
            self.state.value.endpoint == self.client.topology.endpoint(forSlot: self.tag.slot)
        else { return nil }
        return live
    }

    /// Returns a connection to the server that has the slot now, as soon as there is one. Call it on the event loop.
    private func connected() -> EventLoopFuture<RedisConnection> {
        let topology = self.client.topology
        guard !self.state.value.isClosed else {
            return self.eventLoop.makeFailedFuture(RedisError(.closed, "the connection is closed"))
        }
        guard let endpoint = topology.endpoint(forSlot: self.tag.slot) else {
            return self.eventLoop.makeFailedFuture(topology.unknownServer(ofSlot: self.tag.slot))
        }
        if self.state.value.endpoint != endpoint {
            _ = self.state.value.connection?.close()
            self.state.value.connection = self.state.value.make(endpoint)
            self.state.value.endpoint = endpoint
        }
        guard let connection = self.state.value.connection else { preconditionFailure("it was made above") }
        let patience = topology.connectionPatience.map { NIODeadline.now() + TimeAmount($0) }
        return connection.connection(notAfter: patience ?? .distantFuture)
    }

    /// Tells the topology of an error after which the slot may be elsewhere. Returns true when it is, and where is known.
    ///
    /// - Parameter server: the only server that may execute the command.
    private func isElsewhere(after error: RedisError, _ server: RedisServerIdentity?) async -> Bool {
        // A server that loads its data answers at once: on the same connection a loop of reads would spin.
        if [.readOnly, .masterDown, .loading].contains(error.code) { await self.discard(error) }
        if error.code == .serverChanged, await self.discardOutdated(error, for: server) { return true }
        guard let endpoint = try? await self.eventLoop.submit({ self.state.value.endpoint }).get() else {
            self.client.topology.failed(nil)
            return false
        }
        if let redirection = RedisRedirection(error, by: endpoint) {
            return self.client.topology.moved(slot: redirection.slot, to: redirection.endpoint, by: endpoint)
        }
        if error.suggestsAnotherServer { self.client.topology.failed(endpoint) }
        return false
    }

    /// Sends a command that may block.
    ///
    /// - Parameters:
    ///   - command: the command, with a `BLOCK` of 1-2 s of its own, so that a shutdown and a dead server are noticed.
    ///   - blocking: the command's blocking time; the configuration's `requestTimeout` is added to it.
    ///   - server: the only server that may execute the command; nil for any.
    /// - Returns: the reply; null when nothing arrived.
    /// - Throws: as `RedisConnection.send`, and `serverChanged`. After `disconnected` and `timedOut` entries may have
    ///   been delivered to a reader that never saw them: they are in the group's pending list.
    public func send(
        _ command: RedisCommand,
        blocking: Duration,
        server: RedisServerIdentity? = nil,
    ) async throws(RedisError) -> RESPReply {
        let timeout = TimeAmount(blocking + self.requestTimeout)
        defer { self.blocked.withLock { $0 = nil } }
        let due = self.refusals.withLock(\.notBefore)
        if due > .now { try? await Task.sleep(until: due) }
        var redirections = 0
        while true {
            do throws(RedisError) {
                let reply = try await self.reply(to: command, blocking: blocking, timeout, server).get()
                self.refusals.withLock { $0.count = 0 }
                return reply
            } catch {
                redirections += 1
                guard await self.isElsewhere(after: error, server), redirections <= RedisLimits.redirectionsMax else {
                    self.noteFailure(error)
                    throw error
                }
            }
        }
    }

    /// Delays the next read if the server has answered this one with an error. After a lost connection the next attempt is late already.
    private func noteFailure(_ error: RedisError) {
        guard !error.word.isEmpty else { return }
        self.refusals.withLock { refusals in
            refusals.count += 1
            let draw = Double.random(in: 0..<1)
            let wait = self.reconnect.wait(failures: refusals.count, credentialsRefused: false, draw: draw)
            refusals.notBefore = .now + wait
        }
    }

    private func reply(
        to command: RedisCommand,
        blocking: Duration,
        _ timeout: TimeAmount,
        _ server: RedisServerIdentity?,
    ) async -> Result<RESPReply, RedisError> {
        await withCheckedContinuation { continuation in
            let submit = { @Sendable in
                self.submit(command, blocking: blocking, timeout, server) { continuation.resume(returning: $0) }
            }
            if self.eventLoop.inEventLoop { submit() } else { self.eventLoop.execute(submit) }
        }
    }

    private func submit(
        _ command: RedisCommand,
        blocking: Duration,
        _ timeout: TimeAmount,
        _ server: RedisServerIdentity?,
        _ receive: @escaping ReceiveReply,
    ) {
        if blocking > .zero, let live, let id = live.knownClientID {
            self.blocked.withLock { $0 = id }
            return live.submit(command, to: server, timeout: timeout, mayBlock: true, receive)
        }
        let reply = self.connected().flatMap { connection in
            guard blocking > .zero else { return connection.submit(command, to: server, timeout: timeout) }
            return connection.clientID().flatMap { id in
                self.blocked.withLock { $0 = id }
                return connection.submit(command, to: server, timeout: timeout, mayBlock: true)
            }
        }
        reply.assumeIsolated().whenComplete { receive($0.mapError { RedisError($0) }) }
    }

    /// Sends a write and asks on the same connection, with `WAIT`, how many replicas have it: `WAIT` speaks of what its own connection wrote,
    /// and stops whatever comes behind it.
    ///
    /// - Parameters:
    ///   - patience: how long the first replica may take.
    ///   - server: the only server that it is meant for; nil: any.
    /// - Returns: how many replicas have it; nil: the server has none. A user who may not ask (`INFO`) is told the same.
    package func sendReplicated(
        _ command: RedisCommand,
        patience: Duration,
        server: RedisServerIdentity? = nil,
    ) async throws(RedisError) -> Int? {
        do {
            return try await self.eventLoop.flatSubmit {
                self.connected().flatMap { connection in
                    self.submitReplicated(command, patience, server, over: connection)
                }
            }.get()
        } catch {
            let error = RedisError(error)
            _ = await self.isElsewhere(after: error, server)
            throw error
        }
    }

    /// Sends a write and waits on the same connection, with `WAIT`, for a replica that has it.
    ///
    /// - Parameters:
    ///   - patience: the time that the first replica may take.
    ///   - server: the only server that may execute the command.
    /// - Returns: the number of replicas that have it.
    package func sendWaiting(
        _ command: RedisCommand,
        patience: Duration,
        server: RedisServerIdentity,
    ) async throws(RedisError) -> Int {
        do {
            return try await self.eventLoop.flatSubmit {
                self.connected().flatMap { self.submitWaiting(command, patience, server, over: $0) }
            }.get()
        } catch {
            let error = RedisError(error)
            _ = await self.isElsewhere(after: error, server)
            throw error
        }
    }

    private func submitWaiting(
        _ command: RedisCommand,
        _ patience: Duration,
        _ server: RedisServerIdentity?,
        over connection: RedisConnection,
    ) -> EventLoopFuture<Int> {
        let written = connection.submit(command, to: server, timeout: TimeAmount(self.requestTimeout))
        let wait = RedisCommand("WAIT", 1, .integer(max(1, Int64(patience / .milliseconds(1)))))
        let longer = TimeAmount(patience + self.requestTimeout)
        let waited = connection.submit(wait, to: server, timeout: longer, mayBlock: true)
        return written.and(waited).map { Int($0.1.root.integer ?? 0) }
    }

    private func submitReplicated(
        _ command: RedisCommand,
        _ patience: Duration,
        _ server: RedisServerIdentity?,
        over connection: RedisConnection,
    ) -> EventLoopFuture<Int?> {
        let timeout = TimeAmount(self.requestTimeout)
        let question = RedisCommand("INFO", "replication")
        return connection.submit(question, to: server, timeout: timeout).map { $0.namesOnlineReplica }
            .flatMapErrorThrowing { error in
                guard RedisError(error).code == .noPermission else { throw error }
                return false
            }
            .flatMap { hasReplica in
                guard hasReplica else {
                    return connection.submit(command, to: server, timeout: timeout).map { _ in nil }
                }
                return self.submitWaiting(command, patience, server, over: connection).map { $0 }
            }
    }

    /// Ends the blocked read as if its time had run out; does nothing when the server knows of none.
    ///
    /// The server may receive this before the read: callers that must be sure repeat it until the read has ended.
    /// Without the permission for `CLIENT UNBLOCK` the read ends when its time runs out.
    public func interrupt() async {
        guard let clientID = self.blocked.withLock({ $0 }),
            let endpoint = try? await self.eventLoop.submit({ self.state.value.endpoint }).get()
        else { return }
        let command = RedisCommand("CLIENT", "UNBLOCK", .integer(clientID))
        _ = try? await self.client.send(command, to: endpoint, options: .init(patience: .zero))
    }

    /// Replaces the connection: a waiting read fails with `disconnected`, and the next one connects again.
    public func reconnect() async {
        await self.discard(RedisError(.disconnected, "the server did not answer reads"))
    }

    /// Closes the connection; a waiting read fails with `disconnected`.
    public func close() async {
        _ = try? await self.eventLoop.flatSubmit {
            self.state.value.isClosed = true
            return self.state.value.connection?.close() ?? self.eventLoop.makeSucceededVoidFuture()
        }.get()
    }

    private func discard(_ error: RedisError) async {
        _ = try? await self.eventLoop.submit {
            guard let connection = self.state.value.connection, let live = connection.live else { return }
            connection.discard(live, because: error)
        }.get()
    }

    /// Discards the connection if a later one has met that server at the same address.
    ///
    /// - Returns: true when it was discarded, so that the command may be sent to the server over the next one.
    private func discardOutdated(_ error: RedisError, for server: RedisServerIdentity?) async -> Bool {
        guard self.client.topology.hasOneAddress else { return false }
        let isDiscarded = try? await self.eventLoop.submit { () -> Bool in
            guard let connection = self.state.value.connection, let live = connection.live,
                live.isOutdated(for: server)
            else { return false }
            connection.discard(live, because: error)
            return true
        }.get()
        return isDiscarded ?? false
    }
}

extension RESPReply {
    /// True when this, an answer to `INFO replication`, names a replica that follows.
    package var namesOnlineReplica: Bool {
        guard let text = self.root.string else { return false }
        return text.split(whereSeparator: \.isNewline)
            .contains { $0.hasPrefix("slave") && $0.contains("state=online") }
    }
}
