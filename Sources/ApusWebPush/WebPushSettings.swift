internal import ApusCore
package import ApusService
internal import ApusTLS

/// Holds an app's settings for Web Push, with its VAPID key.
package struct WebPushSettings: ProviderSettings {
    /// The path of the VAPID key that browsers subscribe with now: PEM, or its private number in base64url.
    package var keyFile: String
    /// The paths of the keys that browsers have subscribed with before.
    package var olderKeyFiles: [String]
    /// The public point of the current key, for registration, which does not read the key itself.
    package var publicKey: [UInt8]?
    /// The address of the operator, which every token names.
    package var subject: String
    /// Hosts of push services beside the known ones; one that begins with a dot stands for all below it, `any-public` for every public host.
    package var hosts: [String]
    /// The address to connect to instead of the push services', such as a simulator's.
    package var connectURL: String?
    /// The path of the CA certificates that servers' certificates are verified with; nil for the system's.
    package var caFile: String?
    /// True when alerts are written so that browsers show them without the app's service worker.
    package var isDeclarative: Bool
    /// The maximum number of connections to each push service.
    package var connections: Int
    /// The maximum requests per second of all dispatchers together; nil for no limit.
    package var ratePerSecond: Int?

    init(_ reader: SettingsReader, at key: String) {
        self.keyFile = reader.requiredFilePath("\(key).key_file")
        self.olderKeyFiles = reader.filePaths("\(key).older_key_files")
        if self.olderKeyFiles.count > Self.olderKeysMax {
            reader.issue("\(key).older_key_files", "must have at most \(Self.olderKeysMax) files")
        }
        self.publicKey = reader.string("\(key).public_key", Self.publicPoint).flatMap { Base64URL.decode($0) }
        self.subject = reader.requiredString("\(key).subject", Self.subject)
        self.hosts = reader.strings("\(key).hosts", default: [])
        if !self.hosts.allSatisfy(EndpointHosts.isName) {
            reader.issue("\(key).hosts", "must be a list of host names in lower case, without ports")
        }
        self.connectURL = reader.string("\(key).connect_url", .secureURL)
        self.caFile = reader.filePath("\(key).ca_file")
        self.isDeclarative = reader.boolean("\(key).declarative", default: false)
        self.connections = reader.integer("\(key).connections", default: 2, in: 1...100)
        self.ratePerSecond = reader.limit("\(key).rate_per_second", default: nil)
    }

    /// The maximum number of requests at a time on one connection to a push service.
    static let streamsMax = 100

    /// The maximum number of keys beside the current one.
    static let olderKeysMax = 8

    private static let publicPoint = SettingRule("must be the 65 bytes of a public key on P-256, in base64url") {
        text in
        Base64URL.decode(text).map { (try? PublicKey(uncompressedPoint: $0)) != nil } ?? false
    }
    private static let subject = SettingRule(VAPIDKey.subjectRule) { VAPIDKey.isSubject($0) }
}

extension WebPushSettings {
    package var subscriptions: SubscriptionSettings? {
        SubscriptionSettings(hosts: self.hosts, publicKey: self.publicKey)
    }
}

extension AppSettings {
    /// The app's settings for Web Push; nil when it has none.
    package var webpush: WebPushSettings? {
        get { self[.webpush] as? WebPushSettings }
        set { self[.webpush] = newValue }
    }
}

extension WebPushSettings {
    /// The meanings of the settings by their names, as the article Configuration has them.
    static let descriptions: [String: String] = [
        "key_file":
            "the VAPID key that browsers subscribe with: PEM, or its private number in base64url",
        "older_key_files":
            "keys that browsers have subscribed with before, at most 8: each browser is sent to with its own",
        "public_key":
            "the public half of key_file in base64url, which registration gives to browsers, and stores with "
            + "those that are registered without their key: it does not read the key itself",
        "subject": "the operator's mailto: or https: address, which every token names",
        "hosts":
            "hosts of push services beside the known ones, for registration and sending; a leading dot stands for "
            + "all below it, any-public for every host of the public internet",
        "declarative": "whether alerts are written so that Safari shows them without the service worker",
        "connections":
            "bulk connections of each event loop to each push service, at most; one for express stands beside "
            + "them",
        "rate_per_second": "requests of all dispatchers together",
        "connect_url": "where all requests go instead of to the endpoints' hosts: a simulator",
        "ca_file": "the authority of the servers' certificates; else the system's",
    ]
}
