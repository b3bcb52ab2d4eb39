internal import ApusCore
internal import ApusHTTP2
internal import ApusTLS
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import Synchronization

/// The sockets of a simulator.
final class SimulatorListeners: Sendable {
    /// What one connection may bring per turn of its event loop: a busy one must not keep another waiting, as Apple's and Google's
    /// many servers would not.
    private static let bytesPerTurn = 16 * 1_024

    private let configuration: SimulatorConfiguration
    private let world: World
    private let authority: CertificateAuthority
    private let group: MultiThreadedEventLoopGroup
    /// Which shard of the ledger a loop writes to.
    private let shards: [ObjectIdentifier: LedgerShard]
    private let open: OpenChannels
    /// How to listen again at a provider's port.
    private let doors = Mutex<[FaultRoute: Door]>([:])

    private struct Door {
        let port: Int
        let context: TLSContext?
    }

    init(configuration: SimulatorConfiguration, world: World, authority: CertificateAuthority) {
        self.configuration = configuration
        self.world = world
        self.authority = authority
        self.group = MultiThreadedEventLoopGroup(numberOfThreads: configuration.eventLoops)
        var shards: [ObjectIdentifier: LedgerShard] = [:]
        for (index, loop) in self.group.makeIterator().enumerated() {
            shards[ObjectIdentifier(loop)] = world.ledger.shard(index)
        }
        self.shards = shards
        self.open = OpenChannels()
    }

    /// Listens wherever the configuration says.
    func start(keys: SimulatorKeys) async throws(SimulatorError) -> SimulatorAddresses {
        var ports: [FaultRoute: Int] = [:]
        let wanted = [(FaultRoute.apns, self.configuration.apnsPort), (.fcm, self.configuration.fcmPort)]
        for (route, port) in wanted {
            guard let port else { continue }
            let form = self.configuration.script?.certificates[route] ?? .valid
            let context = try self.context(keys.identity(form, now: self.world.clock.now()), for: route)
            let bound = try await self.listen(route, Door(port: port, context: context))
            ports[route] = bound
            self.doors.withLock { $0[route] = Door(port: bound, context: context) }
        }
        var controlPort: Int?
        if let port = self.configuration.controlPort {
            let control = ControlRoutes(
                world: self.world,
                authorityPEM: self.authority.certificatePEM,
                setListening: { route, isListening throws(SimulatorError) in
                    try await self.setListening(isListening, route)
                },
            )
            controlPort = try await self.listen(self.configuration.controlHost, port, of: nil) { channel in
                try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                try channel.pipeline.syncOperations.addHandler(ControlHandler(control))
            }
        }
        return SimulatorAddresses(
            host: self.configuration.names.first ?? "localhost",
            scheme: self.configuration.usesTLS ? "https" : "http",
            apnsPort: ports[.apns],
            fcmPort: ports[.fcm],
            controlPort: controlPort,
            controlHost: self.configuration.controlHost,
        )
    }

    /// Does something on each event loop, in their order.
    func onEachEventLoop<Found: Sendable>(_ body: @escaping @Sendable () -> Found) async throws -> [Found] {
        var found: [Found] = []
        for loop in self.group.makeIterator() { found.append(try await loop.submit(body).get()) }
        return found
    }

    /// Apple speaks HTTP/2 only.
    private func context(_ identity: TLSIdentity, for route: FaultRoute) throws(SimulatorError) -> TLSContext? {
        guard self.configuration.usesTLS else { return nil }
        let isHTTP2Only = route == .apns || self.configuration.isBlind
        do throws(TLSError) {
            // Apple asks everybody for a certificate, and takes whoever has none by tokens.
            let asks = route == .apns && !self.configuration.isBlind
            return try TLSContext.server(
                identity: identity,
                alpn: isHTTP2Only ? ["h2"] : ["h2", "http/1.1"],
                clientCA: asks ? .pem(self.authority.certificatePEM) : nil,
                requiresClientCertificate: false,
            )
        } catch {
            throw SimulatorError(.keys, "no TLS: \(error)")
        }
    }

