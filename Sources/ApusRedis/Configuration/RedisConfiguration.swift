internal import ApusCore
internal import NIOCore

/// Describes the connection to Redis and its time limits.
///
/// The address holds most of it:
/// - `redis://[user[:password]@]host[:port]`
/// - `rediss://…`, the same over TLS; `?ca=<file>` names the trusted certificates (else the system's),
///   `?server_name=<name>` what the certificate must be valid for (else the host)
/// - `unix://[user[:password]@]/path/of/socket`
/// - `redis+cluster://[user[:password]@]host[:port][,host[:port]…]` and `rediss+cluster://…`: a Redis Cluster, of which
///   some nodes are named, up to `RedisLimits.seedsMax`; they tell of the others
///
/// User, password and path may be percent-encoded. There is no database number: a cluster has only one.
public struct RedisConfiguration: Sendable, CustomStringConvertible {
    /// Configures TLS.
    public struct TLS: Sendable, Hashable {
        /// The path of a PEM file with the trusted certificates; nil for the system's.
        public var certificateAuthorityFile: String?
        /// The name that the server's certificate must be valid for; nil for the host of the address.
        public var serverName: String?

        /// Creates a TLS configuration.
        public init(certificateAuthorityFile: String? = nil, serverName: String? = nil) {
            self.certificateAuthorityFile = certificateAuthorityFile
            self.serverName = serverName
        }
    }

    /// The server's address; of a cluster, the first one named.
    public var endpoint: RedisEndpoint
    /// The addresses of the other servers of a cluster that are named.
    public var otherEndpoints: [RedisEndpoint]
    /// True for a cluster of several servers, which is asked who holds which slot.
    public var isCluster: Bool
    /// The user who logs in; nil for "default".
    public var username: String?
    /// The password; nil for no log-in.
    public var password: String?
    /// The TLS configuration; nil for connections without TLS.
    public var tls: TLS?
    /// The connection's name in `CLIENT LIST`: 1 to 128 printable characters without spaces.
    public var clientName: String
    /// The longest time until a connection is ready.
    public var connectTimeout: Duration = .seconds(2)
    /// The longest time for a reply. Redis answers in microseconds; this limit detects a server that hangs.
    public var requestTimeout: Duration = .seconds(5)
    /// The time during which the client repeats a command that was certainly not executed or is idempotent.
    public var patience: Duration = .seconds(5)
    /// The time of silence after which an idle connection is checked with `PING`.
    public var keepAlive: Duration = .seconds(10)
    /// The maximum number of commands of one connection that await their replies; further ones are refused with `full`.
    public var pendingCommandsMax = RedisLimits.pendingCommandsMax
    /// The waits between attempts to connect.
    public var reconnect = ReconnectPolicy()

    /// Parses an address.
    ///
    /// - Throws: `configuration`, with the reason; the password is not repeated.
    public init(url: String, clientName: String = "apus") throws(RedisError) {
        let address = try RedisAddress(url)
        self.endpoint = address.endpoint
        self.otherEndpoints = address.otherEndpoints
        self.isCluster = address.isCluster
        self.username = address.username
        self.password = address.password
        self.tls = address.tls
        self.clientName = clientName
        try Self.checkName(clientName)
    }

    /// The address without the password.
    public var description: String {
        let scheme =
            switch (self.endpoint, self.tls) {
            case (.unixSocket, _): "unix"
            case (.host, .none): "redis"
            case (.host, .some): "rediss"
            }
        let servers = self.seeds.map { "\($0)" }.joined(separator: ",")
        return "\(scheme)\(self.isCluster ? "+cluster" : "")://\(self.username.map { "\($0)@" } ?? "")\(servers)"
    }

    /// All servers that the address names.
    var seeds: [RedisEndpoint] { [self.endpoint] + self.otherEndpoints }

    /// Throws for a name with spaces or line ends, which Redis refuses.
    private static func checkName(_ name: String) throws(RedisError) {
        guard (1...RedisLimits.clientNameBytesMax).contains(name.utf8.count),
            name.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
        else {
            let rule = "1 to \(RedisLimits.clientNameBytesMax) printable ASCII characters without spaces"
            throw RedisError(.configuration, "the connection's name must be \(rule)")
        }
    }
}
