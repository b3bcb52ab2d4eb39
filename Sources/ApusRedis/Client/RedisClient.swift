public import Logging
public import NIOCore

/// Executes commands on Redis: callers address a hash tag, and the client finds the server and the connection.
///
/// One connection per server and event loop carries everything, pipelined. Blocking commands have connections of their
/// own (`blockingConnection`). The client repeats a command that was certainly not executed until `patience` ends; a
/// command with an unknown outcome is repeated only when the caller declares it idempotent.
public final class RedisClient: Sendable {
    /// The caller's requirements for a command.
    public struct Options: Sendable, Hashable {
        /// True when executing the command twice has the same effect as once.
        public var isIdempotent: Bool
        /// The time during which the client repeats the command; nil for the configuration's. Zero allows one attempt,
        /// which waits only for the first connection.
        public var patience: Duration?
        /// The time limit for one reply; nil for the configuration's `requestTimeout`.
        public var timeout: Duration?
        /// The only server that may execute the command; nil for whichever holds the slot. On another server the
        /// command fails with `serverChanged`.
        public var server: RedisServerIdentity?
        /// True when the command may be sent a few milliseconds later, together with the next one to the same server.
        public var mayWait: Bool

        /// Creates options.
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

        /// The command is executed at most once.
        public static let once = Options()
        /// The command may be executed more than once.
        public static let idempotent = Options(isIdempotent: true)
    }

    /// The client's configuration.
    public let configuration: RedisConfiguration
    /// The assignment of slots to servers.
    public let topology: any RedisTopology
    /// The event loops of its connections.
    public let eventLoopGroup: any EventLoopGroup

    private let loops: [ObjectIdentifier: NIOLoopBoundBox<LoopConnections>]
    /// True when this client made its topology, and closes it.
    private let ownsTopology: Bool
    private let security: RedisSecurity
    private let observer: (any RedisObserver)?
    private let logger: Logger

    /// Creates a client, which connects when it is first used.
    ///
    /// - Parameters:
    ///   - configuration: the address, the log-in and the time limits.
    ///   - topology: a topology that clients share, which the client does not close; nil for one of its own, of the
    ///     servers in the configuration's address.
    ///   - eventLoopGroup: the event loops of its connections, which the client does not shut down.
    ///   - logger: writes one line when a server is lost and one when it is back.
    ///   - observer: receives the events that metrics count; nil for none.
    /// - Throws: `tls` when the trusted certificates cannot be read.
    public init(
        configuration: RedisConfiguration,
        topology: (any RedisTopology)? = nil,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
        observer: (any RedisObserver)? = nil,
    ) throws(RedisError) {
        self.configuration = configuration
        if let topology {
            self.topology = topology
        } else {
            self.topology = try Self.topology(of: configuration, eventLoopGroup: eventLoopGroup, logger: logger)
        }
        self.ownsTopology = topology == nil
        self.eventLoopGroup = eventLoopGroup
        self.logger = logger
        self.observer = observer
        let security = try RedisSecurity(configuration)
        self.security = security
        var loops: [ObjectIdentifier: NIOLoopBoundBox<LoopConnections>] = [:]
        for eventLoop in eventLoopGroup.makeIterator() {
            let connections = LoopConnections(
                configuration,
                topology: self.topology,
                security: security,
                observer: observer,
                eventLoop: eventLoop,
                logger: logger,
            )
            loops[ObjectIdentifier(eventLoop)] = .makeBoxSendingValue(connections, eventLoop: eventLoop)
        }
        self.loops = loops
    }

    /// Returns the topology of the servers in an address, which clients of one process should share. Its owner closes it.
    ///
    /// - Throws: `tls` when the trusted certificates cannot be read.
    public static func topology(
        of configuration: RedisConfiguration,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
    ) throws(RedisError) -> any RedisTopology {
        switch configuration.deployment {
        case .server: SingleServerTopology(configuration.endpoint)
        case .cluster: try ClusterTopology(configuration, eventLoopGroup: eventLoopGroup, logger: logger)
        case .sentinel(let sentinel):
            try SentinelTopology(configuration, sentinel, eventLoopGroup: eventLoopGroup, logger: logger)
        }
    }

    /// Returns the servers that accept writes, within the configuration's patience.
    public func masters() async throws(RedisError) -> [RedisEndpoint] {
        try await self.topology.masters(within: self.configuration.patience)
    }

    /// Returns the servers that accept writes and their replicas, within the configuration's patience.
    public func servers() async throws(RedisError) -> [RedisEndpoint] {
        try await self.topology.servers(within: self.configuration.patience)
    }

