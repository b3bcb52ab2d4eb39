public import ApusCore
internal import ApusHTTP2
internal import ApusTLS
package import NIOCore
internal import NIOPosix
internal import Synchronization

/// Simulates push services for tests, demos and load tests: HTTP/2 over TLS with a certificate authority of its own.
///
/// A strict simulator validates requests by the providers' documentation and explains each refusal in a header
/// `apus-simulator`; a fast one accepts every request as fast as possible. In both modes it keeps a ledger and answers
/// with planned faults.
public final class Simulator: Sendable {
    /// The addresses of its listeners.
    public let addresses: SimulatorAddresses
    /// The ledger of received messages.
    public var ledger: SimulatorLedger { self.state.ledger }
    /// The counters of the ledger, and the seed of the faults in force.
    public var summary: LedgerSummary { self.state.summary }

    let state: SimulatorState
    private let keys: Mutex<SimulatorKeys>
    private let listeners: SimulatorListeners

    private init(
        addresses: SimulatorAddresses,
        state: SimulatorState,
        keys: SimulatorKeys,
        listeners: SimulatorListeners,
    ) {
        self.addresses = addresses
        self.state = state
        self.keys = Mutex(keys)
        self.listeners = listeners
    }

    /// Starts listening.
    ///
    /// Throws ``SimulatorError`` if a port is taken or the fault plan is invalid.
    ///
    /// - Parameter other: a simulator whose authority, keys and accounts are shared, such as that of another environment.
    public static func start(
        _ configuration: SimulatorConfiguration = SimulatorConfiguration(),
        beside other: Simulator? = nil,
        clock: any WallClock = SystemClock(),
    ) async throws -> Simulator {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: configuration.eventLoops)
        return try await Self.start(configuration, beside: other, clock: clock, on: group)
    }

    /// Starts listening on event loops of the caller's, as many as the configuration has.
    package static func start(
        _ configuration: SimulatorConfiguration,
        beside other: Simulator? = nil,
        clock: any WallClock = SystemClock(),
        on group: any EventLoopGroup,
    ) async throws -> Simulator {
        let plan = configuration.script?.plan ?? configuration.faults
        guard plan.isValid else {
            throw SimulatorError(.invalidFaultPlan, "a probability or delay is out of range")
        }
        precondition(
            configuration.eventLoops >= 1 && configuration.streamsMax >= 1,
            "there is no event loop or no stream"
        )
        var keys = try other?.keys.withLock { $0 } ?? SimulatorKeys(names: configuration.names, now: clock.now())
        try keys.register(configuration.apps)
        var behaviors = TokenBehaviors(deadShare: configuration.deadShare, deadSince: configuration.deadSince)
        behaviors.adopt(configuration.script?.tokens ?? [], start: clock.now())
        let state = SimulatorState(
            providers: SimulatedProviders.all.map { $0.init(configuration, keys) },
            behaviors: behaviors,
            faults: FaultInjector(plan, startedAt: clock.now()),
            ledger: SimulatorLedger(
                shards: configuration.eventLoops,
                keepsLongTokens: configuration.keepsLongTokens,
            ),
            clock: clock,
        )
        for script in configuration.script?.scripts ?? [] { state.faults.add(script) }
        let listeners = SimulatorListeners(
            configuration: configuration,
            state: state,
            authority: keys.authority,
            group: group,
        )
        do {
            let addresses = try await listeners.start(keys: keys)
            state.forEachProvider { $0.update(addresses) }
            return Simulator(addresses: addresses, state: state, keys: keys, listeners: listeners)
        } catch {
            await listeners.stop()
            throw error
        }
    }

    /// Closes all connections and listeners. It must be called once.
    public func stop() async { await self.listeners.stop() }

    /// Calls a function on each event loop, in order, for example to measure its thread.
    ///
    /// - Throws: after `stop()`.
    package func onEachEventLoop<Found: Sendable>(_ body: @escaping @Sendable () -> Found) async throws -> [Found] {
        try await self.listeners.onEachEventLoop(body)
    }

    /// The CA certificate for clients, in PEM.
    public var authorityPEM: String { self.keys.withLock { $0.authority.certificatePEM } }

    /// Passes the keys of all providers to `body`.
    func withKeys<Value: Sendable, Failure: Error>(
        _ body: (SimulatorKeys) throws(Failure) -> sending Value
    ) throws(Failure) -> Value {
        try self.keys.withLock { keys throws(Failure) in try body(keys) }
    }

    /// Adds apps; one with a known name is replaced.
    public func register(_ apps: [SimulatedApp]) throws {
        let keys = try self.keys.withLock { keys throws(SimulatorError) in
            try keys.register(apps)
            return keys
        }
        self.state.forEachProvider { $0.update(keys) }
    }

    /// Writes the files that clients need into a folder: `ca.pem`, `ports.json`, and each app's keys, certificates and accounts.
    ///
    /// - Parameters:
    ///   - apps: the apps to register first.
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
            now: self.state.clock.now(),
        )
    }

    // MARK: Behaviors and faults

    /// Declares the behavior of a token from now on.
    public func declare(_ behavior: TokenBehavior, of token: String, provider: Provider) {
        self.declare(behavior, of: [token], provider: provider)
    }

    /// Declares the behavior of many tokens from now on, which is much cheaper than one by one.
    public func declare(_ behavior: TokenBehavior, of tokens: [String], provider: Provider) {
        let digests = tokens.map { TokenDigest($0, provider: provider) }
        self.state.change { rules in
            for digest in digests { rules.behaviors.declare(behavior, of: digest) }
        }
    }

    /// Returns true when a token is dead, expired, bad or of another app, by declaration or by the dead share.
    public func isDead(_ token: String, provider: Provider) -> Bool {
        self.state.rules.behaviors.behavior(of: TokenDigest(token, provider: provider), now: self.state.clock.now())
            != nil
    }

    /// Calls a function with each notification that is accepted from now on, before it is answered. Fast connections do not call it.
    ///
    /// - Parameter observer: called on the connections' event loops.
    public func observe(_ observer: @escaping @Sendable (AcceptedRequest) -> Void) {
        self.state.change { $0.observer = observer }
    }

    /// Puts a fault plan in force and numbers requests from 0 again.
    public func setFaults(_ plan: FaultPlan) { self.state.faults.adopt(plan, now: self.state.clock.now()) }

    /// Adds a script behind the others; returns false when too many are waiting.
    @discardableResult
    public func addScript(_ script: FaultScript) -> Bool { self.state.faults.add(script) }

    /// Removes the fault plan and all scripts.
    public func clearFaults() { self.state.faults.clear() }

    /// Closes a provider's listener and all its connections, or opens it again at the same port. Repetitions have no effect.
    ///
    /// While it is closed, connections are refused. A port that the system chose may be taken meanwhile: for this use,
    /// choose one outside the range of outgoing connections.
    ///
    /// - Throws: ``SimulatorError`` if there is no such listener, or its port was taken.
    public func setListening(_ isListening: Bool, at provider: Provider) async throws {
        guard let route = SimulatedProviders.type(of: provider)?.traits.routes[0] else {
            throw SimulatorError(.listening, "\(provider.name) is not simulated")
        }
        try await self.listeners.setListening(isListening, route)
    }

    /// Clears the ledger, the behaviors of tokens, the faults and scripts, and the changes by requests. Connections stay open.
    public func reset() { self.state.reset() }
}
