public import ApusCore

/// An app that exists at the simulated providers.
public struct SimulatedApp: Hashable, Sendable {
    /// What its credential files are called.
    public var name: String
    /// Apple's bundle id, without a suffix; nil: not at Apple's.
    public var bundleID: String?
    /// Ten characters.
    public var teamID: String
    /// Ten characters; apps of one key id share the key.
    public var keyID: String
    /// Google's project; nil: not at Google's.
    public var projectID: String?
    /// Bundle ids that the key is for; nil: all of its team. Of apps that share a key the first one's count.
    public var keyTopics: Set<String>?
    /// The environment that the key is for; nil: both. Of apps that share a key the first one's counts.
    public var keyEnvironment: ProviderEnvironment?

    /// An app, with a key for everything of its team.
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

    /// An app at both providers, for those who need just one.
    public static let demo = SimulatedApp(name: "demo", bundleID: "example.apus.demo", projectID: "apus-demo")
}

/// How a simulator is set up.
public struct SimulatorConfiguration: Sendable {
    /// The address to listen on.
    public var host = "127.0.0.1"
    /// Apple's port: 0 takes a free one, nil none.
    public var apnsPort: Int? = 0
    /// Google's port, for messages and tokens: 0 takes a free one, nil none.
    public var fcmPort: Int? = 0
    /// The control listener's port: 0 takes a free one, nil none.
    public var controlPort: Int? = 0
    /// The address that the control listener listens on. Whoever reaches it can read and change everything.
    public var controlHost = "127.0.0.1"
    /// Names that clients reach it by, beside localhost; the first stands in what it hands out.
    public var names: [String] = []
    /// Whether listeners speak TLS. Without, clients need HTTP/2 with prior knowledge.
    public var usesTLS = true
    /// Whether everything is accepted unseen, as fast as it comes; else everything is checked.
    public var isBlind = false
    /// Requests at a time that a connection is allowed.
    public var streamsMax: UInt32 = 1_000
    /// Bytes that a client may send on a connection ahead of us; at least 65,535, the default of RFC 9113.
    public var connectionWindow = 65_535
    /// Whether Apple allows one request at a time until a provider token was accepted.
    public var startsWithOneStream = true
    /// Which of Apple's worlds this is.
    public var environment = ProviderEnvironment.production
    /// Event loops.
    public var eventLoops = 1
    /// The apps that exist.
    public var apps: [SimulatedApp] = [.demo]
    /// Which tokens are dead by lot.
    public var deadShare = DeadShare(0, seed: 0)
    /// When those died; nil: just before each request.
    public var deadSince: UnixMilliseconds?
    /// What goes wrong.
    public var faults = FaultPlan()
    /// A story: its faults take the place of `faults`, its tokens are declared beside the lots.
    public var script: SimulatorScript?
    /// How long Google's access tokens live, in seconds.
    public var accessTokenSeconds: Int64 = 3_600
    /// Whether the ledger keeps tokens of more than 32 bytes, or only their digest.
    public var keepsLongTokens = true

    /// Both providers, strict, on free ports.
    public init() {}
}
