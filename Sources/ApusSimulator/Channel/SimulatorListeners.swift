internal import ApusCore
internal import ApusHTTP2
internal import ApusNetwork
internal import ApusTLS
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import Synchronization

/// Manages the listeners of a simulator: one for each provider, and one for control.
final class SimulatorListeners: Sendable {
    /// The maximum bytes that are read from a connection per turn of its event loop, so that a busy one does not keep others waiting.
    private static let bytesPerTurn = 16 * 1_024

    private let configuration: SimulatorConfiguration
    private let state: SimulatorState
    private let authority: CertificateAuthority
    private let group: any EventLoopGroup
    /// The shards of the ledger that the event loops write to.
    private let shards: [ObjectIdentifier: LedgerShard]
    private let open: OpenChannels
    /// The ports and TLS contexts of the providers' listeners.
    private let endpoints = Mutex<[FaultRoute: Endpoint]>([:])

    private struct Endpoint {
        let port: Int
        let context: TLSContext?
    }

    /// - Parameter group: as many event loops as the configuration has.
    init(
        configuration: SimulatorConfiguration,
        state: SimulatorState,
        authority: CertificateAuthority,
        group: any EventLoopGroup,
    ) {
        self.configuration = configuration
        self.state = state
        self.authority = authority
        self.group = group
        var shards: [ObjectIdentifier: LedgerShard] = [:]
        for (index, loop) in self.group.makeIterator().enumerated() {
            shards[ObjectIdentifier(loop)] = state.ledger.shard(index)
        }
        self.shards = shards
        self.open = OpenChannels()
    }

    /// Opens all listeners that the configuration names.
    func start(keys: SimulatorKeys) async throws(SimulatorError) -> SimulatorAddresses {
        var ports: [Provider: Int] = [:]
        for traits in (SimulatedProviders.all.map { $0.traits }) {
            guard let port = self.configuration.ports[traits.provider] else { continue }
            let route = traits.routes[0]
            let form = self.configuration.script?.certificates[route] ?? .valid
            let context = try self.context(keys.identity(form, now: self.state.clock.now()), for: route)
            let bound = try await self.listen(route, Endpoint(port: port, context: context))
            ports[traits.provider] = bound
            self.endpoints.withLock { $0[route] = Endpoint(port: bound, context: context) }
        }
        var controlPort: Int?
        if let port = self.configuration.controlPort {
            let control = ControlRoutes(
                state: self.state,
                authorityPEM: self.authority.certificatePEM,
                setListening: { route, isListening throws(SimulatorError) in
                    try await self.setListening(isListening, route)
                },
            )
            var upgraders: [any HTTPServerProtocolUpgrader & Sendable] = []
            self.state.forEachProvider { upgraders += $0.upgraders }
            let all = upgraders
            controlPort = try await self.listen(self.configuration.controlHost, port, of: nil) { channel in
                try channel.pipeline.syncOperations.configureHTTPServerPipeline(
                    withServerUpgrade: (all, ControlHandler.remove)
                )
                try channel.pipeline.syncOperations.addHandler(ControlHandler(control))
            }
        }
        return SimulatorAddresses(
            host: self.configuration.names.first ?? "localhost",
            // Clients on a virtual network do without TLS, and speak of its addresses as if they did not.
            scheme: self.configuration.usesTLS || self.group.any() is any VirtualNetworkLoop ? "https" : "http",
            ports: ports,
            controlPort: controlPort,
            controlHost: self.configuration.controlHost,
        )
    }

    /// Calls a function on each event loop, in order.
    func onEachEventLoop<Found: Sendable>(_ body: @escaping @Sendable () -> Found) async throws -> [Found] {
        var found: [Found] = []
        for loop in self.group.makeIterator() { found.append(try await loop.submit(body).get()) }
        return found
    }

    private func context(_ identity: TLSIdentity, for route: FaultRoute) throws(SimulatorError) -> TLSContext? {
        guard self.configuration.usesTLS else { return nil }
        let (traits, isStrict) = (route.type.traits, !self.configuration.isFast)
        do throws(TLSError) {
            return try TLSContext.server(
                identity: identity,
                alpn: isStrict && traits.speaksHTTP1 ? self.configuration.protocols : ["h2"],
                clientCA: isStrict && traits.asksForCertificate ? .pem(self.authority.certificatePEM) : nil,
                requiresClientCertificate: false,
            )
        } catch {
            throw SimulatorError(.keys, "cannot create a TLS context: \(error)")
        }
    }

    /// Closes a provider's listener and its connections, or opens it again at the same port. Repetitions have no effect.
    func setListening(_ isListening: Bool, _ route: FaultRoute) async throws(SimulatorError) {
        guard let endpoint = self.endpoints.withLock({ $0[route] }) else {
            throw SimulatorError(.listening, "there is no listener of \(route.name)")
        }
        guard !isListening else {
            if self.open.open(route) { _ = try await self.listen(route, endpoint) }
            return
        }
        let closing = self.open.shut(route).map { $0.close() }
        for closed in closing { try? await closed.get() }
    }

    private func listen(_ route: FaultRoute, _ endpoint: Endpoint) async throws(SimulatorError) -> Int {
        try await self.listen(self.configuration.host, endpoint.port, of: route) { channel in
            try self.assemble(channel, route: route, context: endpoint.context)
        }
    }

