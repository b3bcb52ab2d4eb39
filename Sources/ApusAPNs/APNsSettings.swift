package import ApusCore
package import ApusService

/// Holds an app's settings at APNs, with a signing key or a client certificate.
package struct APNsSettings: ProviderSettings {
    /// The credential that authenticates us to Apple.
    package var credential: APNsCredentialSettings
    /// The credential of the sandbox, if it has one of its own; nil for the same one.
    var sandboxCredential: APNsCredentialSettings?
    /// The scope of the credential: bundle ids of a topic-specific key, whole topics of a certificate; nil for
    /// everything that Apple allows.
    package var topics: [String]?
    /// The bundle id.
    package var topic: String
    /// The environments of APNs that the app uses.
    package var environments: [ProviderEnvironment]
    /// The host to use instead of Apple's, such as a simulator's.
    package var host: String?
    /// The port to use instead of 443.
    package var port: Int
    /// The port to use instead of the sandbox's 443; nil for `port`.
    package var sandboxPort: Int?
    /// The host of broadcasts to channels, if it differs from that of other notifications: Apple's table of hosts names
    /// the same one, its examples name `api-broadcast.push.apple.com`.
    var broadcastHost: String?
    /// The host of broadcasts in the sandbox, which Apple's examples call `api-broadcast.sandbox.push.apple.com`.
    var sandboxBroadcastHost: String?
    /// The port of broadcasts; nil for that of other notifications.
    package var broadcastPort: Int?
    /// The address to use instead of Apple's channel management, such as a simulator's.
    package var channelsURL: String?
    /// The path of the CA certificates that the server's certificate is verified with; nil for the system's.
    package var caFile: String?
    /// The number of connections for each environment.
    package var connections: Int
    /// The maximum requests per second and environment of all dispatchers together; nil for no limit.
    package var ratePerSecond: Int?

    init(_ reader: SettingsReader, at key: String) {
        self.credential = APNsCredentialSettings(reader, at: key)
        self.topic = reader.requiredString("\(key).topic", Self.bundleID)
        self.environments = []
        for name in reader.strings("\(key).environments", default: ["production"]) {
            guard let environment = ProviderEnvironment(name: name) else {
                reader.issue("\(key).environments", "must be a list of production and sandbox")
                break
            }
            if !self.environments.contains(environment) { self.environments.append(environment) }
        }
        self.sandboxCredential = APNsCredentialSettings(reader, sandboxAt: key, beside: self.credential)
        self.topics = reader.strings("\(key).topics")
        self.host = reader.string("\(key).host", .host)
        self.port = reader.integer("\(key).port", default: 443, in: 1...65_535)
        let sandboxPort = reader.integer("\(key).sandbox_port", default: self.port, in: 1...65_535)
        self.sandboxPort = sandboxPort == self.port ? nil : sandboxPort
        self.broadcastHost = reader.string("\(key).broadcast_host", .host)
        self.sandboxBroadcastHost = reader.string("\(key).sandbox_broadcast_host", .host)
        let broadcastPort = reader.integer("\(key).broadcast_port", default: self.port, in: 1...65_535)
        self.broadcastPort = broadcastPort == self.port ? nil : broadcastPort
        self.channelsURL = reader.string("\(key).channels_url", .secureURL)
        self.caFile = reader.filePath("\(key).ca_file")
        self.connections = reader.integer("\(key).connections", default: 2, in: 1...100)
        self.ratePerSecond = reader.limit("\(key).rate_per_second", default: nil)
        self.checkScope(reader, key)
        self.checkBroadcasts(reader, key)
    }

    /// Reports an address of broadcasts that nothing would be sent to.
    private func checkBroadcasts(_ reader: SettingsReader, _ key: String) {
        let names: [(ProviderEnvironment, String, String?)] = [
            (.production, "broadcast_host", self.broadcastHost),
            (.sandbox, "sandbox_broadcast_host", self.sandboxBroadcastHost),
        ]
        for (environment, name, host) in names where host != nil && !self.environments.contains(environment) {
            reader.issue("\(key).\(name)", "is for \(environment.name), which environments does not name: leave it out")
        }
        guard self.broadcastPort != nil, names.allSatisfy({ $0.2 == nil }) else { return }
        reader.issue(
            "\(key).broadcast_port",
            "goes with broadcast_host or sandbox_broadcast_host: give one, or leave it out"
        )
    }

    /// Reports a route that its credential does not serve, before anything is sent.
    private func checkScope(_ reader: SettingsReader, _ key: String) {
        if let topics = self.topics {
            if topics.isEmpty || !topics.allSatisfy(Self.bundleID.accepts) {
                reader.issue("\(key).topics", "must be a list of bundle ids, such as com.example.shop")
            } else if !topics.contains(where: { $0 == self.topic || $0.hasPrefix(self.topic + ".") }) {
                reader.issue("\(key).topics", "must name \(self.topic), which the app sends to")
            }
        }
        guard let name = reader.string("\(key).key_environment") else { return }
        guard let only = ProviderEnvironment(name: name) else {
            return reader.issue("\(key).key_environment", "must be production or sandbox")
        }
        for environment in self.environments where environment != only {
            guard environment == .production || self.sandboxCredential == nil else { continue }
            let cure = environment == .sandbox ? "give sandbox_key_id and sandbox_key_file, or " : ""
            reader.issue(
                "\(key).environments",
                "must not name \(environment.name), as the key is for \(only.name) only: \(cure)leave it out"
            )
        }
    }

    /// Returns the credential of an environment.
    package func credential(for environment: ProviderEnvironment) -> APNsCredentialSettings {
        environment == .sandbox ? self.sandboxCredential ?? self.credential : self.credential
    }

    /// Returns the host of an environment.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
    package func host(for environment: ProviderEnvironment) -> String {
        if let host = self.host { return host }
        return switch environment {
        case .production: "api.push.apple.com"
        case .sandbox: "api.sandbox.push.apple.com"
        }
    }

    /// Returns the port of an environment.
    package func port(for environment: ProviderEnvironment) -> Int {
        environment == .sandbox ? self.sandboxPort ?? self.port : self.port
    }

    /// Returns the address of notifications in an environment.
    package func address(for environment: ProviderEnvironment) -> WebAddress {
        WebAddress(host: self.host(for: environment), port: self.port(for: environment))
    }

    /// Returns the address of broadcasts in an environment; nil for that of other notifications.
    package func broadcastAddress(for environment: ProviderEnvironment) -> WebAddress? {
        let given = environment == .sandbox ? self.sandboxBroadcastHost : self.broadcastHost
        guard let host = given else { return nil }
        let address = WebAddress(host: host, port: self.broadcastPort ?? self.port(for: environment))
        return address == self.address(for: environment) ? nil : address
    }

    private static let bundleID = SettingRule("must be a bundle id, such as com.example.shop") { text in
        (1...155).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                (0x61...0x7a).contains(byte) || (0x41...0x5a).contains(byte) || (0x30...0x39).contains(byte)
                    || byte == 0x2d || byte == 0x2e
            }
    }
}

