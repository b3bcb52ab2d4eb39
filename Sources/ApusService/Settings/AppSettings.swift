public import ApusCore

/// One app: its ways out and who may act for it. Values only; the services make keys and connections of them.
public struct AppSettings: Hashable, Sendable {
    /// Apple; nil when the app has no APNs.
    public var apns: APNsSettings?
    /// Google; nil when the app has no FCM.
    public var fcm: FCMSettings?
    /// Who may register and publish.
    public var auth: AuthSettings

    init(_ reader: SettingsReader, at key: String) {
        self.apns = reader.hasSection("\(key).apns") ? APNsSettings(reader, at: "\(key).apns") : nil
        self.fcm = reader.hasSection("\(key).fcm") ? FCMSettings(reader, at: "\(key).fcm") : nil
        self.auth = AuthSettings(reader, at: "\(key).auth")
    }
}

/// An app at APNs, with a signing key or a client certificate.
public struct APNsSettings: Hashable, Sendable {
    /// With what Apple is shown who sends.
    public var credential: APNsCredentialSettings
    /// What takes its place in the sandbox: a key that is for that alone; nil: the same.
    public var sandboxCredential: APNsCredentialSettings?
    /// What the credential serves: bundle ids of a topic-specific key, whole topics of a certificate; nil: all that Apple says.
    public var topics: [String]?
    /// The bundle id.
    public var topic: String
    /// Which of Apple's worlds the app uses.
    public var environments: [ProviderEnvironment]
    /// Stands in for Apple's host: a simulator.
    public var host: String?
    /// Stands in for port 443.
    public var port: Int
    /// Stands in for the sandbox's port 443; nil: as `port`.
    public var sandboxPort: Int?
    /// Where broadcasts to channels go, if not where other notifications do: Apple's table of hosts names the usual one for them, its examples
    /// name `api-broadcast.push.apple.com`.
    public var broadcastHost: String?
    /// The same in the sandbox, which Apple's examples call `api-broadcast.sandbox.push.apple.com`.
    public var sandboxBroadcastHost: String?
    /// The port there; nil: that of other notifications.
    public var broadcastPort: Int?
    /// Stands in for Apple's channel management: a simulator.
    public var channelsURL: String?
    /// The authority that the server's certificate must come from; nil: the system's.
    public var caFile: String?
    /// Connections for each environment.
    public var connections: Int
    /// Requests per second and environment of all dispatchers together; nil: as many as can be.
    public var ratePerSecond: Int?

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
        self.ratePerSecond = reader.rate("\(key).rate_per_second", default: nil)
        self.checkScope(reader, key)
        self.checkBroadcasts(reader, key)
    }

    /// An address that nothing would be sent to is a mistake.
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

    /// A route that its credential does not serve is a mistake that shows before anything is sent.
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

    /// What Apple is shown in one of the two worlds.
    public func credential(for environment: ProviderEnvironment) -> APNsCredentialSettings {
        environment == .sandbox ? self.sandboxCredential ?? self.credential : self.credential
    }

    /// The host of one of the two worlds.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
    public func host(for environment: ProviderEnvironment) -> String {
        if let host = self.host { return host }
        return switch environment {
        case .production: "api.push.apple.com"
        case .sandbox: "api.sandbox.push.apple.com"
        }
    }

    /// The port of one of the two worlds.
    public func port(for environment: ProviderEnvironment) -> Int {
        environment == .sandbox ? self.sandboxPort ?? self.port : self.port
    }

    /// Where notifications go in one of the two worlds.
    package func address(for environment: ProviderEnvironment) -> WebAddress {
        WebAddress(host: self.host(for: environment), port: self.port(for: environment))
    }

    /// Where broadcasts go in one of the two worlds; nil: where other notifications do.
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

/// An app at FCM, with a service account.
public struct FCMSettings: Hashable, Sendable {
    /// The Firebase project.
    public var projectID: String
    /// The service account's JSON key.
    public var serviceAccountFile: String
    /// Stands in for Google's address: a simulator.
    public var baseURL: String
    /// Stands in for the address of the account's token server; nil: as in the account's file.
    public var tokenURL: String?
    /// The authority that the server's certificate must come from; nil: the system's.
    public var caFile: String?
    /// Connections.
    public var connections: Int
    /// What Google lets a project send in a minute, unless it has granted more: it counts by project, whichever app sends.
    /// Source: https://firebase.google.com/docs/cloud-messaging/throttling-and-quotas
    public static let projectRatePerMinute = 600_000

    /// Requests per minute of all dispatchers together; nil: as many as can be. Where the configuration says nothing it is all that the
    /// project has, of which apps of one project get equal parts.
    public var ratePerMinute: Int?
    /// Whether the configuration says it.
    public var hasOwnRate: Bool
    /// How long it takes to reach that rate after a long quiet. Google: at least 60 s
    /// (https://firebase.google.com/docs/cloud-messaging/scale-fcm).
    public var rampMilliseconds: Int64

    init(_ reader: SettingsReader, at key: String) {
        self.projectID = reader.requiredString("\(key).project_id", Self.project)
        self.serviceAccountFile = reader.requiredFilePath("\(key).service_account_file")
        self.baseURL = reader.string("\(key).base_url", default: "https://fcm.googleapis.com", .secureURL)
        self.tokenURL = reader.string("\(key).token_url", .secureURL)
        self.caFile = reader.filePath("\(key).ca_file")
        self.connections = reader.integer("\(key).connections", default: 2, in: 1...100)
        self.ratePerMinute = reader.rate(
            "\(key).rate_per_minute",
            default: Self.projectRatePerMinute,
            note: """
                of the app; apps of one project that say none share evenly what the others leave of the \
                \(Self.projectRatePerMinute) that Google lets a project
                """,
        )
        self.hasOwnRate = reader.isGiven("\(key).rate_per_minute")
        let ramp = reader.duration("\(key).ramp", default: .seconds(60), in: .zero ... .seconds(3_600))
        self.rampMilliseconds = Int64(ramp / .milliseconds(1))
    }

    /// Source: https://cloud.google.com/resource-manager/docs/creating-managing-projects
    private static let project = SettingRule("must be 6 to 30 of the characters a-z, 0-9 and -") { text in
        (6...30).contains(text.utf8.count)
            && text.utf8.allSatisfy { (0x61...0x7a).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2d }
    }
}

extension SettingRule {
    /// A host without scheme and port.
    public static let host = SettingRule("must be a host name or an IP address") { text in
        !text.isEmpty && text.utf8.count <= 253
            && text.utf8.allSatisfy { (0x21...0x7e).contains($0) && $0 != 0x2f && $0 != 0x40 }
    }

    /// An https address without user and password.
    public static let secureURL = SettingRule("must be an address that begins with https://") { text in
        text.hasPrefix("https://") && text.utf8.count > 8 && text.utf8.count <= 2_048
            && text.utf8.allSatisfy { (0x21...0x7e).contains($0) && $0 != 0x40 }
    }
}
