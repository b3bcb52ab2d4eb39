/// The address of a server.
public enum RedisEndpoint: Sendable, Hashable, CustomStringConvertible {
    /// A name or address, and a port.
    case host(String, port: Int)
    /// The path of a Unix socket.
    case unixSocket(path: String)

    /// The name or address; nil for a unix socket.
    public var host: String? {
        switch self {
        case .host(let host, _): host
        case .unixSocket: nil
        }
    }

    /// The address for logs.
    public var description: String {
        switch self {
        case .host(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .unixSocket(let path): path
        }
    }
}