    /// Sends a command to the server of a tag.
    ///
    /// - Returns: the reply, which is not an error.
    /// - Throws: the server's error, or the reason for a missing reply.
    public func send(
        _ command: RedisCommand,
        on tag: HashTag,
        options: Options = .once,
    ) async throws(RedisError) -> RESPReply {
        try await self.reply(to: command, at: .tag(tag), options).get()
    }

    /// Calls a function of ours. The call is repeated when its outcome is unknown, unless the options say otherwise:
    /// every function of Apus is idempotent, but for answers that one of them counts.
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

    /// Sends a command over the connection of an event loop of the group; the future completes on that loop.
    public func send(
        _ command: RedisCommand,
        on tag: HashTag,
        options: Options = .once,
        eventLoop: any EventLoop,
    ) -> EventLoopFuture<RESPReply> {
        self.future(of: command, at: .tag(tag), options, on: eventLoop)
    }

    /// Sends a command to one server over the connection of an event loop of the group.
    func send(
        _ command: RedisCommand,
        to endpoint: RedisEndpoint,
        options: Options,
        eventLoop: any EventLoop,
    ) -> EventLoopFuture<RESPReply> {
        self.future(of: command, at: .server(endpoint), options, on: eventLoop)
    }

    /// Sends commands as one transaction to the server of a tag, which all keys must carry. It is executed at most once.
    ///
    /// - Returns: the array of replies, one of which may be an error node.
    public func transaction(_ commands: [RedisCommand], on tag: HashTag) async throws(RedisError) -> RESPReply {
        do {
            return try await self.connection(for: tag, on: self.anyEventLoop).flatMap { $0.sendTransaction(commands) }
                .get()
        } catch {
            throw RedisError(error)
        }
    }

    /// Sends a command to one server, whatever slots it holds: for commands that concern a server as a whole.
    public func send(
        _ command: RedisCommand,
        to endpoint: RedisEndpoint,
        options: Options = .once,
    ) async throws(RedisError) -> RESPReply {
        try await self.reply(to: command, at: .server(endpoint), options).get()
    }

    /// Returns the connection for commands of a tag on an event loop, as soon as there is one. For callers on that loop
    /// that send much: they check its `isOpen` and decide about repetition themselves.
    public func connection(for tag: HashTag, on eventLoop: any EventLoop) -> EventLoopFuture<RedisConnection> {
        let patience = TimeAmount(self.configuration.patience)
        return self.onLoop(eventLoop) { connections in
            let deadline = self.topology.connectionPatience == nil ? .distantFuture : NIODeadline.now() + patience
            return connections.connection(for: tag, notAfter: deadline)
        }
    }

    /// Returns the identity of the server that holds a tag right now.
    public func serverIdentity(for tag: HashTag) async throws(RedisError) -> RedisServerIdentity {
        do {
            return try await self.connection(for: tag, on: self.anyEventLoop).flatMap { $0.identity() }.get()
        } catch {
            throw RedisError(error)
        }
    }

    /// Returns the identities of the servers that hold some tags right now.
    package func serverIdentities(
        for tags: some Sequence<HashTag>
    ) async throws(RedisError) -> [RedisEndpoint: RedisServerIdentity] {
        var identities: [RedisEndpoint: RedisServerIdentity] = [:]
        for (server, tag) in try self.topology.servers(of: tags) {
            identities[server] = try await self.serverIdentity(for: tag)
        }
        return identities
    }

    /// Creates a connection of its own for blocking reads. The caller closes it.
    ///
    /// - Parameter eventLoop: the connection's event loop, one of the client's; nil for any of them.
    public func blockingConnection(for tag: HashTag, on eventLoop: (any EventLoop)? = nil) -> RedisBlockingConnection {
        RedisBlockingConnection(
            client: self,
            tag: tag,
            configuration: self.configuration,
            security: self.security,
            observer: self.observer,
            eventLoop: eventLoop ?? self.eventLoopGroup.next(),
            logger: self.logger,
        )
    }

    /// Replaces the connections to the server of a tag that are older than the given age; commands that wait on them
    /// fail with `disconnected`.
    package func reconnect(for tag: HashTag, olderThan age: Duration) async {
        guard let endpoint = self.topology.endpoint(forSlot: tag.slot) else { return }
        self.topology.failed(endpoint)
        for eventLoop in self.eventLoopGroup.makeIterator() {
            _ = try? await self.onLoop(eventLoop) { connections in
                connections.reconnect(to: endpoint, olderThan: TimeAmount(age))
                return eventLoop.makeSucceededVoidFuture()
            }.get()
        }
    }

