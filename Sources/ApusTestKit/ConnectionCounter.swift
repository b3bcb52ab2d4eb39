internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// Stands at the port of a server that is away: counts the connections that are made to it, and closes each at once.
package final class ConnectionCounter: Sendable {
    private let channel: any Channel
    private let counted: Counted

    private final class Counted: Sendable {
        let value = Atomic(0)
    }

    /// Counts its connection, and ends it.
    private final class Closer: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let counted: Counted

        init(_ counted: Counted) { self.counted = counted }

        func channelActive(context: ChannelHandlerContext) {
            self.counted.value.add(1, ordering: .relaxed)
            context.close(promise: nil)
        }
    }

    private init(_ channel: any Channel, _ counted: Counted) {
        self.channel = channel
        self.counted = counted
    }

    /// Listens on a port of the loopback.
    package static func start(port: Int) async throws -> ConnectionCounter {
        let counted = Counted()
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Closer(counted))
                }
            }
            .bind(host: "127.0.0.1", port: port)
            .get()
        return ConnectionCounter(channel, counted)
    }

    /// The number of connections so far.
    package var count: Int { self.counted.value.load(ordering: .relaxed) }

    /// Stops listening.
    package func stop() async { try? await self.channel.close().get() }
}
