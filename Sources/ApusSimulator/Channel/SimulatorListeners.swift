internal import ApusHTTP2
internal import ApusTLS
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix

/// The sockets of a simulator.
final class SimulatorListeners: Sendable {
    private let configuration: SimulatorConfiguration
    private let world: World
    private let authority: CertificateAuthority
    private let group: MultiThreadedEventLoopGroup
    /// Which shard of the ledger a loop writes to.
    private let shards: [ObjectIdentifier: LedgerShard]
    private let open: OpenChannels

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
    func start(identity: TLSIdentity) async throws(SimulatorError) -> SimulatorAddresses {
        let context: TLSContext?
        do throws(TLSError) {
            context = self.configuration.usesTLS ? try TLSContext.server(identity: identity, alpn: ["h2"]) : nil
        } catch {
            throw SimulatorError(.keys, "no TLS: \(error)")
        }
        var ports: [FaultRoute: Int] = [:]
        let wanted = [(FaultRoute.apns, self.configuration.apnsPort), (.fcm, self.configuration.fcmPort)]
        for (route, port) in wanted {
            guard let port else { continue }
            ports[route] = try await self.listen(self.configuration.host, port) { channel in
                try self.assemble(channel, route: route, context: context)
            }
        }
        var controlPort: Int?
        if let port = self.configuration.controlPort {
            let control = ControlRoutes(world: self.world, authorityPEM: self.authority.certificatePEM)
            controlPort = try await self.listen("127.0.0.1", port) { channel in
                try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                try channel.pipeline.syncOperations.addHandler(ControlHandler(control))
            }
        }
        return SimulatorAddresses(
            host: "localhost",
            scheme: context == nil ? "http" : "https",
            apnsPort: ports[.apns],
            fcmPort: ports[.fcm],
            controlPort: controlPort,
        )
    }

    private func listen(
        _ host: String,
        _ port: Int,
        _ assemble: @escaping @Sendable (any Channel) throws -> Void,
    ) async throws(SimulatorError) -> Int {
        do {
            let open = self.open
            let channel = try await ServerBootstrap(group: self.group)
                .serverChannelOption(.backlog, value: 1_024)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
                .childChannelInitializer { channel in
                    guard open.add(channel) else { return channel.close() }
                    return channel.eventLoop.makeCompletedFuture { try assemble(channel) }
                }
                .bind(host: host, port: port).get()
            guard open.add(channel), let bound = channel.localAddress?.port else {
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
        let driver = StrictDriver(
            connection: StrictConnection(world: self.world, shard: shard, listener: route),
            world: self.world,
            streamsMax: self.configuration.streamsMax,
        )
        let handler = try HTTP2ServerHandler(
            configuration: HTTP2ServerConfiguration(
                maxConcurrentStreams: isNarrow ? 1 : self.configuration.streamsMax,
                connectionWindow: self.configuration.connectionWindow,
                bodyBytesMax: SimulatorLimits.requestBodyBytesMax,
            ),
            delegate: driver,
        )
        try channel.pipeline.syncOperations.addHandler(handler)
    }

    /// Closes everything and ends the loops.
    func stop() async {
        let closing = self.open.takeAll().map { $0.close() }
        for closed in closing { try? await closed.get() }
        try? await self.group.shutdownGracefully()
    }
}
