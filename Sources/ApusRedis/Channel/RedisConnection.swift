internal import ApusNetwork
internal import ApusTLS
public import NIOCore

/// Represents one connection to one server, on one event loop. Commands are pipelined: none waits for the reply to another.
///
/// A command that is not answered in time closes the connection, and so does any input that is not RESP2. An idle
/// connection is checked with `PING`.
public final class RedisConnection: Sendable {
    /// The event loop of the connection: futures complete there, and calls from there do not hop.
    public let eventLoop: any EventLoop
    /// Completes when the connection is gone, whatever the reason.
    public let closeFuture: EventLoopFuture<Void>

    /// The time at which the connection was made.
    private let connectedAt = NIODeadline.now()
    private let channel: any Channel
    private let handler: NIOLoopBound<RedisChannelHandler>
    private let requestTimeout: TimeAmount
    private let answers: NIOLoopBoundBox<Answers>

    /// The replies about the server and this connection that were requested so far.
    private struct Answers {
        var identity: EventLoopFuture<RedisServerIdentity>?
        /// The identity, once the reply has arrived.
        var knownIdentity: RedisServerIdentity?
        var clientID: EventLoopFuture<Int64?>?
        /// The id, once the reply has arrived; nil in it where the server does not reveal it.
        var knownClientID: Int64??
    }

    private init(channel: any Channel, handler: RedisChannelHandler, requestTimeout: TimeAmount) {
        self.eventLoop = channel.eventLoop
        self.closeFuture = channel.closeFuture
        self.channel = channel
        self.handler = NIOLoopBound(handler, eventLoop: channel.eventLoop)
        self.requestTimeout = requestTimeout
        self.answers = NIOLoopBoundBox(Answers(), eventLoop: channel.eventLoop)
    }

    /// Connects, logs in and asks whether the server is ready.
    ///
    /// Fails with `notConnected`, `tls`, the errors of credentials, or `loading` and `masterDown`.
    public static func connect(
        to endpoint: RedisEndpoint,
        configuration: RedisConfiguration,
        on eventLoop: any EventLoop,
    ) -> EventLoopFuture<RedisConnection> {
        do throws(RedisError) {
            let security = try RedisSecurity(configuration)
            return Self.connect(
                to: endpoint,
                configuration: configuration,
                security: security,
                observer: nil,
                on: eventLoop,
            )
        } catch {
            return eventLoop.makeFailedFuture(error)
        }
    }

