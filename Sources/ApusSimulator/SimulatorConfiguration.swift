public import ApusCore

/// An app that exists at the simulated providers.
public struct SimulatedApp: Hashable, Sendable {
    /// The name, which its credential files have.
    public var name: String
    /// The bundle id, without a suffix; nil when the app exists only where projects do.
    public var bundleID: String?
    /// The team, ten characters.
    public var teamID: String
    /// The id of its signing key, ten characters; apps of one key id share the key.
    public var keyID: String
    /// The project; nil when the app exists only where bundle ids do.
    public var projectID: String?
    /// The bundle ids that the key is for; nil for all of its team. Of apps that share a key the first one's count.
    public var keyTopics: Set<String>?
    /// The environment that the key is for; nil for both. Of apps that share a key the first one's counts.
    public var keyEnvironment: ProviderEnvironment?

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

    /// An app that exists at every provider.
    public static let demo = SimulatedApp(name: "demo", bundleID: "example.apus.demo", projectID: "apus-demo")
}

/// The configuration of a simulator.
public struct SimulatorConfiguration: Sendable {
    /// The address to listen on.
    public var host = "127.0.0.1"
    /// The ports of the providers: 0 takes a free one; a provider without a port is not served.
    public var ports: [Provider: Int] = Dictionary(
        uniqueKeysWithValues: SimulatedProviders.all.map { ($0.traits.provider, 0) }
    )
    /// The control listener's port: 0 takes a free one, nil none.
    public var controlPort: Int? = 0
    /// The address that the control listener listens on. Whoever reaches it can read and change everything.
    public var controlHost = "127.0.0.1"
    /// Names that clients reach it by, beside localhost; the credentials name the first one.
    public var names: [String] = []
    /// True when listeners speak TLS. Without, clients need HTTP/2 with prior knowledge.
    public var usesTLS = true
    /// True when requests are accepted without validation, as fast as they come.
    public var isFast = false
    /// The most requests at a time on a connection.
    public var streamsMax: UInt32 = 1_000
    /// The bytes that a client may send on a connection before the simulator has read them; at least 65,535, the default of RFC 9113.
    public var connectionWindow = 65_535
    /// True when providers that do so allow one request at a time until a credential was accepted.
    public var startsWithOneStream = true
    /// The environment that is imitated.
    public var environment = ProviderEnvironment.production
    /// The number of event loops.
    public var eventLoops = 1
    /// The apps that exist.
    public var apps: [SimulatedApp] = [.demo]
    /// The share of tokens that are dead.
    public var deadShare = DeadShare(0, seed: 0)
    /// The time at which those died; nil for just before each request.
    public var deadSince: UnixMilliseconds?
    /// The faults that strike requests.
    public var faults = FaultPlan()
    /// A script: its faults take the place of `faults`, its tokens are declared beside the dead share.
    public var script: SimulatorScript?
    /// The lifetime of the access tokens that providers issue, in seconds.
    public var accessTokenSeconds: Int64 = 3_600
    /// True when the ledger keeps tokens of more than 32 bytes, or only their digest.
    public var keepsLongTokens = true

    /// Creates a configuration of all providers, strict, on free ports.
    public init() {}
}

/// The addresses that a simulator listens on.
public struct SimulatorAddresses: Hashable, Sendable {
    /// The host that its certificate names.
    public let host: String
    /// "https", or "http" without TLS.
    public let scheme: String
    /// The ports of the providers that are served.
    public let ports: [Provider: Int]
    /// The control listener's port, if there is one.
    public let controlPort: Int?

    /// The name or address that clients reach the control listener by.
    let controlName: String

    /// Creates the addresses.
    ///
    /// - Parameter controlHost: the address that the control listener listens on. One that stands for all of the host's is
    ///   reached by the host's name; IPv6 goes in brackets.
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

    /// The addresses as `ports.json` has them.
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
