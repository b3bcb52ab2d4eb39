public import ApusCore
internal import ApusRedis
internal import FoundationEssentials
public import Logging

/// Holds the settings that every service reads.
public struct CommonSettings: Hashable, Sendable {
    /// The connection to Redis.
    public var redis: RedisSettings
    /// The form of stored devices.
    public var store: StoreSettings
    /// The server of `/metrics`, `/healthz` and `/readyz`.
    public var admin: AdminSettings
    /// The log.
    public var log: LogSettings
    /// The destination of traces.
    public var tracing: TracingSettings
    /// The longest time that the drain after SIGTERM may take.
    public var drainTimeout: Duration
    /// The number of event loops; 0 for one per core.
    public var eventLoops: Int
    /// The apps by name.
    public var apps: [AppID: AppSettings]
    /// The publishers that have mailboxes of their own, by name.
    public var publishers: [PublisherName: PublisherSettings]

    init(_ reader: SettingsReader, defaultPort: Int) {
        self.redis = RedisSettings(reader)
        self.store = StoreSettings(reader)
        self.admin = AdminSettings(reader, defaultPort: defaultPort)
        self.log = LogSettings(reader)
        self.tracing = TracingSettings(reader)
        self.drainTimeout = reader.duration(
            "drain_timeout",
            default: .seconds(25),
            in: .milliseconds(100) ... .seconds(600),
        )
        self.eventLoops = reader.integer("event_loops", default: 0, in: 0...256)
        self.apps = [:]
        var matrixApps: [String: String] = [:]
        for name in reader.names(in: "apps") {
            do {
                let app = try AppID(name)
                let settings = AppSettings(reader, at: "apps.\(name)")
                self.apps[app] = settings
                for id in settings.matrixAppIDs {
                    if let other = matrixApps[id] {
                        reader.issue("apps.\(name).matrix.app_ids", "must not have an id of the app \(other)")
                    }
                    matrixApps[id] = name
                }
            } catch {
                reader.issue("apps.\(name)", "is \(error)")
            }
        }
        self.publishers = [:]
        for name in reader.names(in: "publishers") {
            do {
                let publisher = try PublisherName(name)
                let settings = PublisherSettings(reader, at: "publishers.\(name)", among: self.apps.keys)
                self.publishers[publisher] = settings
            } catch {
                reader.issue("publishers.\(name)", "is \(error)")
            }
        }
        if self.publishers.count > PublisherSettings.countMax {
            reader.issue("publishers", "must not have more than \(PublisherSettings.countMax) publishers")
        }
    }
}

/// Describes the connection to Redis. Secrets are named by file.
public struct RedisSettings: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    /// The address, `redis://`, `rediss://`, `unix://`, `redis+cluster://`, `rediss+cluster://`, `redis+sentinel://` or
    /// `rediss+sentinel://`. It may hold user and password.
    public var url: String
    /// The ACL user.
    public var user: String?
    /// The path of the file that holds the user's password.
    public var passwordFile: String?
    /// The ACL user of the Sentinels.
    public var sentinelUser: String?
    /// The path of the file that holds the password for the Sentinels.
    public var sentinelPasswordFile: String?
    /// The path of the CA certificates that the server's certificate is verified with; nil for the system's.
    public var caFile: String?
    /// The passwords as the files contained them when the settings were read; nil without a file that can be read. They go with the settings,
    /// so that former ones are still good when a file has changed.
    let password: HiddenText?
    let sentinelPassword: HiddenText?
    /// A digest of what the file of authorities contains.
    private let fileDigest: [UInt8]

    /// Shows nothing of its members.
    public var customMirror: Mirror { Mirror(self, children: []) }

    /// The address without the password.
    public var description: String {
        (try? RedisConfiguration(url: self.url)).map { "\($0)" } ?? "an address that cannot be read"
    }

    init(_ reader: SettingsReader) {
        self.url = reader.string("redis.url", default: "redis://127.0.0.1:6379", Self.urlRule)
        // Nothing is said about the default in the place of an address that was refused.
        let isAddress = !reader.isRefused("redis.url")
        self.user = reader.string("redis.user")
        self.passwordFile = reader.filePath("redis.password_file")
        self.caFile = reader.filePath("redis.ca_file")
        if self.user != nil, !reader.isGiven("redis.password_file") {
            reader.issue("redis.user", "needs redis.password_file beside it")
        }
        do throws(RedisError) {
            let address = try RedisConfiguration(url: self.url)
            if address.password != nil, self.user != nil || self.passwordFile != nil {
                reader.issue(
                    "redis.url",
                    "must be without a password, because redis.user or redis.password_file stands beside it"
                )
            }
            if self.caFile != nil, isAddress, address.tls == nil {
                reader.issue(
                    "redis.ca_file",
                    "needs a redis.url beside it that begins with rediss://, rediss+cluster:// or rediss+sentinel://"
                )
            }
        } catch {
            reader.issue("redis.url", "is \(error.message)")
        }
        self.sentinelUser = reader.string("redis.sentinel_user")
        self.sentinelPasswordFile = reader.filePath("redis.sentinel_password_file")
        self.password = HiddenText(trimming: self.passwordFile)
        self.sentinelPassword = HiddenText(trimming: self.sentinelPasswordFile)
        self.fileDigest = reader.digest(of: self.caFile)
        if self.sentinelUser != nil, !reader.isGiven("redis.sentinel_password_file") {
            reader.issue("redis.sentinel_user", "needs redis.sentinel_password_file beside it")
        }
        if self.sentinelPasswordFile != nil, isAddress, !self.url.contains("+sentinel://") {
            reader.issue(
                "redis.sentinel_password_file",
                "needs a redis.url beside it that begins with redis+sentinel:// or rediss+sentinel://",
            )
        }
    }

    private static let urlRule = SettingRule(
        "must be redis://host:port, rediss://host:port, unix:///path; for a cluster, redis+cluster://host:port,host:port"
            + " or rediss+cluster://…; for Sentinels, redis+sentinel://host:port,host:port/NAME or rediss+sentinel://…"
    ) { text in
        let schemes = [
            "redis://", "rediss://", "unix://", "redis+cluster://", "rediss+cluster://", "redis+sentinel://",
            "rediss+sentinel://",
        ]
        guard let scheme = schemes.first(where: { text.hasPrefix($0) }) else { return false }
        let rest = text.dropFirst(scheme.count)
        return !rest.isEmpty && !rest.contains(" ")
    }
}