    static func connect(
        to endpoint: RedisEndpoint,
        configuration: RedisConfiguration,
        security: RedisSecurity,
        observer: (any RedisObserver)?,
        mustBeMaster: Bool = false,
        on eventLoop: any EventLoop,
    ) -> EventLoopFuture<RedisConnection> {
        let requestTimeout = TimeAmount(configuration.requestTimeout)
        // By channel: one that closes at once, because TLS fails, has no handlers any more when it is looked at.
        let handlers = NIOLoopBoundBox.makeEmptyBox(
            valueType: [ObjectIdentifier: RedisChannelHandler].self,
            eventLoop: eventLoop
        )
        let address: NetworkAddress =
            switch endpoint {
            case .host(let host, let port): .host(host, port: port)
            case .unixSocket(let path): .unixSocket(path)
            }
        return Dialer(timeout: TimeAmount(configuration.connectTimeout))
            .connect(to: address, on: eventLoop) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try security.addHandler(to: channel, host: endpoint.host)
                    let handler = RedisChannelHandler(
                        limits: configuration.pipelineLimits,
                        eventLoop: channel.eventLoop,
                        observer: observer,
                    )
                    try channel.pipeline.syncOperations.addHandler(handler)
                    handlers.value = (handlers.value ?? [:]).merging([ObjectIdentifier(channel): handler]) { $1 }
                }
            }
            .flatMapErrorThrowing { error in
                let error = RedisError(error)
                throw error.code == .tls ? error : RedisError(.notConnected, "\(endpoint): \(error.message)")
            }
            .flatMapThrowing { channel in
                guard let handler = handlers.value?[ObjectIdentifier(channel)] else {
                    preconditionFailure("a channel that was not initialized")
                }
                return RedisConnection(channel: channel, handler: handler, requestTimeout: requestTimeout)
            }
            .flatMap { connection in connection.logIn(configuration, mustBeMaster: mustBeMaster) }
    }

    /// Sends a command.
    ///
    /// - Parameters:
    ///   - command: the command.
    ///   - timeout: the time limit for the reply; nil for the configuration's `requestTimeout`. A blocking read adds its own blocking time.
    /// - Returns: the reply. Fails with a `RedisError`: the server's error, `full` when the queue is at its limit,
    ///   `notConnected` when the command was not sent, `disconnected` or `timedOut` when it was sent and its outcome is
    ///   unknown.
    public func send(_ command: RedisCommand, timeout: TimeAmount? = nil) -> EventLoopFuture<RESPReply> {
        self.submit(command, timeout: timeout ?? self.requestTimeout, mayBlock: false)
    }

    /// Sends a command.
    ///
    /// - Parameter mayBlock: when true, observers do not receive its duration.
    func submit(
        _ command: RedisCommand,
        timeout: TimeAmount,
        mayBlock: Bool,
    ) -> EventLoopFuture<RESPReply> {
        let promise = self.eventLoop.makePromise(of: RESPReply.self)
        let submit = { @Sendable in
            self.handler.value.submit(command, timeout: timeout, mayBlock: mayBlock, mayWait: false, promise.receive)
        }
        if self.eventLoop.inEventLoop { submit() } else { self.eventLoop.execute(submit) }
        return promise.futureResult
    }

    /// Sends commands as one transaction: all of them are executed with nothing in between, or none.
    ///
    /// - Returns: the array of replies. One of them may be an error node: Redis does not roll back. Fails with the
    ///   error of the first command that was refused.
    public func sendTransaction(_ commands: [RedisCommand]) -> EventLoopFuture<RESPReply> {
        self.eventLoop.flatSubmit {
            // One turn of the loop, so no other command comes between them.
            let replies = ([RedisCommand("MULTI")] + commands).map { self.send($0) }
            let last = self.send(RedisCommand("EXEC"))
            // A refused command makes EXEC say only that something was refused; the first error says what.
            return EventLoopFuture.andAllComplete(replies, on: self.eventLoop).flatMap {
                last.flatMapError { error in
                    EventLoopFuture.andAllSucceed(replies, on: self.eventLoop).flatMapThrowing { throw error }
                }
            }
        }
    }

    /// Returns the server's identity. Call it on the event loop.
    ///
    /// A reply is kept for as long as the connection lives, a failure is not: the next call asks the server again.
    /// Without the permission for `INFO` the identity is unknown, which is not a failure.
    func identity() -> EventLoopFuture<RedisServerIdentity> {
        if let known = self.answers.value.identity { return known }
        let asked = self.send(RedisCommand("INFO", "server")).flatMapThrowing { reply in
            let (info, connectedAt) = (reply.root.string ?? "", self.connectedAt)
            guard let identity = RedisServerIdentity(info: info, connectedAt: connectedAt) else {
                throw reply.unexpected("a text that names a run_id")
            }
            return identity
        }.flatMapErrorThrowing { error in
            guard RedisError(error).code == .noPermission else { throw error }
            return .unknown
        }
        self.answers.value.identity = asked
        asked.whenComplete { result in
            switch result {
            case .success(let identity): self.answers.value.knownIdentity = identity
            case .failure: self.answers.value.identity = nil
            }
        }
        return asked
    }

    /// The server's identity, if it is known by now. Read it on the event loop.
    var knownIdentity: RedisServerIdentity? { self.answers.value.knownIdentity }

    /// Returns true when a later connection has met a server that this one does not lead to. Where both have the same address, that server has it by
    /// now.
    func isOutdated(for server: RedisServerIdentity?) -> Bool {
        server.map { self.connectedAt < $0.connectedAt } ?? false
    }

    /// The server's id of this connection, if it is known by now; nil in it where the server does not reveal it. Read it on the event loop.
    var knownClientID: Int64?? { self.answers.value.knownClientID }

    /// Returns the server's id of this connection; nil where the server does not reveal it. Call it on the event loop.
    ///
    /// Keeps a reply, as ``identity()`` does, and no failure.
    func clientID() -> EventLoopFuture<Int64?> {
        if let known = self.answers.value.clientID { return known }
        let asked = self.send(RedisCommand("CLIENT", "ID")).flatMapThrowing { reply -> Int64? in
            guard let id = reply.root.integer else { throw reply.unexpected("a number") }
            return id
        }.flatMapErrorThrowing { error in
            guard RedisError(error).code == .noPermission else { throw error }
            return nil
        }
        self.answers.value.clientID = asked
        asked.whenComplete { result in
            switch result {
            case .success(let id): self.answers.value.knownClientID = .some(id)
            case .failure: self.answers.value.clientID = nil
            }
        }
        return asked
    }

    /// Sends a command if the server is the intended one, otherwise fails with `serverChanged`. Call it on the event loop.
    func submit(
        _ command: RedisCommand,
        to server: RedisServerIdentity?,
        timeout: TimeAmount?,
        mayBlock: Bool = false,
    ) -> EventLoopFuture<RESPReply> {
        let promise = self.eventLoop.makePromise(of: RESPReply.self)
        self.submit(command, to: server, timeout: timeout, mayBlock: mayBlock, promise.receive)
        return promise.futureResult
    }

    /// Sends a command if the server is the intended one, otherwise fails with `serverChanged`. Call it on the event loop.
    ///
    /// - Parameters:
    ///   - mayBlock: when true, observers do not receive its duration.
    ///   - mayWait: when true, the command may be sent together with the next one.
    ///   - receive: takes the reply.
    func submit(
        _ command: RedisCommand,
        to server: RedisServerIdentity?,
        timeout: TimeAmount?,
        mayBlock: Bool = false,
        mayWait: Bool = false,
        _ receive: @escaping ReceiveReply,
    ) {
        let (handler, timeout) = (self.handler.value, timeout ?? self.requestTimeout)
        guard let server, server != self.answers.value.knownIdentity else {
            return handler.submit(command, timeout: timeout, mayBlock: mayBlock, mayWait: mayWait, receive)
        }
        self.identity().assumeIsolated().whenComplete { result in
            switch result {
            case .success(let found) where found == server:
                handler.submit(command, timeout: timeout, mayBlock: mayBlock, mayWait: mayWait, receive)
            case .success(let found):
                receive(.failure(RedisError(.serverChanged, "the server is \(found), not \(server) any more")))
            case .failure(let error): receive(.failure(RedisError(error)))
            }
        }
    }

    /// True while commands are accepted. Read it on the event loop.
    public var isOpen: Bool { self.handler.value.isOpen }

    /// The reason for closing; nil while the connection is open. Read it on the event loop.
    var closeReason: RedisError? { self.handler.value.closeReason }

    /// The number of commands that await their replies. Read it on the event loop.
    public var pendingCount: Int { self.handler.value.pendingCount }

    /// Closes the connection at once; commands that await a reply fail with `disconnected`.
    ///
    /// - Returns: a future that completes when the connection is gone.
    @discardableResult
    public func close() -> EventLoopFuture<Void> {
        self.close(RedisError(.disconnected, "the connection was closed by its owner"))
    }

    @discardableResult
    func close(_ reason: RedisError) -> EventLoopFuture<Void> {
        self.eventLoop.execute { self.handler.value.close(reason) }
        return self.closeFuture
    }

    /// Logs in, names the connection and checks that the server is ready, and a master if it must be one, all in one write.
    private func logIn(
        _ configuration: RedisConfiguration,
        mustBeMaster: Bool,
    ) -> EventLoopFuture<RedisConnection> {
        if let reason = self.closeReason {
            // A peer that is as fast as we are has failed the handshake by now.
            let reported = reason.code == .tls ? reason : RedisError(.notConnected, reason.message)
            return self.eventLoop.makeFailedFuture(reported)
        }
        let timeout = TimeAmount(configuration.connectTimeout)
        var steps: [EventLoopFuture<Void>] = []
        if let password = configuration.password {
            let user = configuration.username ?? "default"
            steps.append(self.send(RedisCommand("AUTH", .text(user), .text(password)), timeout: timeout).map { _ in })
        }
        let name = RedisCommand("CLIENT", "SETNAME", .text(configuration.clientName))
        steps.append(self.ignoringUnrelatedErrors(self.send(name, timeout: timeout)))
        steps.append(self.ignoringUnrelatedErrors(self.send(RedisCommand("PING"), timeout: timeout)))
        if mustBeMaster { steps.append(self.role(timeout)) }
        // The first failure is the result, so that a wrong password is reported as one.
        return EventLoopFuture.andAllSucceed(steps, on: self.eventLoop)
            .map { self }
            .flatMapError { error in
                let error = RedisError(error)
                // No command of a caller was sent before the greeting failed.
                let isMeaningful = error.isCredentials || error.isRetryable || error.code == .tls
                let reported = isMeaningful ? error : RedisError(.notConnected, error.message)
                return self.close().flatMapThrowing { throw reported }
            }
    }

    /// Fails unless the server calls itself a master.
    private func role(_ timeout: TimeAmount) -> EventLoopFuture<Void> {
        self.send(RedisCommand("ROLE"), timeout: timeout).flatMapThrowing { reply in
            guard let role = reply.root.element(0)?.string else { throw reply.unexpected("the name of a role") }
            guard role == "master" else {
                let text = "the Sentinels name it as the master, but it is a replica still: a failover is under way"
                throw RedisError(.notConnected, text)
            }
        }.flatMapErrorThrowing { error in
            let error = RedisError(error)
            guard error.code == .noPermission else { throw error }
            let cure = "with Sentinels it must be allowed, such as by ACL SETUSER NAME +role"
            throw RedisError(.noPermission, "the user may not ask for ROLE: \(cure)")
        }
    }

    /// Accepts any reply that shows a live server. Only errors that say "not now" or "not you" make the connection
    /// unusable: a missing permission for `PING` or a full disk (which answers `MISCONF`) do not.
    private func ignoringUnrelatedErrors(_ reply: EventLoopFuture<RESPReply>) -> EventLoopFuture<Void> {
        reply.map { _ in }.flatMapErrorThrowing { error in
            let error = RedisError(error)
            switch error.code {
            case .loading, .masterDown, .noAuthentication: throw error
            case let code where error.isOutcomeUnknown || code == .tls || code == .notConnected: throw error
            case .server where error.message.hasPrefix("ERR max number of clients"): throw error
            default: return
            }
        }
    }
}