    private func listen(
        _ host: String,
        _ port: Int,
        of route: FaultRoute?,
        _ assemble: @escaping @Sendable (any Channel) throws -> Void,
    ) async throws(SimulatorError) -> Int {
        do {
            let open = self.open
            let initialize: @Sendable (any Channel) -> EventLoopFuture<Void> = { channel in
                guard open.add(channel, of: route) else { return channel.close() }
                return channel.eventLoop.makeCompletedFuture { try assemble(channel) }
            }
            if let virtual = self.group.any() as? any VirtualNetworkLoop {
                let channel = try await virtual.listen(at: port, initialize: initialize).get()
                guard open.add(channel, of: route) else { throw SimulatorError(.listening, "stopped") }
                return port
            }
            let channel = try await ServerBootstrap(group: self.group)
                .serverChannelOption(.backlog, value: 1_024)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
                .childChannelOption(.maxMessagesPerRead, value: 1)
                .childChannelOption(
                    .recvAllocator,
                    value: FixedSizeRecvByteBufferAllocator(capacity: Self.bytesPerTurn),
                )
                .childChannelInitializer(initialize)
                .bind(host: host, port: port).get()
            guard open.add(channel, of: route), let bound = channel.localAddress?.port else {
                throw SimulatorError(.listening, "stopped")
            }
            return bound
        } catch {
            throw SimulatorError(.listening, "cannot listen on \(host):\(port): \(error)")
        }
    }

    private func assemble(_ channel: any Channel, route: FaultRoute, context: TLSContext?) throws {
        guard let shard = self.shards[ObjectIdentifier(channel.eventLoop)] else {
            preconditionFailure("the connection is on an event loop of another group")
        }
        if let context { try channel.pipeline.syncOperations.addHandler(TLSHandler(server: context)) }
        let traits = route.type.traits
        let isNarrow = traits.startsWithOneStream && self.configuration.startsWithOneStream
        guard !self.configuration.isFast else {
            let connection = FastConnection(
                state: self.state,
                shard: shard,
                listener: route,
                streamsMax: self.configuration.streamsMax,
                startsWithOneStream: isNarrow,
                connectionWindow: self.configuration.connectionWindow,
            )
            return try channel.pipeline.syncOperations.addHandler(
                FastHandler(connection: connection, clock: self.state.clock)
            )
        }
        let connection = StrictConnection(state: self.state, shard: shard, listener: route)
        guard traits.speaksHTTP1 else {
            let delegate = self.delegate(connection)
            let handler = try self.http2(delegate, streamsMax: isNarrow ? 1 : self.configuration.streamsMax)
            let watcher = CertificateWatcher(delegate: delegate, handler: handler)
            return try channel.pipeline.syncOperations.addHandlers(watcher, handler)
        }
        let detector = ProtocolDetector { channel, isHTTP2 in
            guard !isHTTP2 else {
                let handler = try self.http2(self.delegate(connection), streamsMax: self.configuration.streamsMax)
                return try channel.pipeline.syncOperations.addHandler(handler)
            }
            try channel.pipeline.syncOperations.configureHTTPServerPipeline()
            try channel.pipeline.syncOperations.addHandler(HTTP1Handler(connection: connection, state: self.state))
        }
        try channel.pipeline.syncOperations.addHandler(detector)
    }

    private func delegate(_ connection: StrictConnection) -> StrictDelegate {
        StrictDelegate(connection: connection, state: self.state, streamsMax: self.configuration.streamsMax)
    }

    private func http2(_ delegate: StrictDelegate, streamsMax: UInt32) throws -> HTTP2ServerHandler {
        try HTTP2ServerHandler(
            configuration: HTTP2ServerConfiguration(
                maxConcurrentStreams: streamsMax,
                connectionWindow: self.configuration.connectionWindow,
                bodyBytesMax: SimulatorLimits.requestBodyBytesMax,
            ),
            delegate: delegate,
        )
    }

    /// Closes all connections and ends the event loops.
    func stop() async {
        let closing = self.open.takeAll().map { $0.close() }
        for closed in closing { try? await closed.get() }
        try? await self.group.shutdownGracefully()
    }
}

/// Holds the open channels, which must be closed at the end, or while their provider accepts no connections.
private final class OpenChannels: Sendable {
    private struct Open {
        let channel: any Channel
        let route: FaultRoute?
    }

    private struct State {
        var channels: [ObjectIdentifier: Open] = [:]
        /// The providers that accept no connections.
        var shut: Set<FaultRoute> = []
        var isOver = false
    }

    private let state = Mutex(State())

    /// Adds a channel until it closes; returns false when it must be closed instead.
    ///
    /// - Parameter route: the route of its provider; nil for a control channel.
    func add(_ channel: any Channel, of route: FaultRoute?) -> Bool {
        let isAdded = self.state.withLock { state in
            guard !state.isOver, !(route.map { state.shut.contains($0) } ?? false) else { return false }
            state.channels[ObjectIdentifier(channel)] = Open(channel: channel, route: route)
            return true
        }
        guard isAdded else { return false }
        channel.closeFuture.whenComplete { _ in
            _ = self.state.withLock { $0.channels.removeValue(forKey: ObjectIdentifier(channel)) }
        }
        return true
    }

    /// Returns the open channels of a provider; none can be added until the provider is opened again.
    func shut(_ route: FaultRoute) -> [any Channel] {
        self.state.withLock { state in
            state.shut.insert(route)
            return state.channels.values.filter { $0.route == route }.map(\.channel)
        }
    }

    /// Allows channels of a provider again; returns false when it was not closed, or the simulator has stopped.
    func open(_ route: FaultRoute) -> Bool {
        self.state.withLock { $0.shut.remove(route) != nil && !$0.isOver }
    }

    /// Returns all open channels; none can be added afterwards.
    func takeAll() -> [any Channel] {
        self.state.withLock { state in
            state.isOver = true
            return state.channels.values.map(\.channel)
        }
    }
}