/// A text that no description shows.
package struct HiddenText: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    /// The text.
    package let text: String
    /// Tells nothing of it.
    package var description: String { "hidden" }
    /// Shows nothing of it.
    package var customMirror: Mirror { Mirror(self, children: []) }

    /// Reads a file without the white space around its text; nil when there is none, or it is not UTF-8.
    package init?(trimming file: String?) {
        guard let file, var text = try? String(contentsOfFile: file, encoding: .utf8) else { return nil }
        while text.last?.isWhitespace == true { text.removeLast() }
        self.text = String(text.drop { $0.isWhitespace })
    }
}

/// Describes the admin endpoints.
public struct AdminSettings: Hashable, Sendable {
    /// The address that they listen on.
    public var listen: ListenAddress
    /// The path of a file that receives the chosen port, for programs that start a service with port 0.
    public var portFile: String?
    /// The TLS files; nil for plain HTTP.
    public var tls: ServerTLSSettings?

    /// The key of the TLS files.
    static let tlsKey = "admin.tls"

    init(_ reader: SettingsReader, defaultPort: Int) {
        self.listen = reader.address("admin.listen", default: ListenAddress(host: "127.0.0.1", port: defaultPort))
        self.portFile = reader.string("admin.port_file")
        // Commands read the section and need no key of a server.
        self.tls = reader.withFiles(of: .registration, .dispatcher, .feedback) {
            ServerTLSSettings(reader, at: Self.tlsKey, takesClients: true)
        }
    }
}

/// Describes the destination of recorded traces' spans; tracing is off without an endpoint.
public struct TracingSettings: Hashable, Sendable {
    /// The collector's address for OTLP over HTTP.
    public var endpoint: String?
    /// The path of the CA certificates that the collector's certificate is verified with; nil for the system's.
    public var caFile: String?
    /// A digest of what the file contains.
    private let fileDigest: [UInt8]

    init(_ reader: SettingsReader) {
        self.endpoint = reader.string("tracing.endpoint", Self.endpointRule)
        self.caFile = reader.filePath("tracing.ca_file")
        self.fileDigest = reader.digest(of: self.caFile)
        if self.caFile != nil, self.endpoint?.hasPrefix("https://") != true {
            reader.issue("tracing.ca_file", "needs a tracing.endpoint beside it that begins with https://")
        }
    }

    private static let endpointRule = SettingRule(
        "must be the address of an OTLP collector, such as http://127.0.0.1:4318 or https://collector:4318/v1/traces"
    ) { TraceCollector($0) != nil }
}

/// Describes the log.
public struct LogSettings: Hashable, Sendable {
    /// The formats of log lines.
    public enum Format: String, CaseIterable, Hashable, Sendable {
        /// Text on a terminal, JSON otherwise.
        case auto
        /// One JSON object a line.
        case json
        /// Text for people.
        case text
    }

    /// The least level that is written.
    public var level: Logger.Level
    /// The format of log lines.
    public var format: Format

    init(_ reader: SettingsReader) {
        self.level = reader.choice("log.level", default: .info)
        self.format = reader.choice("log.format", default: .auto)
    }
}
