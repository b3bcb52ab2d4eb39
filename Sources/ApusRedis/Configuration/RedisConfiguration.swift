internal import ApusCore
internal import NIOCore

/// How to reach Redis, and how patient to be.
///
/// The address says most of it:
/// - `redis://[user[:password]@]host[:port]`
/// - `rediss://…`, the same over TLS; `?ca=<file>` names the trusted certificates (else the system's),
///   `?server_name=<name>` what the certificate must be valid for (else the host)
/// - `unix://[user[:password]@]/path/of/socket`
///
/// User, password and path may be percent-encoded. There is no database number: a cluster has only one.
public struct RedisConfiguration: Sendable, CustomStringConvertible {
    /// How TLS is done.
    public struct TLS: Sendable, Hashable {
        /// A PEM file with the certificates to trust; nil: the system's.
        public var certificateAuthorityFile: String?
        /// What the server's certificate must be valid for; nil: the host of the address.
        public var serverName: String?

        /// TLS with those settings.
        public init(certificateAuthorityFile: String? = nil, serverName: String? = nil) {
            self.certificateAuthorityFile = certificateAuthorityFile
            self.serverName = serverName
        }
    }

    /// Where the server listens.
    public var endpoint: RedisEndpoint
    /// Who logs in; nil: "default".
    public var username: String?
    /// The password; nil: no log-in.
    public var password: String?
    /// Nil: no TLS.
    public var tls: TLS?
    /// What `CLIENT LIST` shows: 1 to 128 printable characters without spaces.
    public var clientName: String
    /// How long a connection may take until it is ready.
    public var connectTimeout: Duration = .seconds(2)
    /// How long an answer may take. Redis answers in microseconds; this is for a server that hangs.
    public var requestTimeout: Duration = .seconds(5)
    /// How long the client goes on by itself, when a command was certainly not executed or may be repeated.
    public var patience: Duration = .seconds(5)
    /// Silence after which an idle connection is asked whether it lives.
    public var keepAlive: Duration = .seconds(10)
    /// Commands of one connection that wait for their answers; more are refused with `full`.
    public var pendingCommandsMax = RedisLimits.pendingCommandsMax
    /// How long to wait between attempts to connect.
    public var reconnect = ReconnectPolicy()

    /// Reads an address.
    ///
    /// - Throws: `configuration`, with the reason; the password is not repeated.
    public init(url: String, clientName: String = "apus") throws(RedisError) {
        let address = try RedisAddress(url)
        self.endpoint = address.endpoint
        self.username = address.username
        self.password = address.password
        self.tls = address.tls
        self.clientName = clientName
        try Self.checkName(clientName)
    }

    /// Without the password.
    public var description: String {
        let scheme =
            switch (self.endpoint, self.tls) {
            case (.unixSocket, _): "unix"
            case (.host, .none): "redis"
            case (.host, .some): "rediss"
            }
        return "\(scheme)://\(self.username.map { "\($0)@" } ?? "")\(self.endpoint)"
    }

    /// Redis refuses spaces and line ends in a name.
    private static func checkName(_ name: String) throws(RedisError) {
        guard (1...RedisLimits.clientNameBytesMax).contains(name.utf8.count),
            name.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
        else {
            let rule = "1 to \(RedisLimits.clientNameBytesMax) printable ASCII characters without spaces"
            throw RedisError(.configuration, "the connection's name must be \(rule)")
        }
    }
}
