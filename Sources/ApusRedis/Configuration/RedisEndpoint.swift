/// Where a server listens.
public enum RedisEndpoint: Sendable, Hashable, CustomStringConvertible {
    /// A name or address, and a port.
    case host(String, port: Int)
    /// A socket in the file system.
    case unixSocket(path: String)

    /// The name or address; nil for a unix socket.
    public var host: String? {
        switch self {
        case .host(let host, _): host
        case .unixSocket: nil
        }
    }

    /// For logs.
    public var description: String {
        switch self {
        case .host(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .unixSocket(let path): path
        }
    }
}
