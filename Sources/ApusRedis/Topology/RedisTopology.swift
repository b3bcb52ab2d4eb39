public import NIOCore

/// Maps slots to servers. Callers address hash tags and never see it.
public protocol RedisTopology: Sendable {
    /// The longest time that a command waits for a connection to one server before its slot is looked up again; nil for
    /// as long as the command may wait at all, because there is no other server.
    var connectionPatience: Duration? { get }

    /// Returns the server that accepts writes to the slot; nil while that is unknown.
    func endpoint(forSlot slot: Int) -> RedisEndpoint?

    /// The reason why a slot has no known server; nil when nobody was asked in vain.
    var lastError: RedisError? { get }

    /// Returns who holds the slot; nil where the topology cannot tell a planned move from a failover.
    func holder(ofSlot slot: Int) -> SlotHolder?

    /// The number of times that a slot has got another server, as far as is known.
    var changes: Int { get }

    /// Handles the reply `MOVED` of the server `source`.
    ///
    /// - Returns: true when the slot is known to be elsewhere now, so that the command is sent there at once; otherwise
    ///   it is repeated after a pause.
    func moved(slot: Int, to endpoint: RedisEndpoint, by source: RedisEndpoint) -> Bool

    /// Handles a failure of a server, after which its slots may be elsewhere; nil for a slot without a server.
    func failed(_ endpoint: RedisEndpoint?)

    /// Records that a connection to a server was made, or could not be made.
    func connectionAttempted(to endpoint: RedisEndpoint, isMade: Bool)

    /// Returns true when commands for a server are not to wait for it, because no connection to it could be made for long.
    func isLost(_ endpoint: RedisEndpoint) -> Bool

    /// Returns true when a command for a server may be tried: of one that is lost, now and then.
    func admitsCommand(for endpoint: RedisEndpoint) -> Bool

    /// True when ``confirmMaster(_:on:)`` must be asked before each connection to a slot's server, which then must call
    /// itself a master too.
    var confirmsMasters: Bool { get }

    /// Asks whether a server is the master at this moment.
    ///
    /// - Returns: a future of the event loop, which fails when it is not, or when that cannot be known.
    func confirmMaster(_ endpoint: RedisEndpoint, on eventLoop: any EventLoop) -> EventLoopFuture<Void>

    /// Returns the servers that accept writes, on which functions are loaded. There is at least one.
    ///
    /// - Throws: when they are not known after the given time.
    func masters(within patience: Duration) async throws(RedisError) -> [RedisEndpoint]

    /// Returns the same also while some slots have no server at all, for callers that go on with the others.
    ///
    /// - Throws: when none is known after the given time.
    func knownMasters(within patience: Duration) async throws(RedisError) -> [RedisEndpoint]

    /// Returns the masters and their replicas.
    ///
    /// - Throws: when they are not known after the given time.
    func servers(within patience: Duration) async throws(RedisError) -> [RedisEndpoint]

    /// Returns true when a server holds slots, as far as is known. One that has joined a cluster empty holds none.
    func holdsSlots(_ endpoint: RedisEndpoint) -> Bool

    /// The servers that ``servers(within:)`` leaves out, as they are known since, because they are marked as failed.
    var failedServers: [RedisEndpoint] { get }

    /// Ends what the topology does by itself.
    func close() async
}

extension RedisTopology {
    /// Returns the masters: no slot is ever without one.
    public func knownMasters(within patience: Duration) async throws(RedisError) -> [RedisEndpoint] {
        try await self.masters(within: patience)
    }

    /// 0: there is one server.
    public var changes: Int { 0 }

    /// Returns true: there is one master.
    public func holdsSlots(_ endpoint: RedisEndpoint) -> Bool { true }

    /// None: nobody marks servers.
    public var failedServers: [RedisEndpoint] { [] }

    /// Does nothing: there is no other server, so all commands wait for this one.
    public func connectionAttempted(to endpoint: RedisEndpoint, isMade: Bool) {}

    /// Returns false: there is no other server.
    public func isLost(_ endpoint: RedisEndpoint) -> Bool { false }

    /// Returns true: there is no other server.
    public func admitsCommand(for endpoint: RedisEndpoint) -> Bool { true }

    /// False: a server that is not the master says so by itself.
    public var confirmsMasters: Bool { false }

    /// Succeeds at once.
    public func confirmMaster(_ endpoint: RedisEndpoint, on eventLoop: any EventLoop) -> EventLoopFuture<Void> {
        eventLoop.makeSucceededVoidFuture()
    }

    /// True when one address stands for the server, whichever it is: connections of different times may lead to different ones.
    package var hasOneAddress: Bool { self is SingleServerTopology }

    /// Returns the servers of some slots, each with the first of its tags.
    ///
    /// - Throws: the error of ``unknownServer(ofSlot:)`` when one is not known.
    package func servers(of tags: some Sequence<HashTag>) throws(RedisError) -> [RedisEndpoint: HashTag] {
        var servers: [RedisEndpoint: HashTag] = [:]
        for tag in tags {
            guard let server = self.endpoint(forSlot: tag.slot) else { throw self.unknownServer(ofSlot: tag.slot) }
            if servers[server] == nil { servers[server] = tag }
        }
        return servers
    }

    /// Returns the error of a command whose slot has no known server: the command was not sent.
    package func unknownServer(ofSlot slot: Int) -> RedisError {
        guard let error = self.lastError else {
            return RedisError(.clusterDown, "the server of slot \(slot) is not known yet")
        }
        // The outcome of the question is unknown, but not that of the command.
        return error.isOutcomeUnknown ? RedisError(.notConnected, error.message) : error
    }
}

/// Names who holds a slot, so that a planned move can be told from a failover.
public struct SlotHolder: Hashable, Sendable {
    /// The node's id in its cluster.
    public var node: String
    /// The number of failovers of the slot that were seen. A planned move of the slot, which loses nothing, is none.
    public var failovers: Int

    /// Creates a holder.
    public init(node: String, failovers: Int) {
        self.node = node
        self.failovers = failovers
    }

    /// Returns true when the slot went from that holder to this one by a planned move alone: whatever was written there is here.
    public func isPlannedMove(from other: SlotHolder) -> Bool {
        self.node != other.node && self.failovers == other.failovers
    }
}

/// Maps every slot to one server: a standalone server, or a cluster of one node.
public struct SingleServerTopology: RedisTopology {
    private let endpoint: RedisEndpoint

    /// Creates the topology of the given server.
    public init(_ endpoint: RedisEndpoint) { self.endpoint = endpoint }

    /// Returns nil: there is no other server.
    public var connectionPatience: Duration? { nil }

    /// Returns the one server.
    public func endpoint(forSlot slot: Int) -> RedisEndpoint? { self.endpoint }

    /// Returns nil: the server is always known.
    public var lastError: RedisError? { nil }

    /// Returns nil: the server answers by itself whether it is the same.
    public func holder(ofSlot slot: Int) -> SlotHolder? { nil }

    /// Returns false, as there is no other server: the server is being moved or restarted, which passes.
    public func moved(slot: Int, to endpoint: RedisEndpoint, by source: RedisEndpoint) -> Bool { false }

    /// Does nothing: there is no other server.
    public func failed(_ endpoint: RedisEndpoint?) {}

    /// Returns the one server.
    public func masters(within patience: Duration) async throws(RedisError) -> [RedisEndpoint] { [self.endpoint] }

    /// Returns the one server.
    public func servers(within patience: Duration) async throws(RedisError) -> [RedisEndpoint] { [self.endpoint] }

    /// Does nothing.
    public func close() async {}
}
