import NIOCore
import NIOPosix
import Synchronization

/// A connection that writes bytes as they are, and keeps what is answered.
final class RawConnection: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer

    private let state = Mutex((answer: "", isClosed: false))
    var answer: String { self.state.withLock { $0.answer } }
    var isClosed: Bool { self.state.withLock { $0.isClosed } }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let text = String(buffer: self.unwrapInboundIn(data))
        self.state.withLock { $0.answer += text }
    }

    func channelInactive(context: ChannelHandlerContext) { self.state.withLock { $0.isClosed = true } }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func connect(port: Int) async throws -> any Channel {
        try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { $0.pipeline.addHandler(self) }
            .connect(host: "127.0.0.1", port: port).get()
    }
}
