internal import ApusCore
package import ApusRedis
package import ApusSimulator
package import ApusTestKit

/// The configuration of a cluster.
package struct LocalClusterConfiguration: Sendable {
    /// Two shards and four partitions: enough to be more than one, few enough to start in no time.
    package static let smallKeyspace = Keyspace(queueShards: 2, devicePartitions: 4)

    /// The installation's sizes.
    package var keyspace = Self.smallKeyspace
    /// The server.
    package var redis = RedisServer.Options()
    /// The providers. Their ports are chosen here, so that they can close and open again.
    package var simulator = SimulatorConfiguration()
    /// Threads that drive a service's sockets; 0: one for each core.
    package var eventLoops = 1
    /// The least level that services log.
    package var logLevel = "info"
    /// Whether admin endpoints have their default ports; else any that are free.
    package var usesDefaultPorts = false
    /// Where the services bring their spans; nil: nowhere.
    package var traceEndpoint: String?
    /// Whose certificates the endpoint may show; nil: any that the system trusts.
    package var traceCAFile: String?
    /// SHA-256 of an API key that may register, in hexadecimal.
    package var keyDigest: String?
    /// The file with the secret of the apps' identity provider (HS256, audience `cluster`); nil: users have no tokens.
    package var identitySecretFile: String?
    /// The rates that the dispatchers keep.
    package var rates = ProviderRates()
    /// Where the services' programs are; nil: beside the one that runs.
    package var programs: ServicePrograms?

    /// The default configuration.
    package init() {}
}

/// The rates of all dispatchers together to each provider, from the first request on; nil: unlimited.
package struct ProviderRates: Hashable, Sendable {
    /// To Apple.
    package var applePerSecond: Int?
    /// To Google.
    package var googlePerMinute: Int?

    /// Unlimited.
    package init() {}
}

/// The settings of one service that differ from the default, by their names below the service's. A text in braces is a YAML mapping.
package typealias ServiceSettingsText = [String: String]

/// The configuration of a cluster's services: one text for all of them.
package struct ServiceConfiguration: Hashable, Sendable {
    /// A server that stands in for Apple's, other than the simulator.
    package struct AppleStandIn: Hashable, Sendable {
        /// Its port, on loopback.
        package var port: Int
        /// The certificate to trust.
        package var caFile: String

        /// A server.
        package init(port: Int, caFile: String) {
            self.port = port
            self.caFile = caFile
        }
    }

    /// Redis.
    package var redisURL: String
    /// Threads that drive sockets.
    package var eventLoops = 1
    /// The least level that is logged.
    package var logLevel = "info"
    /// The providers' ports, certificate and apps.
    package var credentials: SimulatorCredentials
    /// Where the simulator listens.
    package var addresses: SimulatorAddresses
    /// SHA-256 of an API key that may register.
    package var keyDigest: String?
    /// The file with the secret of the apps' identity provider; nil: users have no tokens.
    package var identitySecretFile: String?
    /// Where the services bring their spans; nil: nowhere.
    package var traceEndpoint: String?
    /// Whose certificates the endpoint may show; nil: any that the system trusts.
    package var traceCAFile: String?
    /// In Apple's place.
    package var apple: AppleStandIn?
    /// A client certificate for Apple with its key, in PEM; nil: the apps sign with their keys.
    package var appleCertificate: String?
    /// The port of Apple's sandbox; nil: the apps are in production only.
    package var sandboxPort: Int?
    /// The port where Apple takes broadcasts; nil: they go where other notifications do.
    package var broadcastPort: Int?
    /// The rates that the dispatchers keep.
    package var rates = ProviderRates()
    /// Apps that have no Google in the configuration, though they have an account.
    package var appsWithoutGoogle: Set<String> = []

    /// A configuration.
    package init(redisURL: String, credentials: SimulatorCredentials, addresses: SimulatorAddresses) {
        self.redisURL = redisURL
        self.credentials = credentials
        self.addresses = addresses
    }

    /// The file of a service, without its admin endpoint.
    package func yaml(_ service: String, _ settings: ServiceSettingsText) -> String {
        var lines = [
            "redis: {url: \(Self.quoted(self.redisURL))}",
            "event_loops: \(self.eventLoops)",
            "log: {level: \(self.logLevel), format: json}",
            "drain_timeout: 10s",
        ]
        if let traceEndpoint {
            let authority = self.traceCAFile.map { ", ca_file: \(Self.quoted($0))" } ?? ""
            lines.append("tracing: {endpoint: \(Self.quoted(traceEndpoint))\(authority)}")
        }
        if !settings.isEmpty {
            lines.append("\(service):")
            for (name, value) in settings.sorted(by: { $0.key < $1.key }) {
                lines.append("  \(name): \(value.hasPrefix("{") ? value : Self.quoted(value))")
            }
        }
        lines.append("apps:")
        for files in self.credentials.apps { lines += self.app(files) }
        return lines.joined(separator: "\n") + "\n"
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

    private static func quoted(_ text: String) -> String { JSONValue.string(text).text }
}