extension AppSettings {
    /// The app's settings at APNs; nil when it has none.
    package var apns: APNsSettings? {
        get { self[.apns] as? APNsSettings }
        set { self[.apns] = newValue }
    }
}

extension APNsSettings {
    /// The meanings of the settings by their names, as the article Configuration has them.
    static let descriptions: [String: String] = [
        "team_id": "the team's id at Apple, 10 characters",
        "key_id": "the signing key's id, 10 characters",
        "key_file": "the signing key, a .p8 file",
        "key_environment": "production or sandbox, if the key is for one only",
        "sandbox_key_id": "another key for the sandbox",
        "sandbox_key_file": "its file",
        "certificate_file": "a client certificate instead of a key: PEM with the chain, or PKCS#12",
        "certificate_key_file": "its private key, if another file has it",
        "certificate_password_file": "the file with the password of a PKCS#12",
        "topic": "the app's bundle id",
        "topics":
            "what the credential serves, if not all of the team: bundle ids, or a certificate's topics",
        "environments": "a list of production and sandbox",
        "connections":
            "bulk connections of each event loop and environment, at most; one for express stands beside them",
        "rate_per_second": "requests of all dispatchers together, in each environment",
        "host": "stands in for Apple's host: a simulator",
        "port": "its port; Apple also listens on 2197",
        "sandbox_port": "the port of the sandbox, if another than port",
        "broadcast_host": "where broadcasts go, if not where other notifications do",
        "sandbox_broadcast_host": "the same in the sandbox",
        "broadcast_port": "the port there, if another than port",
        "channels_url": "stands in for Apple's channel management",
        "ca_file": "the authority of the server's certificate; else the system's",
    ]
}
