internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// Stands at the port of a server that is away: counts the connections that are made to it, and closes each at once.
package final class ConnectionCounter: Sendable {
    private let channel: any Channel
    private let connections: Count

    private final class Count: Sendable {
        let value = Atomic(0)
    }

    /// Counts its connection, and ends it.
    private final class ClosingHandler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let connections: Count

        init(_ connections: Count) { self.connections = connections }

        func channelActive(context: ChannelHandlerContext) {
            self.connections.value.add(1, ordering: .relaxed)
            context.close(promise: nil)
        }
    }

    private init(_ channel: any Channel, _ connections: Count) {
        self.channel = channel
        self.connections = connections
    }

    /// Listens on a port of the loopback.
    package static func start(port: Int) async throws -> ConnectionCounter {
        let connections = Count()
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(ClosingHandler(connections))
                }
            }
            .bind(host: "127.0.0.1", port: port)
            .get()
        return ConnectionCounter(channel, connections)
    }

    /// The number of connections so far.
    package var count: Int { self.connections.value.load(ordering: .relaxed) }

    /// Stops listening.
    package func stop() async { try? await self.channel.close().get() }
}
