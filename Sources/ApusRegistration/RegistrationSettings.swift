package import ApusCore
package import ApusService
package import ApusStore

/// Holds the settings of registration.
package struct RegistrationSettings: ServiceSettings {
    /// The address of the HTTP API.
    package var listen: ListenAddress
    /// The file that the chosen port is written to, for callers that start a service with port 0.
    package var portFile: String?
    /// The TLS files; nil for plain HTTP, behind a proxy.
    package var tls: ServerTLSSettings?
    /// The maximum of open connections; more wait in the system's backlog.
    package var connectionsMax: Int
    /// The maximum of open connections of one client address; nil for no limit.
    package var connectionsPerAddress: Int?
    /// The bytes that all clients together may make the process hold: bodies, import lines, unread answers.
    package var memoryLimit: Int
    /// The time that a connection may be silent between two requests.
    package var idleTimeout: Duration
    /// The time in which a request must arrive, from its head to its last byte.
    package var requestTimeout: Duration
    /// The requests per second of apps, users and Matrix homeservers.
    var rates: RequestRateLimits
    /// The failed authentications of one client address in a minute; nil for no limit.
    package var failedAuthenticationsPerMinute: Int?
    /// The devices that an app may have, roughly; nil for no limit.
    package var devicesPerApp: Int?
    /// The limits of topics.
    package var topicLimits: TopicLimits
    /// The maximum of records that the janitor reads in a second.
    package var janitorRate: Int
    /// The time in which the janitors of all processes together check each partition.
    package var janitorInterval: Duration
    /// The time after its last registration at which a device is removed, by provider that forgets tokens; none for never.
    package var staleMilliseconds: [Provider: Int64]
    /// True when a change of a device, or a send, over HTTP is acknowledged only once a replica has it, where there is one.
    package var waitsForReplica: Bool
    /// The time that a reader of the register stream may be silent before others take over its work.
    package var leaseMilliseconds: Int64

    /// The key of the TLS files.
    static let tlsKey = "registration.tls"

    /// Reads the settings from `registration.…`; mistakes are recorded by the reader.
    package init(_ reader: SettingsReader) {
        self.listen = reader.address("registration.listen", default: ListenAddress(host: "127.0.0.1", port: 8_180))
        self.portFile = reader.string("registration.port_file")
        self.tls = ServerTLSSettings(reader, at: Self.tlsKey)
        self.connectionsMax = reader.integer("registration.connections", default: 10_000, in: 1...1_000_000)
        // A proxy has one address for all its clients.
        let isBehindProxy = self.tls == nil
        self.connectionsPerAddress = reader.limit(
            "registration.connections_per_address",
            default: isBehindProxy ? nil : max(1, self.connectionsMax / 10),
            note: "a tenth of registration.connections with TLS, else unlimited",
        )
        self.memoryLimit = reader.size(
            "registration.memory_limit",
            default: 256 << 20,
            in: (16 << 20)...(1 << 40),
        )
        self.idleTimeout = reader.duration(
            "registration.idle_timeout",
            default: .seconds(60),
            in: .milliseconds(100) ... .seconds(3_600),
        )
        self.requestTimeout = reader.duration(
            "registration.request_timeout",
            default: .seconds(10),
            in: .milliseconds(100) ... .seconds(600),
        )
        self.rates = RequestRateLimits(
            perApp: reader.limit("registration.app_rate_per_second", default: nil),
            perClient: reader.limit("registration.client_rate_per_second", default: 20),
            perHomeserver: reader.limit(
                "registration.homeserver_rate_per_second",
                default: isBehindProxy ? nil : 500,
                note: "500 with TLS, else unlimited",
            ),
            perPushKey: reader.limit("registration.push_key_rate_per_second", default: 10),
        )
        self.failedAuthenticationsPerMinute = reader.limit(
            "registration.failed_authentications_per_minute",
            default: isBehindProxy ? nil : 600,
            note: "600 with TLS, else unlimited",
        )
        self.devicesPerApp = reader.limit("registration.devices_per_app", default: nil)
        let topics = TopicLimits.default
        self.topicLimits = TopicLimits(
            perApp: reader.integer("registration.topics_per_app", default: topics.perApp, in: 1...10_000_000),
            perOwner: reader.integer("registration.topics_per_user", default: topics.perOwner, in: 1...10_000_000),
        )
        self.janitorRate = reader.integer("registration.janitor_rate", default: 1_000, in: 1...1_000_000)
        self.janitorInterval = reader.duration(
            "registration.janitor_interval",
            default: .seconds(24 * 3_600),
            in: .seconds(1) ... .seconds(30 * 24 * 3_600),
        )
        let forgetsStale = reader.boolean("registration.forget_stale", default: true)
        self.staleMilliseconds = [:]
        for traits in ProviderTraits.known {
            guard let days = traits.tokenDaysMax else { continue }
            let staleAfter = reader.duration(
                "registration.\(traits.name)_stale_after",
                default: .seconds(days * 86_400),
                in: .seconds(3_600) ... .seconds(3_650 * 86_400),
            )
            if forgetsStale { self.staleMilliseconds[traits.provider] = Int64(staleAfter / .milliseconds(1)) }
        }
        self.waitsForReplica = reader.boolean("registration.wait_for_replica", default: false)
        let lease = reader.duration(
            "registration.lease",
            default: .seconds(10),
            in: .milliseconds(400) ... .seconds(600),
        )
        self.leaseMilliseconds = Int64(lease / .milliseconds(1))
    }
}

/// Limits requests per second; nil stands for no limit.
struct RequestRateLimits: Hashable, Sendable {
    /// The requests of each app's backends. Its users' devices have as much together, and so have homeservers: none of them takes from another.
    var perApp: Int?
    /// The requests of each user of an app, whatever the number of its devices.
    var perClient: Int?
    /// The requests of a client address that asks as a Matrix homeserver.
    var perHomeserver: Int?
    /// The notifications of Matrix homeservers for one push key.
    var perPushKey: Int?
}
