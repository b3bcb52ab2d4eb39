/// Which server holds which slot. Callers address hash tags and never see it.
public protocol RedisTopology: Sendable {
    /// The servers that take writes: where functions are loaded.
    var endpoints: [RedisEndpoint] { get }

    /// The server that holds the slot.
    func endpoint(forSlot slot: Int) -> RedisEndpoint

    /// A server answered `MOVED`.
    ///
    /// - Returns: whether the slot is known to be elsewhere now, so that the command goes there at once; else it is
    ///   repeated after a pause.
    func moved(slot: Int, to endpoint: RedisEndpoint) -> Bool
}

/// One server holds everything: a plain one, or a cluster of one node.
public struct SingleServerTopology: RedisTopology {
    private let endpoint: RedisEndpoint

    /// The server.
    public init(_ endpoint: RedisEndpoint) { self.endpoint = endpoint }

    /// The server.
    public var endpoints: [RedisEndpoint] { [self.endpoint] }

    /// The server.
    public func endpoint(forSlot slot: Int) -> RedisEndpoint { self.endpoint }

    /// There is nowhere else to go: the server is being moved or restarted, which passes.
    public func moved(slot: Int, to endpoint: RedisEndpoint) -> Bool { false }
}
