public import ApusCore
internal import ApusHTTP2
package import ApusTLS
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// A simulated Apple and Google, for tests, demos and load tests: HTTP/2 over TLS with an authority of its own.
///
/// Strict, it checks whatever the providers' pages demand and explains each refusal in a header `apus-simulator`; blind, it
/// accepts everything as fast as it comes. Either way it keeps a ledger, and fails as planned.
public final class Simulator: Sendable {
    /// Where it listens.
    public let addresses: SimulatorAddresses
    /// What it saw.
    public var ledger: SimulatorLedger { self.world.ledger }
    /// The counters of what it saw, and the seed of the faults in force.
    public var summary: LedgerSummary { self.world.summary }

    private let world: World
    private let keys: Mutex<SimulatorKeys>
    private let listeners: SimulatorListeners

    private init(
        addresses: SimulatorAddresses,
        world: World,
        keys: SimulatorKeys,
        listeners: SimulatorListeners,
    ) {
        self.addresses = addresses
        self.world = world
        self.keys = Mutex(keys)
        self.listeners = listeners
    }

    /// Starts listening.
    ///
    /// Throws ``SimulatorError`` if a port is taken or the numbers are impossible.
    ///
    /// - Parameter other: whose authority, keys and accounts it shares: Apple's other environment, say.
    public static func start(
        _ configuration: SimulatorConfiguration = SimulatorConfiguration(),
        beside other: Simulator? = nil,
        clock: any WallClock = SystemClock(),
    ) async throws -> Simulator {
        let plan = configuration.script?.plan ?? configuration.faults
        guard plan.isValid else {
            throw SimulatorError(.invalidFaultPlan, "a probability or delay is out of range")
        }
        precondition(configuration.eventLoops >= 1 && configuration.streamsMax >= 1, "something must run")
        var keys = try other?.keys.withLock { $0 } ?? SimulatorKeys(names: configuration.names, now: clock.now())
        try keys.register(configuration.apps)
        let world = World(
            rules: Self.rules(configuration, keys: keys, now: clock.now()),
            faults: FaultInjector(plan, startedAt: clock.now()),
            ledger: SimulatorLedger(
                shards: configuration.eventLoops,
                keepsLongTokens: configuration.keepsLongTokens,
            ),
            clock: clock,
        )
        for script in configuration.script?.scripts ?? [] { world.faults.add(script) }
        let listeners = SimulatorListeners(configuration: configuration, world: world, authority: keys.authority)
        do {
            let addresses = try await listeners.start(keys: keys)
            // Google's client for Python names Google's endpoint, whatever the account's file says.
            let audiences = [addresses.tokenURI, OAuthJudge.googleAudience].compactMap(\.self)
            world.change { $0.oauth.audiences = Set(audiences) }
            return Simulator(addresses: addresses, world: world, keys: keys, listeners: listeners)
        } catch {
            await listeners.stop()
            throw error
        }
    }

    private static func rules(
        _ configuration: SimulatorConfiguration,
        keys: SimulatorKeys,
        now: UnixMilliseconds,
    ) -> Rules {
        let tokens = AccessTokens(secret: SecureRandom.bytes(32))
        var fates = TokenFates(deadShare: configuration.deadShare, deadSince: configuration.deadSince)
        fates.adopt(configuration.script?.tokens ?? [], start: now)
        return Rules(
            fates: fates,
            apns: APNsJudge(
                keys: keys.registeredKeys,
                bundleIDs: keys.bundleIDs,
                environment: configuration.environment,
            ),
            fcm: FCMJudge(accounts: keys.accounts, projectIDs: keys.projectIDs, tokens: tokens),
            oauth: OAuthJudge(
                accounts: keys.accounts,
                audiences: [],
                tokens: tokens,
                lifetimeSeconds: configuration.accessTokenSeconds,
            ),
        )
    }

    /// Closes every connection and listener; nothing of it is left afterwards. To be called once, by whoever started it.
    public func stop() async { await self.listeners.stop() }

    /// Does something on each event loop, in their order: to learn how busy its thread is.
    ///
    /// - Throws: after `stop()`.
    package func onEachEventLoop<Found: Sendable>(_ body: @escaping @Sendable () -> Found) async throws -> [Found] {
        try await self.listeners.onEachEventLoop(body)
    }

    /// The certificate to trust, in PEM.
    public var authorityPEM: String { self.keys.withLock { $0.authority.certificatePEM } }

    /// An app's APNs key, in PEM; nil if the app is unknown or not at Apple's.
    public func signingKeyPEM(app name: String) -> String? {
        self.keys.withLock { keys in
            keys.apps.first { $0.name == name }.flatMap { keys.appleKeys[$0.keyID]?.pem }
        }
    }

    /// A new client certificate for APNs and its key, in PEM: for those topics, the first of which is the bundle id.
    ///
    /// - Parameters:
    ///   - environments: those that it is for.
    ///   - days: how long it is valid.
    public func clientCertificatePEM(
        topics: [String],
        environments: Set<ProviderEnvironment> = [.production, .sandbox],
        days: Int64 = 365,
    ) throws -> String {
        let identity = try self.clientCertificate(topics: topics, environments: environments, days: days)
        return identity.certificateChainPEM + identity.privateKeyPEM
    }

