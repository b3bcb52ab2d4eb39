internal import ApusTLS
public import NIOCore
internal import NIOPosix

/// One connection to one server, on one event loop. Commands are pipelined: none waits for the answer of another.
///
/// A command that is not answered in time closes the connection; so does anything that is no RESP2. An idle connection is
/// asked with `PING` whether it lives.
public final class RedisConnection: Sendable {
    /// Where it lives: futures complete there, and calls from there do not hop.
    public let eventLoop: any EventLoop
    /// Completes when the connection is gone, whatever the reason.
    public let closeFuture: EventLoopFuture<Void>

    private let channel: any Channel
    private let handler: NIOLoopBound<RedisChannelHandler>
    private let requestTimeout: TimeAmount
    private let answers: NIOLoopBoundBox<Answers>

    /// What the server said about itself and this connection, as far as anybody asked.
    private struct Answers {
        var identity: EventLoopFuture<RedisServerIdentity>?
        /// The same, once it has come.
        var knownIdentity: RedisServerIdentity?
        var clientID: EventLoopFuture<Int64?>?
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
        on eventLoop: any EventLoop,
    ) -> EventLoopFuture<RedisConnection> {
        let requestTimeout = TimeAmount(configuration.requestTimeout)
        let bootstrap = ClientBootstrap(group: eventLoop)
            .connectTimeout(TimeAmount(configuration.connectTimeout))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try security.addHandler(to: channel, host: endpoint.host)
                    let handler = RedisChannelHandler(
                        limits: configuration.pipelineLimits,
                        eventLoop: channel.eventLoop,
                        observer: observer,
                    )
                    try channel.pipeline.syncOperations.addHandler(handler)
                }
            }
        let connecting =
            switch endpoint {
            case .host(let host, let port): bootstrap.connect(host: host, port: port)
            case .unixSocket(let path): bootstrap.connect(unixDomainSocketPath: path)
            }
        return
            connecting
            .flatMapErrorThrowing { error in
                let error = RedisError(error)
                throw error.code == .tls ? error : RedisError(.notConnected, "\(endpoint): \(error.message)")
            }
            .flatMapThrowing { channel in
                let handler = try channel.pipeline.syncOperations.handler(type: RedisChannelHandler.self)
                return RedisConnection(channel: channel, handler: handler, requestTimeout: requestTimeout)
            }
            .flatMap { connection in connection.greet(configuration) }
    }

    /// Sends a command.
    ///
    /// - Parameters:
    ///   - command: what.
    ///   - timeout: how long the answer may take; nil: the configuration's `requestTimeout`. A blocking read adds its
    ///     own.
    /// - Returns: the answer. Fails with a `RedisError`: what the server answered, `full` when the queue is at its limit,
    ///   `notConnected` when it was not sent, `disconnected` or `timedOut` when it was and nobody knows more.
    public func send(_ command: RedisCommand, timeout: TimeAmount? = nil) -> EventLoopFuture<RESPReply> {
        self.submit(command, timeout: timeout ?? self.requestTimeout, mayBlock: false)
    }

    /// Sends a command.
    ///
    /// - Parameters:
    ///   - mayBlock: observers are not told how long it took.
    ///   - mayWait: it may leave with the next one.
    func submit(
        _ command: RedisCommand,
        timeout: TimeAmount,
        mayBlock: Bool,
        mayWait: Bool = false,
    ) -> EventLoopFuture<RESPReply> {
        if self.eventLoop.inEventLoop {
            return self.handler.value.submit(command, timeout: timeout, mayBlock: mayBlock, mayWait: mayWait)
        }
        return self.eventLoop.flatSubmit {
            self.handler.value.submit(command, timeout: timeout, mayBlock: mayBlock, mayWait: mayWait)
        }
    }

    /// Sends commands as one transaction: all are executed with nothing between them, or none.
    ///
    /// - Returns: the array of answers. One of them may be an error node: Redis does not undo. Fails with the error of the
    ///   first command that was refused.
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

    /// Which server this is. To be called on the event loop.
    ///
    /// The answer is kept for as long as the connection lives, a failure is not: who asks next asks the server. Without the right to `INFO`
    /// the server is unknown, which is no failure.
    func identity() -> EventLoopFuture<RedisServerIdentity> {
        if let known = self.answers.value.identity { return known }
        let asked = self.send(RedisCommand("INFO", "server")).flatMapThrowing { reply in
            guard let identity = RedisServerIdentity(info: reply.root.string ?? "") else {
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

    /// The number by which the server knows this connection; nil where it does not tell. To be called on the event loop.
    ///
    /// As with ``identity()`` the answer is kept, a failure is not.
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
        asked.whenFailure { _ in self.answers.value.clientID = nil }
        return asked
    }

    /// Sends a command if the server is the one that is meant, else fails with `serverChanged`. To be called on the event loop.
    func submit(
        _ command: RedisCommand,
        to server: RedisServerIdentity?,
        timeout: TimeAmount?,
        mayBlock: Bool = false,
        mayWait: Bool = false,
    ) -> EventLoopFuture<RESPReply> {
        let timeout = timeout ?? self.requestTimeout
        guard let server, server != self.answers.value.knownIdentity else {
            return self.submit(command, timeout: timeout, mayBlock: mayBlock, mayWait: mayWait)
        }
        return self.identity().flatMap { found in
            guard found == server else {
                let error = RedisError(.serverChanged, "the server is \(found), not \(server) any more")
                return self.eventLoop.makeFailedFuture(error)
            }
            return self.submit(command, timeout: timeout, mayBlock: mayBlock, mayWait: mayWait)
        }
    }

    /// Whether commands are taken. To be asked on the event loop.
    public var isOpen: Bool { self.handler.value.isOpen }

    /// Why it was closed; nil: it is open. To be asked on the event loop.
    var closeReason: RedisError? { self.handler.value.closeReason }

    /// Commands that wait for their answers. To be asked on the event loop.
    public var pendingCount: Int { self.handler.value.pendingCount }

    /// Ends the connection at once; whoever waits for an answer is told `disconnected`.
    ///
    /// - Returns: completes when it is gone.
    @discardableResult
    public func close() -> EventLoopFuture<Void> {
        self.close(RedisError(.disconnected, "the connection was closed by its owner"))
    }

    @discardableResult
    func close(_ reason: RedisError) -> EventLoopFuture<Void> {
        self.eventLoop.execute { self.handler.value.close(reason) }
        return self.closeFuture
    }

    /// Logs in, gives the connection its name and asks whether the server is ready; all in one write.
    private func greet(_ configuration: RedisConfiguration) -> EventLoopFuture<RedisConnection> {
        let timeout = TimeAmount(configuration.connectTimeout)
        var steps: [EventLoopFuture<Void>] = []
        if let password = configuration.password {
            let user = configuration.username ?? "default"
            steps.append(self.send(RedisCommand("AUTH", .text(user), .text(password)), timeout: timeout).map { _ in })
        }
        let name = RedisCommand("CLIENT", "SETNAME", .text(configuration.clientName))
        steps.append(self.tolerant(self.send(name, timeout: timeout)))
        steps.append(self.tolerant(self.send(RedisCommand("PING"), timeout: timeout)))
        // Fails with the first one that fails: a wrong password is told as such.
        return EventLoopFuture.andAllSucceed(steps, on: self.eventLoop)
            .map { self }
            .flatMapError { error in
                let error = RedisError(error)
                // Whatever the greeting met, no command of a caller was sent.
                let isNews = error.isCredentials || error.isRetryable || error.code == .tls
                let told = isNews ? error : RedisError(.notConnected, error.message)
                return self.close().flatMapThrowing { throw told }
            }
    }

    /// A server that answers is alive. Only what says "not now" or "not you" keeps the connection from being used: a user
    /// without the right to `PING`, or a full disk (which answers `MISCONF` to it), do not.
    private func tolerant(_ reply: EventLoopFuture<RESPReply>) -> EventLoopFuture<Void> {
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
