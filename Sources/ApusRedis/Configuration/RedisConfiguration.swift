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
/// - `redis+sentinel://[user[:password]@]host[:port][,host[:port]…]/<master name>` and `rediss+sentinel://…`: the
///   Sentinels of a master and its replicas, all of them, as a majority of those that are named must agree on who the
///   master is. User and password are for the servers; `?sentinel_password=` and `sentinel_user=` are for the Sentinels
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

    /// Names a master by its Sentinels.
    public struct Sentinel: Sendable, Hashable {
        /// The master's name in the Sentinels' configuration.
        public var masterName: String
        /// The user who logs in to a Sentinel; nil for "default".
        public var username: String?
        /// The password for a Sentinel; nil for no log-in.
        public var password: String?

        /// Creates a name.
        public init(masterName: String, username: String? = nil, password: String? = nil) {
            self.masterName = masterName
            self.username = username
            self.password = password
        }
    }

    /// The ways in which servers work together.
    public enum Deployment: Sendable, Hashable {
        /// One server.
        case server
        /// A Redis Cluster of several servers, which is asked who holds which slot.
        case cluster
        /// A master with replicas: Sentinels are asked who the master is.
        case sentinel(Sentinel)

        /// True where Sentinels are asked.
        public var isSentinel: Bool {
            if case .sentinel = self { true } else { false }
        }
    }

    /// The server's address; of a cluster, the first one named; of Sentinels, the first.
    public var endpoint: RedisEndpoint
    /// The addresses of the other servers of a cluster, or Sentinels, that are named.
    public var otherEndpoints: [RedisEndpoint]
    /// The way in which the servers work together.
    public var deployment: Deployment
    /// The user who logs in; nil for "default".
    public var username: String?
    /// The password; nil for no log-in.
    public var password: String?
    /// The TLS configuration; nil for connections without TLS.
    public var tls: TLS?
    /// The connection's name in `CLIENT LIST`: 1 to 128 printable characters without spaces.
    public var clientName: String
    /// True when commands that name no patience of their own do not wait for a server of a cluster that nobody has reached for five seconds,
    /// while another one answers. It is for services, which begin again by themselves and have work for the other servers.
    public var skipsLostServers = false
    /// The longest time until a connection is ready.
    public var connectTimeout: Duration = .seconds(2)
    /// The longest time for a reply. Redis answers in microseconds; this limit detects a server that hangs. Where another one may take its
    /// place it is half of the default ``patience``, so that as much is left to repeat the command there.
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
        self.deployment = address.deployment
        if address.deployment != .server { self.requestTimeout = self.patience / 2 }
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
        let (kind, path) =
            switch self.deployment {
            case .server: ("", "")
            case .cluster: ("+cluster", "")
            case .sentinel(let sentinel): ("+sentinel", "/\(sentinel.masterName)")
            }
        return "\(scheme)\(kind)://\(self.username.map { "\($0)@" } ?? "")\(self.places)\(path)"
    }

    /// All servers that the address names, as text.
    public var places: String { self.seeds.map { "\($0)" }.joined(separator: ",") }

    /// All servers that the address names.
    package var seeds: [RedisEndpoint] { [self.endpoint] + self.otherEndpoints }

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
