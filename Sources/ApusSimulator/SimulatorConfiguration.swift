public import ApusCore

/// An app at the simulated providers.
public struct SimulatedApp: Hashable, Sendable {
    /// The name, which its credential files have.
    public var name: String
    /// The bundle id, without a suffix; nil when the app exists only at providers with projects.
    public var bundleID: String?
    /// The id of the team, ten characters.
    public var teamID: String
    /// The id of its signing key, ten characters; apps with the same key id share the key.
    public var keyID: String
    /// The id of the project; nil when the app exists only at providers with bundle ids.
    public var projectID: String?
    /// The bundle ids of the key; nil for all of its team. Of apps that share a key the first one's count.
    public var keyTopics: Set<String>?
    /// The environment of the key; nil for both. Of apps that share a key the first one's counts.
    public var keyEnvironment: ProviderEnvironment?
    /// The number of keys at providers whose recipients are each bound to the key that they subscribed with: from 1 to ``keyCountMax``.
    public var keyCount = 1
    /// The RSA key of its account; nil for a new one. Of several apps the first one's counts.
    package var accountKeyPEM: String?

    /// The maximum ``keyCount``.
    public static let keyCountMax = 9

    /// Creates an app, with a key for everything of its team.
    public init(
        name: String,
        bundleID: String?,
        teamID: String = "APUSTEAM01",
        keyID: String = "APUSKEY001",
        projectID: String?,
    ) {
        self.name = name
        self.bundleID = bundleID
        self.teamID = teamID
        self.keyID = keyID
        self.projectID = projectID
    }

    /// The demo app, which exists at every provider.
    public static let demo = SimulatedApp(name: "demo", bundleID: "example.apus.demo", projectID: "apus-demo")
}

/// The configuration of a simulator.
public struct SimulatorConfiguration: Sendable {
    /// The address to listen on.
    public var host = "127.0.0.1"
    /// The ports of the providers; 0 for a free one; a provider without a port is not served.
    public var ports: [Provider: Int] = Dictionary(
        uniqueKeysWithValues: SimulatedProviders.all.map { ($0.traits.provider, 0) }
    )
    /// The control listener's port; 0 for a free one, nil for none.
    public var controlPort: Int? = 0
    /// The address of the control listener. Everybody who can connect to it can read and change everything.
    public var controlHost = "127.0.0.1"
    /// The host names for clients, besides localhost; the credentials name the first one.
    public var names: [String] = []
    /// True when listeners use TLS. Without it, clients need HTTP/2 with prior knowledge.
    public var usesTLS = true
    /// True when requests are accepted without validation, as fast as possible.
    public var isFast = false
    /// The maximum number of concurrent requests on a connection.
    public var streamsMax: UInt32 = 1_000
    /// The protocols (ALPN) of strict listeners of providers that speak HTTP/1.1, too; none: such a listener agrees to nothing, and speaks
    /// HTTP/1.1.
    package var protocols = ["h2", "http/1.1"]
    /// The bytes that a client may send on a connection before the simulator has read them; at least 65,535, the default of RFC 9113.
    public var connectionWindow = 65_535
    /// True when providers with this behavior allow one request at a time until a credential was accepted.
    public var startsWithOneStream = true
    /// The simulated environment.
    public var environment = ProviderEnvironment.production
    /// The number of event loops.
    public var eventLoops = 1
    /// The apps that exist.
    public var apps: [SimulatedApp] = [.demo]
    /// The share of tokens that are dead.
    public var deadShare = DeadShare(0, seed: 0)
    /// The time at which those tokens died; nil for just before each request.
    public var deadSince: UnixMilliseconds?
    /// The faults that strike requests.
    public var faults = FaultPlan()
    /// A script: its faults replace `faults`, its tokens are declared in addition to the dead share.
    public var script: SimulatorScript?
    /// The lifetime of the access tokens that providers issue, in seconds.
    public var accessTokenSeconds: Int64 = 3_600
    /// True when the ledger stores tokens of more than 32 bytes; false for their digests only.
    public var keepsLongTokens = true

    /// Creates a configuration of all providers, strict, on free ports.
    public init() {}
}

/// The addresses that a simulator listens on.
public struct SimulatorAddresses: Hashable, Sendable {
    /// The host in its certificate.
    public let host: String
    /// "https", or "http" without TLS.
    public let scheme: String
    /// The ports of the providers that are served.
    public let ports: [Provider: Int]
    /// The control listener's port; nil when there is none.
    public let controlPort: Int?

    /// The name or address of the control listener for clients.
    let controlName: String

    /// Creates the addresses.
    ///
    /// - Parameter controlHost: the address of the control listener. For an address that stands for all of the host's,
    ///   clients use the host's name; IPv6 is in brackets.
    package init(host: String, scheme: String, ports: [Provider: Int], controlPort: Int?, controlHost: String) {
        self.host = host
        self.scheme = scheme
        self.ports = ports
        self.controlPort = controlPort
        self.controlName =
            switch controlHost {
            case "0.0.0.0", "::", "": host
            case let address where address.contains(":"): "[\(address)]"
            case let address: address
            }
    }

    /// The URL of the control listener.
    public var controlURL: String? { self.controlPort.map { "http://\(self.controlName):\($0)" } }

    /// The addresses in the form of `ports.json`.
    package var json: JSONObject {
        var object: JSONObject = ["host": .string(self.host), "scheme": .string(self.scheme)]
        for type in SimulatedProviders.all {
            let provider = type.traits.provider
            if let port = self.ports[provider] { object["\(provider.name)_port"] = .integer(port) }
            for member in type.members(of: self).members { object[member.name] = member.value }
        }
        if let port = self.controlPort { object["control_port"] = .integer(port) }
        if let url = self.controlURL { object["control_url"] = .string(url) }
        return object
    }
}