    /// Replaces the connections for a tag that lead to that server, if it is one that may lose its address to another; commands that wait on them
    /// fail with `disconnected`.
    package func leave(_ server: RedisServerIdentity, for tag: HashTag) async {
        guard self.topology.hasOneAddress, let endpoint = self.topology.endpoint(forSlot: tag.slot) else { return }
        for eventLoop in self.eventLoopGroup.makeIterator() {
            _ = try? await self.onLoop(eventLoop) { connections in
                connections.leave(server, at: endpoint)
                return eventLoop.makeSucceededVoidFuture()
            }.get()
        }
    }

    /// Closes all connections; commands that await a reply fail with `disconnected`, later ones with `closed`. Blocking
    /// connections belong to their creators, who close them.
    public func close() async {
        for eventLoop in self.eventLoopGroup.makeIterator() {
            _ = try? await self.onLoop(eventLoop) { $0.close() }.get()
        }
        if self.ownsTopology { await self.topology.close() }
    }

    private func future(
        of command: RedisCommand,
        at target: Request.Target,
        _ options: Options,
        on eventLoop: any EventLoop,
    ) -> EventLoopFuture<RESPReply> {
        let promise = eventLoop.makePromise(of: RESPReply.self)
        self.perform(command, at: target, options, on: eventLoop) { promise.receive($0) }
        return promise.futureResult
    }

    private func reply(
        to command: RedisCommand,
        at target: Request.Target,
        _ options: Options,
    ) async -> Result<RESPReply, RedisError> {
        await withCheckedContinuation { continuation in
            self.perform(command, at: target, options, on: self.anyEventLoop) { continuation.resume(returning: $0) }
        }
    }

    private func perform(
        _ command: RedisCommand,
        at target: Request.Target,
        _ options: Options,
        on eventLoop: any EventLoop,
        _ receive: @escaping @Sendable (Result<RESPReply, RedisError>) -> Void,
    ) {
        let patience = TimeAmount(options.patience ?? self.configuration.patience)
        let request = Request(
            command: command,
            target: target,
            isIdempotent: options.isIdempotent,
            timeout: options.timeout.map(TimeAmount.init),
            server: options.server,
            mayWait: options.mayWait,
            hasOwnPatience: options.patience != nil,
            deadline: NIODeadline.now() + patience,
        )
        let box = self.box(of: eventLoop)
        if eventLoop.inEventLoop { return box.value.perform(request, attempt: 1, receive) }
        eventLoop.execute { box.value.perform(request, attempt: 1, receive) }
    }

    private var anyEventLoop: any EventLoop { self.eventLoopGroup.any() }

    private func box(of eventLoop: any EventLoop) -> NIOLoopBoundBox<LoopConnections> {
        guard let box = self.loops[ObjectIdentifier(eventLoop)] else {
            preconditionFailure("the event loop is not of the client's group")
        }
        return box
    }

    /// Returns the connections of an event loop of the group, for a caller on that loop.
    func connections(of eventLoop: any EventLoop) -> LoopConnections { self.box(of: eventLoop).value }

    private func onLoop<Value: Sendable>(
        _ eventLoop: any EventLoop,
        _ body: @escaping @Sendable (LoopConnections) -> EventLoopFuture<Value>,
    ) -> EventLoopFuture<Value> {
        let box = self.box(of: eventLoop)
        if eventLoop.inEventLoop { return body(box.value) }
        return eventLoop.flatSubmit { body(box.value) }
    }
}

/// A command under way, with everything that retry decisions need.
struct Request: Sendable {
    /// The recipients of commands.
    enum Target: Sendable {
        /// The server that holds the slot of the tag.
        case tag(HashTag)
        /// The given server.
        case server(RedisEndpoint)
    }

    let command: RedisCommand
    let target: Target
    let isIdempotent: Bool
    let timeout: TimeAmount?
    let server: RedisServerIdentity?
    let mayWait: Bool
    /// True when the caller has said how long the command may wait.
    let hasOwnPatience: Bool
    /// The slot of a command that fails at once rather than wait for a lost server; nil for one that waits.
    var skippedSlot: Int? { self.hasOwnPatience ? nil : self.slot }
    /// The slot of a tag; nil for a command to a given server.
    var slot: Int? {
        switch self.target {
        case .tag(let tag): tag.slot
        case .server: nil
        }
    }
    /// The time at which the client stops repeating the command.
    let deadline: NIODeadline
}
