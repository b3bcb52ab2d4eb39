public import Logging
public import NIOCore

/// The way to Redis: callers address a hash tag, the client finds the server and the connection.
///
/// One connection per server and event loop carries everything, pipelined. What blocks has connections of its own
/// (`blockingConnection`). A command that was certainly not executed is repeated by the client itself until `patience`
/// ends; one whose outcome nobody knows only when the caller says that it is idempotent.
public final class RedisClient: Sendable {
    /// What the caller knows about a command.
    public struct Options: Sendable, Hashable {
        /// Executing it twice is the same as once.
        public var isIdempotent: Bool
        /// How long to go on; nil: the configuration's. Zero: one try, at most the first connection is waited for.
        public var patience: Duration?
        /// How long one answer may take; nil: the configuration's `requestTimeout`.
        public var timeout: Duration?
        /// The only server that it is meant for; nil: whichever holds the slot. Another fails with `serverChanged`.
        public var server: RedisServerIdentity?
        /// It may leave a few milliseconds later, with the next one that goes the same way: nobody is in a hurry for its answer.
        public var mayWait: Bool

        /// Options.
        public init(
            isIdempotent: Bool = false,
            patience: Duration? = nil,
            timeout: Duration? = nil,
            server: RedisServerIdentity? = nil,
            mayWait: Bool = false,
        ) {
            self.isIdempotent = isIdempotent
            self.patience = patience
            self.timeout = timeout
            self.server = server
            self.mayWait = mayWait
        }

        /// Executed at most once.
        public static let once = Options()
        /// May be executed again.
        public static let idempotent = Options(isIdempotent: true)
    }

    /// How it was set up.
    public let configuration: RedisConfiguration
    /// Where which slot is.
    public let topology: any RedisTopology
    /// The loops that its connections live on.
    public let eventLoopGroup: any EventLoopGroup

    private let loops: [ObjectIdentifier: NIOLoopBoundBox<LoopConnections>]
    private let security: RedisSecurity
    private let observer: (any RedisObserver)?
    private let logger: Logger

    /// A client; it connects when it is first used.
    ///
    /// - Parameters:
    ///   - configuration: address, log-in, patience.
    ///   - topology: nil: the one server of the configuration's address.
    ///   - eventLoopGroup: where its connections live. Not shut down by the client.
    ///   - logger: one line when a server is lost and one when it is back.
    ///   - observer: who counts; nil: nobody.
    /// - Throws: `tls` when the trusted certificates cannot be read.
    public init(
        configuration: RedisConfiguration,
        topology: (any RedisTopology)? = nil,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
        observer: (any RedisObserver)? = nil,
    ) throws(RedisError) {
        self.configuration = configuration
        self.topology = topology ?? SingleServerTopology(configuration.endpoint)
        self.eventLoopGroup = eventLoopGroup
        self.logger = logger
        self.observer = observer
        let security = try RedisSecurity(configuration)
        self.security = security
        var loops: [ObjectIdentifier: NIOLoopBoundBox<LoopConnections>] = [:]
        for eventLoop in eventLoopGroup.makeIterator() {
            let connections = LoopConnections(
                configuration,
                security: security,
                observer: observer,
                eventLoop: eventLoop,
                logger: logger,
            )
            loops[ObjectIdentifier(eventLoop)] = .makeBoxSendingValue(connections, eventLoop: eventLoop)
        }
        self.loops = loops
    }

    /// Sends a command to the server of a tag.
    ///
    /// - Returns: the answer, which is no error.
    /// - Throws: what the server answered, or why there is no answer.
    public func send(
        _ command: RedisCommand,
        on tag: HashTag,
        options: Options = .once,
    ) async throws(RedisError) -> RESPReply {
        do {
            return try await self.send(command, on: tag, options: options, eventLoop: self.anyEventLoop).get()
        } catch {
            throw RedisError(error)
        }
    }

    /// Calls a function of ours. Repeated when the outcome is unknown, unless the options say otherwise: every function
    /// of Apus is idempotent.
    public func call(
        _ function: String,
        on tag: HashTag,
        keys: [String],
        arguments: [RedisArgument] = [],
        readOnly: Bool = false,
        options: Options = .idempotent,
    ) async throws(RedisError) -> RESPReply {
        let command = RedisCommand.call(function, keys: keys, arguments: arguments, readOnly: readOnly)
        return try await self.send(command, on: tag, options: options)
    }

    /// Sends a command over that event loop's connection; the future completes on it. The loop is one of the group's.
    public func send(
        _ command: RedisCommand,
        on tag: HashTag,
        options: Options = .once,
        eventLoop: any EventLoop,
    ) -> EventLoopFuture<RESPReply> {
        self.perform(command, for: .tag(tag), options, on: eventLoop)
    }

    /// Sends commands as one transaction to the server of a tag; all keys carry it. Executed at most once.
    ///
    /// - Returns: the array of answers, of which one may be an error node.
    public func transaction(_ commands: [RedisCommand], on tag: HashTag) async throws(RedisError) -> RESPReply {
        do {
            return try await self.connection(for: tag, on: self.anyEventLoop).flatMap { $0.sendTransaction(commands) }
                .get()
        } catch {
            throw RedisError(error)
        }
    }

