/// Maps slots to servers. Callers address hash tags and never see it.
public protocol RedisTopology: Sendable {
    /// The servers that accept writes, on which functions are loaded.
    var endpoints: [RedisEndpoint] { get }

    /// Returns the server that holds the slot.
    func endpoint(forSlot slot: Int) -> RedisEndpoint

    /// Handles the reply `MOVED` of a server.
    ///
    /// - Returns: true when the slot is known to be elsewhere now, so that the command is sent there at once; otherwise
    ///   it is repeated after a pause.
    func moved(slot: Int, to endpoint: RedisEndpoint) -> Bool
}

/// Maps every slot to one server: a standalone server, or a cluster of one node.
public struct SingleServerTopology: RedisTopology {
    private let endpoint: RedisEndpoint

    /// Creates the topology of the given server.
    public init(_ endpoint: RedisEndpoint) { self.endpoint = endpoint }

    /// The one server.
    public var endpoints: [RedisEndpoint] { [self.endpoint] }

    /// Returns the one server.
    public func endpoint(forSlot slot: Int) -> RedisEndpoint { self.endpoint }

    /// Returns false, as there is no other server: the server is being moved or restarted, which passes.
    public func moved(slot: Int, to endpoint: RedisEndpoint) -> Bool { false }
}
