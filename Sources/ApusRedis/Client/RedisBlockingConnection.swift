internal import Logging
internal import NIOCore
internal import Synchronization

/// Represents a connection for blocking reads such as `XREADGROUP … BLOCK`, during which the connection serves no other command.
///
/// It takes one command at a time, from one caller. It connects at the first read and reconnects after a loss: a read
/// then waits for the next attempt, so that a loop of reads never spins.
public final class RedisBlockingConnection: Sendable {
    private let client: RedisClient
    private let endpoint: RedisEndpoint
    /// The server's id of the connection whose read may be blocked right now.
    private let blocked = Mutex<Int64?>(nil)
    private let eventLoop: any EventLoop
    private let requestTimeout: Duration
    private let connection: NIOLoopBoundBox<ReconnectingConnection>

    init(
        client: RedisClient,
        endpoint: RedisEndpoint,
        configuration: RedisConfiguration,
        security: RedisSecurity,
        observer: (any RedisObserver)?,
        eventLoop: any EventLoop,
        logger: Logger,
    ) {
        self.client = client
        self.endpoint = endpoint
        self.eventLoop = eventLoop
        self.requestTimeout = configuration.requestTimeout
        let connection = ReconnectingConnection(
            endpoint: endpoint,
            configuration: configuration,
            security: security,
            observer: observer,
            eventLoop: eventLoop,
            logger: logger,
        )
        self.connection = .makeBoxSendingValue(connection, eventLoop: eventLoop)
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
        do {
            guard self.eventLoop.inEventLoop else {
                return try await self.eventLoop.flatSubmit {
                    self.submit(command, blocking: blocking, timeout, server)
                }.get()
            }
            return try await self.submit(command, blocking: blocking, timeout, server).get()
        } catch {
            let error = RedisError(error)
            if error.code == .readOnly || error.code == .masterDown { await self.discard(error) }
            throw error
        }
    }

    private func submit(
        _ command: RedisCommand,
        blocking: Duration,
        _ timeout: TimeAmount,
        _ server: RedisServerIdentity?,
    ) -> EventLoopFuture<RESPReply> {
        self.connection.value.connection(notAfter: .distantFuture).flatMap { connection in
            guard blocking > .zero else { return connection.submit(command, to: server, timeout: timeout) }
            return connection.clientID().flatMap { id in
                self.blocked.withLock { $0 = id }
                return connection.submit(command, to: server, timeout: timeout, mayBlock: true)
            }
        }
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
                self.connection.value.connection(notAfter: .distantFuture).flatMap { connection in
                    self.submitReplicated(command, patience, server, over: connection)
                }
            }.get()
        } catch {
            let error = RedisError(error)
            if error.code == .readOnly || error.code == .masterDown { await self.discard(error) }
            throw error
        }
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
                let written = connection.submit(command, to: server, timeout: timeout)
                guard hasReplica else { return written.map { _ in nil } }
                let wait = RedisCommand("WAIT", 1, .integer(max(1, Int64(patience / .milliseconds(1)))))
                let longer = TimeAmount(patience + self.requestTimeout)
                let waited = connection.submit(wait, to: server, timeout: longer, mayBlock: true)
                return written.and(waited).map { Int($0.1.root.integer ?? 0) }
            }
    }

    /// Ends the blocked read as if its time had run out; does nothing when the server knows of none.
    ///
    /// The server may receive this before the read: callers that must be sure repeat it until the read has ended.
    /// Without the permission for `CLIENT UNBLOCK` the read ends when its time runs out.
    public func interrupt() async {
        guard let clientID = self.blocked.withLock({ $0 }) else { return }
        let command = RedisCommand("CLIENT", "UNBLOCK", .integer(clientID))
        _ = try? await self.client.send(command, to: self.endpoint, options: .init(patience: .zero))
    }

    /// Replaces the connection: a waiting read fails with `disconnected`, and the next one connects again.
    public func reconnect() async {
        await self.discard(RedisError(.disconnected, "the server did not answer reads"))
    }

    /// Closes the connection; a waiting read fails with `disconnected`.
    public func close() async {
        _ = try? await self.eventLoop.flatSubmit { self.connection.value.close() }.get()
    }

    private func discard(_ error: RedisError) async {
        _ = try? await self.eventLoop.submit {
            guard let live = self.connection.value.live else { return }
            self.connection.value.discard(live, because: error)
        }.get()
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
