internal import ApusCore
package import ApusRedis
package import ApusSimulator
package import ApusTestKit

/// The configuration of a cluster.
package struct LocalClusterConfiguration: Sendable {
    /// The default sizes, two shards and four partitions: more than one of each, and few enough for a quick start.
    static let smallKeyspace = Keyspace(queueShards: 2, devicePartitions: 4)

    /// The sizes of the installation.
    package var keyspace = Self.smallKeyspace
    /// The options of the Redis servers.
    package var redis = RedisServer.Options()
    /// The number of masters among which Redis divides the slots.
    package var masters = 1
    /// The number of replicas of each of several masters.
    package var replicas = 1
    /// The number of Redis servers that can join later.
    package var spares = 0
    /// The silence after which the other nodes call one of several masters failed, in milliseconds.
    package var nodeTimeoutMilliseconds = 1_000
    /// True for one master with a replica, which three Sentinels watch.
    package var hasSentinels = false
    /// True when each service logs in to Redis as its own user, with the rights that `apus acl` gives it.
    package var hasRedisUsers = false
    /// The password of those users.
    package var redisPassword = "local"
    /// The simulator's configuration. The ports are chosen here, so that they can be closed and opened again.
    package var simulator = SimulatorConfiguration()
    /// The number of event loops of a service; 0 for one per core.
    package var eventLoops = 1
    /// The least log level of services.
    package var logLevel = "info"
    /// True when admin endpoints use their default ports; false for free ones.
    package var usesDefaultPorts = false
    /// The address for the services' spans; nil for none.
    package var traceEndpoint: String?
    /// The path of the CA certificates for that address; nil for the system's.
    package var traceCAFile: String?
    /// The SHA-256 of an API key that may register, in hexadecimal.
    package var keyDigest: String?
    /// The file with the secret of the apps' identity provider (HS256, audience `cluster`); nil when users have no tokens.
    package var identitySecretFile: String?
    /// The rate limits of the dispatchers.
    package var rates = ProviderRates()
    /// True when the apps send to browsers.
    package var hasWebPush = false
    /// The apps of each publisher that has mailboxes of its own, by its name.
    package var publishers: [String: [String]] = [:]
    /// The file with the keys that records are encrypted with; nil when they are stored as they are.
    package var encryptionKeyFile: String?
    /// The file of the configuration that all services read, which the first of them that starts writes if it is missing; nil for a file
    /// of its own for each.
    package var sharedFile: String?
    /// The folder of the services' programs; nil for that of the running program.
    package var programs: ServicePrograms?

    /// Creates the default configuration.
    package init() {}
}

/// The rate limits of all dispatchers together for each provider, from the first request on; nil for unlimited.
package struct ProviderRates: Hashable, Sendable {
    /// The rate limit for Apple.
    package var applePerSecond: Int?
    /// The rate limit for Google.
    package var googlePerMinute: Int?

    /// Creates unlimited rates.
    package init() {}
}

/// The settings of one section of the configuration that differ from the default, by their names. A text in braces is a YAML mapping, one in
/// brackets a list.
package typealias ServiceSettingsText = [String: String]