    /// Sends a command to one server, whatever slots it holds: for what concerns a server as a whole.
    public func send(
        _ command: RedisCommand,
        to endpoint: RedisEndpoint,
        options: Options = .once,
    ) async throws(RedisError) -> RESPReply {
        do {
            return try await self.perform(command, for: .server(endpoint), options, on: self.anyEventLoop).get()
        } catch {
            throw RedisError(error)
        }
    }

    /// The connection that commands of a tag take on that event loop, as soon as it is there. For callers that live on the
    /// loop and send much: they see its `isOpen` and decide about repeating themselves.
    public func connection(for tag: HashTag, on eventLoop: any EventLoop) -> EventLoopFuture<RedisConnection> {
        let endpoint = self.topology.endpoint(forSlot: tag.slot)
        return self.onLoop(eventLoop) { $0.connection(to: endpoint, notAfter: .distantFuture) }
    }

    /// The same, if it is there right now. To be asked on the event loop.
    public func liveConnection(for tag: HashTag, on eventLoop: any EventLoop) -> RedisConnection? {
        self.box(of: eventLoop).value.live(self.topology.endpoint(forSlot: tag.slot))
    }

    /// Which server holds a tag right now.
    public func serverIdentity(for tag: HashTag) async throws(RedisError) -> RedisServerIdentity {
        do {
            return try await self.connection(for: tag, on: self.anyEventLoop).flatMap { $0.identity() }.get()
        } catch {
            throw RedisError(error)
        }
    }

    /// A connection of its own for reads that block. The caller closes it.
    ///
    /// - Parameter eventLoop: where it lives, one of the client's; nil: on any of them.
    public func blockingConnection(for tag: HashTag, on eventLoop: (any EventLoop)? = nil) -> RedisBlockingConnection {
        RedisBlockingConnection(
            client: self,
            endpoint: self.topology.endpoint(forSlot: tag.slot),
            configuration: self.configuration,
            security: self.security,
            observer: self.observer,
            eventLoop: eventLoop ?? self.eventLoopGroup.next(),
            logger: self.logger,
        )
    }

    /// Replaces the connections to the server of a tag that are older than that; what waits on them for an answer fails with `disconnected`.
    package func reconnect(for tag: HashTag, olderThan age: Duration) async {
        let endpoint = self.topology.endpoint(forSlot: tag.slot)
        for eventLoop in self.eventLoopGroup.makeIterator() {
            _ = try? await self.onLoop(eventLoop) { connections in
                connections.reconnect(to: endpoint, olderThan: TimeAmount(age))
                return eventLoop.makeSucceededVoidFuture()
            }.get()
        }
    }

    /// Closes all connections; commands that wait for an answer fail with `disconnected`, later ones with `closed`.
    /// Blocking connections are their owners'.
    public func close() async {
        for eventLoop in self.eventLoopGroup.makeIterator() {
            _ = try? await self.onLoop(eventLoop) { $0.close() }.get()
        }
    }

    private func perform(
        _ command: RedisCommand,
        for target: Request.Target,
        _ options: Options,
        on eventLoop: any EventLoop,
    ) -> EventLoopFuture<RESPReply> {
        let patience = TimeAmount(options.patience ?? self.configuration.patience)
        let request = Request(
            command: command,
            target: target,
            isIdempotent: options.isIdempotent,
            timeout: options.timeout.map(TimeAmount.init),
            server: options.server,
            mayWait: options.mayWait,
            deadline: NIODeadline.now() + patience,
        )
        return self.onLoop(eventLoop) { $0.perform(request, attempt: 1, topology: self.topology) }
    }

    private var anyEventLoop: any EventLoop { self.eventLoopGroup.any() }

    private func box(of eventLoop: any EventLoop) -> NIOLoopBoundBox<LoopConnections> {
        guard let box = self.loops[ObjectIdentifier(eventLoop)] else {
            preconditionFailure("the event loop is not of the client's group")
        }
        return box
    }

    private func onLoop<Value: Sendable>(
        _ eventLoop: any EventLoop,
        _ body: @escaping @Sendable (LoopConnections) -> EventLoopFuture<Value>,
    ) -> EventLoopFuture<Value> {
        let box = self.box(of: eventLoop)
        if eventLoop.inEventLoop { return body(box.value) }
        return eventLoop.flatSubmit { body(box.value) }
    }
}

/// One command on its way, with all that deciding about it needs.
struct Request: Sendable {
    /// Who is to get it.
    enum Target: Sendable {
        /// Whoever holds the slot of that tag.
        case tag(HashTag)
        /// That server.
        case server(RedisEndpoint)
    }

    let command: RedisCommand
    let target: Target
    let isIdempotent: Bool
    let timeout: TimeAmount?
    let server: RedisServerIdentity?
    let mayWait: Bool
    /// When patience ends.
    let deadline: NIODeadline
}