    /// As ``clientCertificatePEM(topics:environments:days:)``, for who needs another form.
    package func clientCertificate(
        topics: [String],
        environments: Set<ProviderEnvironment> = [.production, .sandbox],
        days: Int64 = 365,
    ) throws -> TLSIdentity {
        let validity = CertificateValidity(days: days, from: self.world.clock.now())
        return try self.keys.withLock { keys throws(SimulatorError) in
            try keys.clientCertificate(topics: topics, environments: environments, validity: validity)
        }
    }

    /// An app's service account, as JSON; nil if the app is unknown or not at Google's.
    public func serviceAccountJSON(app name: String) -> String? {
        let tokenURI = self.addresses.tokenURI ?? ""
        return self.keys.withLock { keys in
            guard let project = keys.apps.first(where: { $0.name == name })?.projectID else { return nil }
            return String(decoding: keys.serviceAccount(projectID: project, tokenURI: tokenURI), as: UTF8.self)
        }
    }

    /// Lets more apps exist; one of a known name is replaced.
    public func register(_ apps: [SimulatedApp]) throws {
        let keys = try self.keys.withLock { keys throws(SimulatorError) in
            try keys.register(apps)
            return keys
        }
        self.world.change { rules in
            rules.apns.keys = keys.registeredKeys
            rules.apns.bundleIDs = keys.bundleIDs
            rules.fcm.accounts = keys.accounts
            rules.fcm.projectIDs = keys.projectIDs
            rules.oauth.accounts = keys.accounts
        }
    }

    /// Writes what clients need into a folder: `ca.pem`, `ports.json`, and per app a `.p8` key, a client certificate and a service
    /// account.
    ///
    /// - Parameters:
    ///   - apps: apps to register before.
    @discardableResult
    public func writeCredentials(
        to folder: String,
        apps: [SimulatedApp] = [],
    ) throws -> SimulatorCredentials {
        if !apps.isEmpty { try self.register(apps) }
        let keys = self.keys.withLock { $0 }
        return try CredentialsFolder(folder: folder).write(
            keys,
            addresses: self.addresses,
            now: self.world.clock.now(),
        )
    }

    // MARK: Audiences that providers hold

    /// The ids of an app's broadcast channels, in the order of their making.
    public func broadcastChannels(bundleID: String) -> [String] { self.world.channels.ids(of: bundleID) }

    /// The tokens and installation ids that subscribe one of Google's topics, in no order.
    public func topicSubscribers(_ topic: String) -> Set<String> { self.world.topics.members(of: topic) }

    // MARK: Fates and faults

    /// Declares what a provider knows about a token from now on.
    public func declare(_ fate: TokenFate, of token: String, provider: Provider) {
        self.declare(fate, of: [token], provider: provider)
    }

    /// Declares what a provider knows about many tokens from now on: at once is much cheaper than one by one.
    public func declare(_ fate: TokenFate, of tokens: [String], provider: Provider) {
        let digests = tokens.map { TokenDigest($0, provider: provider) }
        self.world.change { rules in
            for digest in digests { rules.fates.declare(fate, of: digest) }
        }
    }

    /// Whether a token is dead, expired, bad or of another app, by declaration or by lot.
    public func isDead(_ token: String, provider: Provider) -> Bool {
        self.world.rules.fates.fate(of: TokenDigest(token, provider: provider), now: self.world.clock.now()) != nil
    }

    /// Lets other tokens be dead by lot.
    public func setDeadShare(_ share: DeadShare, since: UnixMilliseconds? = nil) {
        self.world.change { rules in
            rules.fates.deadShare = share
            rules.fates.deadSince = since
        }
    }

    /// Shows every notification that is accepted from now on, before it is answered; only strict listeners read them whole.
    ///
    /// - Parameter look: called on the connections' event loops.
    public func watch(_ look: @escaping @Sendable (SeenRequest) -> Void) {
        self.world.change { $0.watcher = look }
    }

    /// Puts a fault plan in force, and numbers requests from 0 again.
    public func setFaults(_ plan: FaultPlan) { self.world.faults.adopt(plan, now: self.world.clock.now()) }

    /// Adds a script behind the others. False: too many wait already.
    @discardableResult
    public func addScript(_ script: FaultScript) -> Bool { self.world.faults.add(script) }

    /// Nothing goes wrong any more: neither the plan nor a script strikes.
    public func clearFaults() { self.world.faults.clear() }

    /// Closes a provider's listener and all its connections, or opens it again at the same port. Idempotent.
    ///
    /// While it is closed, connections are refused. A port that the system chose may be taken meanwhile: for this, choose one
    /// outside the range of outgoing connections.
    ///
    /// - Throws: ``SimulatorError`` if there is no such listener, or its port was taken.
    public func setListening(_ isListening: Bool, at provider: Provider) async throws {
        let route: FaultRoute
        switch provider {
        case .apns: route = .apns
        case .fcm: route = .fcm
        case .webpush: throw SimulatorError(.listening, "there is no listener of webpush")
        }
        try await self.listeners.setListening(isListening, route)
    }

    /// Forgets ledger, fates by declaration and by lot, broadcast channels, topics, faults and scripts. Connections stay.
    public func reset() { self.world.reset() }
}