/// The configuration of a cluster's services: one text for all of them.
package struct ServiceConfiguration: Hashable, Sendable {
    /// A server that replaces Apple's, other than the simulator.
    package struct AppleReplacement: Hashable, Sendable {
        /// The port on loopback.
        package var port: Int
        /// The path of the CA certificate for it.
        package var caFile: String

        /// Creates a server.
        package init(port: Int, caFile: String) {
            self.port = port
            self.caFile = caFile
        }
    }

    /// The address of Redis.
    package var redisURL: String
    /// The number of event loops.
    package var eventLoops = 1
    /// The least log level.
    package var logLevel = "info"
    /// The files of the simulator's ports, certificates and apps.
    package var credentials: SimulatorCredentials
    /// The addresses of the simulator.
    package var addresses: SimulatorAddresses
    /// The SHA-256 of an API key that may register.
    package var keyDigest: String?
    /// The file with the secret of the apps' identity provider; nil when users have no tokens.
    package var identitySecretFile: String?
    /// The address for the services' spans; nil for none.
    package var traceEndpoint: String?
    /// The path of the CA certificates for that address; nil for the system's.
    package var traceCAFile: String?
    /// The server in Apple's place.
    package var apple: AppleReplacement?
    /// A client certificate for Apple with its key, in PEM; nil when the apps sign with their keys.
    package var appleCertificate: String?
    /// The port of Apple's sandbox; nil when the apps are in production only.
    package var sandboxPort: Int?
    /// The port of Apple's broadcasts; nil when they use that of other notifications.
    package var broadcastPort: Int?
    /// The rate limits of the dispatchers.
    package var rates = ProviderRates()
    /// True when the apps send to browsers.
    package var hasWebPush = false
    /// The places of an app's VAPID keys that the configuration names, the current one first.
    package var vapidKeys = [0]
    /// The settings of `webpush` that differ from those for the simulator; an empty text stands for the default.
    package var webPushSettings: ServiceSettingsText = [:]
    /// The apps of each publisher that has mailboxes of its own, by its name.
    package var publishers: [String: [String]] = [:]
    /// The file with the keys that records are encrypted with; nil when they are stored as they are.
    package var encryptionKeyFile: String?
    /// Apps that have no Google in the configuration, though they have an account.
    package var appsWithoutGoogle: Set<String> = []

    /// Creates a configuration.
    package init(redisURL: String, credentials: SimulatorCredentials, addresses: SimulatorAddresses) {
        self.redisURL = redisURL
        self.credentials = credentials
        self.addresses = addresses
    }

    /// Returns the configuration file of a service, without its admin endpoint.
    package func yaml(_ service: String, _ settings: ServiceSettingsText) -> String {
        var lines = [
            "redis: {url: \(Self.quoted(self.redisURL))}",
            "event_loops: \(self.eventLoops)",
            "log: {level: \(self.logLevel), format: json}",
            "drain_timeout: 10s",
        ]
        if let encryptionKeyFile {
            lines.append("store: {encryption_key_file: \(Self.quoted(encryptionKeyFile))}")
        }
        if let traceEndpoint {
            let authority = self.traceCAFile.map { ", ca_file: \(Self.quoted($0))" } ?? ""
            lines.append("tracing: {endpoint: \(Self.quoted(traceEndpoint))\(authority)}")
        }
        if !settings.isEmpty {
            lines.append("\(service):")
            for (name, value) in settings.sorted(by: { $0.key < $1.key }) {
                lines.append("  \(name): \(Self.value(value))")
            }
        }
        lines.append("apps:")
        for files in self.credentials.apps { lines += self.app(files) }
        if !self.publishers.isEmpty {
            lines.append("publishers:")
            for (name, apps) in self.publishers.sorted(by: { $0.key < $1.key }) {
                lines.append("  \(name): {apps: [\(apps.joined(separator: ", "))]}")
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// Returns the section of an app; nil without credentials for it.
    package func section(of app: String) -> String? {
        self.credentials.apps.first { $0.app.name == app }.map { self.app($0).joined(separator: "\n") + "\n" }
    }

    private func app(_ files: SimulatorCredentials.App) -> [String] {
        var lines = ["  \(files.app.name):"]
        if let keyFile = files.keyFile {
            lines.append("    apns:")
            if let appleCertificate {
                lines.append("      certificate_file: \(Self.quoted(appleCertificate))")
            } else {
                lines += [
                    "      team_id: \(Self.quoted(files.app.teamID))",
                    "      key_id: \(Self.quoted(files.app.keyID))",
                    "      key_file: \(Self.quoted(keyFile))",
                ]
            }
            lines += [
                "      topic: \(Self.quoted(files.app.bundleID ?? ""))",
                "      environments: [\(self.sandboxPort == nil ? "production" : "production, sandbox")]",
                "      rate_per_second: \(Self.rate(self.rates.applePerSecond))",
                "      host: 127.0.0.1",
                "      port: \(self.apple?.port ?? self.addresses.apnsPort ?? 0)",
                "      channels_url: https://127.0.0.1:\(self.addresses.apnsPort ?? 0)",
                "      ca_file: \(Self.quoted(self.apple?.caFile ?? self.credentials.authorityFile))",
            ]
            if let sandboxPort { lines.append("      sandbox_port: \(sandboxPort)") }
            if let broadcastPort {
                lines += ["      broadcast_host: 127.0.0.1", "      broadcast_port: \(broadcastPort)"]
            }
        }
        if let accountFile = files.serviceAccountFile, !self.appsWithoutGoogle.contains(files.app.name) {
            let base = "\(self.addresses.scheme)://127.0.0.1:\(self.addresses.fcmPort ?? 0)"
            lines += [
                "    fcm:",
                "      project_id: \(Self.quoted(files.app.projectID ?? ""))",
                "      service_account_file: \(Self.quoted(accountFile))",
                "      base_url: \(Self.quoted(base))",
                "      rate_per_minute: \(Self.rate(self.rates.googlePerMinute))",
                "      ramp: 0s",
                "      ca_file: \(Self.quoted(self.credentials.authorityFile))",
            ]
        }
        let vapidKeyFiles = files.vapidKeyFiles
        let keyFiles = self.vapidKeys.filter(vapidKeyFiles.indices.contains).map { Self.quoted(vapidKeyFiles[$0]) }
        if self.hasWebPush, let keyFile = keyFiles.first, let port = self.addresses.webPushPort {
            lines += [
                "    webpush:",
                "      key_file: \(keyFile)",
                "      older_key_files: [\(keyFiles.dropFirst().joined(separator: ", "))]",
            ]
            let settings = [
                "subject": "mailto:push@apus.example",
                "connect_url": "\(self.addresses.scheme)://127.0.0.1:\(port)",
                "ca_file": self.credentials.authorityFile,
            ].merging(self.webPushSettings) { _, given in given }
            for (name, value) in settings.sorted(by: { $0.key < $1.key }) where !value.isEmpty {
                lines.append("      \(name): \(Self.value(value))")
            }
        }
        if self.keyDigest != nil || self.identitySecretFile != nil { lines.append("    auth:") }
        if let identitySecretFile {
            let file = Self.quoted(identitySecretFile)
            lines.append("      jwt: {algorithm: hs256, secret_file: \(file), audience: cluster}")
        }
        if let keyDigest {
            lines += [
                "      api_keys:",
                "        cluster: {sha256: \(Self.quoted(keyDigest)), role: register}",
            ]
        }
        return lines
    }

    private static func rate(_ rate: Int?) -> String { rate.map { String($0) } ?? "unlimited" }

    /// Returns the value of a setting: a mapping or list as it is, all else as text.
    private static func value(_ text: String) -> String {
        text.hasPrefix("{") || text.hasPrefix("[") ? text : Self.quoted(text)
    }

    private static func quoted(_ text: String) -> String { JSONValue.string(text).text }
}
