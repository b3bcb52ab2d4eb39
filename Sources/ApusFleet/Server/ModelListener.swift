internal import ApusNetwork
internal import Glibc
package import NIOCore
internal import NIOPosix

/// Serves a modelled Redis on a Unix socket and a port, so that programs and tests that want a redis-server can be run against the model.
package final class ModelListener: Sendable {
    private let channels: [any Channel]

    /// Listens on one event loop, on which the model lives.
    package init(
        socketPath: String?,
        port: Int?,
        eventLoop: any EventLoop,
        make: @escaping @Sendable () -> ModelServer,
    ) async throws {
        let server = try await eventLoop.submit { NIOLoopBound(ServerOnLoop(make(), eventLoop), eventLoop: eventLoop) }
            .get()
        let initialize: @Sendable (any Channel) -> EventLoopFuture<Void> = { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(ModelConnectionHandler(server.value))
            }
        }
        if let virtual = eventLoop as? any VirtualNetworkLoop {
            self.channels = [try await virtual.listen(at: port ?? 0, initialize: initialize).get()]
            return
        }
        let bootstrap = ServerBootstrap(group: eventLoop)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer(initialize)
        var channels: [any Channel] = []
        if let socketPath { channels.append(try await bootstrap.bind(unixDomainSocketPath: socketPath).get()) }
        if let port { channels.append(try await bootstrap.bind(host: "127.0.0.1", port: port).get()) }
        self.channels = channels
    }

    /// Stops listening.
    func close() async {
        for channel in self.channels { try? await channel.close().get() }
    }
}

/// The server with the channels of its clients and a timer for reads that wait.
private final class ServerOnLoop {
    let server: ModelServer
    private let eventLoop: any EventLoop
    private var channels: [ModelServer.ClientID: any Channel] = [:]
    private var timer: (fires: NIODeadline, task: Scheduled<Void>)?

    init(_ server: ModelServer, _ eventLoop: any EventLoop) {
        self.server = server
        self.eventLoop = eventLoop
    }

    static func now() -> Int64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000
    }

    func connect(_ channel: any Channel) -> ModelServer.ClientID {
        let client = self.server.connect()
        self.channels[client] = channel
        return client
    }

    func disconnect(_ client: ModelServer.ClientID) {
        self.server.disconnect(client)
        self.channels[client] = nil
    }

    func receive(_ bytes: some Sequence<UInt8>, from client: ModelServer.ClientID) {
        self.write(self.server.receive(bytes, from: client, now: Self.now()))
    }

    private func write(_ outputs: [ModelServer.Output]) {
        for output in outputs {
            guard let channel = self.channels[output.client] else { continue }
            let written = channel.writeAndFlush(ByteBuffer(bytes: output.bytes))
            if output.closes { written.whenComplete { _ in channel.close(promise: nil) } }
        }
        guard let deadline = self.server.nextDeadline else { return }
        let fires = self.eventLoop.now + .microseconds(max(0, deadline - Self.now()))
        // One that fires sooner sets the next: most deadlines move with every command.
        if let timer = self.timer, timer.fires <= fires { return }
        self.timer?.task.cancel()
        let server = NIOLoopBound(self, eventLoop: self.eventLoop)
        let task = self.eventLoop.scheduleTask(deadline: fires) {
            server.value.timer = nil
            server.value.write(server.value.server.advance(to: Self.now()))
        }
        self.timer = (fires, task)
    }
}

private final class ModelConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let server: ServerOnLoop
    private var client: ModelServer.ClientID?

    init(_ server: ServerOnLoop) { self.server = server }

    func channelActive(context: ChannelHandlerContext) { self.client = self.server.connect(context.channel) }

    func channelInactive(context: ChannelHandlerContext) {
        if let client = self.client { self.server.disconnect(client) }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard let client = self.client else { return }
        self.server.receive(self.unwrapInboundIn(data).readableBytesView, from: client)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