    /// Closes a provider's listener and its connections, or opens it again at the same port. Idempotent.
    func setListening(_ isListening: Bool, _ route: FaultRoute) async throws(SimulatorError) {
        guard let door = self.doors.withLock({ $0[route] }) else {
            throw SimulatorError(.listening, "there is no listener of \(route.name)")
        }
        guard !isListening else {
            if self.open.open(route) { _ = try await self.listen(route, door) }
            return
        }
        let closing = self.open.shut(route).map { $0.close() }
        for closed in closing { try? await closed.get() }
    }

    private func listen(_ route: FaultRoute, _ door: Door) async throws(SimulatorError) -> Int {
        try await self.listen(self.configuration.host, door.port, of: route) { channel in
            try self.assemble(channel, route: route, context: door.context)
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
            let channel = try await ServerBootstrap(group: self.group)
                .serverChannelOption(.backlog, value: 1_024)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
                .childChannelOption(.maxMessagesPerRead, value: 1)
                .childChannelOption(
                    .recvAllocator,
                    value: FixedSizeRecvByteBufferAllocator(capacity: Self.bytesPerTurn),
                )
                .childChannelInitializer { channel in
                    guard open.add(channel, of: route) else { return channel.close() }
                    return channel.eventLoop.makeCompletedFuture { try assemble(channel) }
                }
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
            preconditionFailure("a connection on a loop of another group")
        }
        if let context { try channel.pipeline.syncOperations.addHandler(TLSHandler(server: context)) }
        let isNarrow = route == .apns && self.configuration.startsWithOneStream
        guard !self.configuration.isBlind else {
            let session = BlindSession(
                world: self.world,
                shard: shard,
                listener: route,
                streamsMax: self.configuration.streamsMax,
                startsWithOneStream: isNarrow,
                connectionWindow: self.configuration.connectionWindow,
            )
            return try channel.pipeline.syncOperations.addHandler(
                BlindHandler(session: session, clock: self.world.clock)
            )
        }
        let connection = StrictConnection(world: self.world, shard: shard, listener: route)
        guard route == .fcm else {
            let driver = self.driver(connection)
            let handler = try self.http2(driver, streamsMax: isNarrow ? 1 : self.configuration.streamsMax)
            let watcher = CertificateWatcher(driver: driver, handler: handler)
            return try channel.pipeline.syncOperations.addHandlers(watcher, handler)
        }
        let detector = ProtocolDetector { channel, isHTTP2 in
            guard !isHTTP2 else {
                let handler = try self.http2(self.driver(connection), streamsMax: self.configuration.streamsMax)
                return try channel.pipeline.syncOperations.addHandler(handler)
            }
            try channel.pipeline.syncOperations.configureHTTPServerPipeline()
            try channel.pipeline.syncOperations.addHandler(HTTP1Driver(connection: connection, world: self.world))
        }
        try channel.pipeline.syncOperations.addHandler(detector)
    }

    private func driver(_ connection: StrictConnection) -> StrictDriver {
        StrictDriver(connection: connection, world: self.world, streamsMax: self.configuration.streamsMax)
    }

    private func http2(_ driver: StrictDriver, streamsMax: UInt32) throws -> HTTP2ServerHandler {
        try HTTP2ServerHandler(
            configuration: HTTP2ServerConfiguration(
                maxConcurrentStreams: streamsMax,
                connectionWindow: self.configuration.connectionWindow,
                bodyBytesMax: SimulatorLimits.requestBodyBytesMax,
            ),
            delegate: driver,
        )
    }

    /// Closes everything and ends the loops.
    func stop() async {
        let closing = self.open.takeAll().map { $0.close() }
        for closed in closing { try? await closed.get() }
        try? await self.group.shutdownGracefully()
    }
}
