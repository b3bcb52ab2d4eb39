import ApusRedis
import NIOCore
import NIOPosix

/// A server that answers what a test says: for what a real Redis cannot be brought to answer.
///
/// The greeting (`CLIENT SETNAME`, `PING`) is answered as Redis does, unless `answersGreeting` is off.
struct ScriptedServer {
    let port: Int
    private let channel: any Channel

    var url: String { "redis://127.0.0.1:\(self.port)" }

    /// Starts it. `answer` gets each command's words and returns RESP; nil: no answer; "": close the connection.
    static func start(
        answersGreeting: Bool = true,
        _ answer: @escaping @Sendable ([String]) -> String?,
    ) async throws -> ScriptedServer {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let handler = ScriptHandler(answersGreeting: answersGreeting, answer: answer)
                    try channel.pipeline.syncOperations.addHandler(handler)
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return ScriptedServer(port: channel.localAddress?.port ?? 0, channel: channel)
    }

    func stop() async throws { try await self.channel.close() }
}

private final class ScriptHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let answersGreeting: Bool
    private let answer: @Sendable ([String]) -> String?
    private var parser = RESPParser()

    init(answersGreeting: Bool, answer: @escaping @Sendable ([String]) -> String?) {
        self.answersGreeting = answersGreeting
        self.answer = answer
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = self.unwrapInboundIn(data)
        try? self.parser.receive(bytes.readableBytesUInt8Span)
        while let command = self.parser.nextReply() {
            let words = command.root.children.map { $0.string ?? "" }
            let isGreeting = words.first == "CLIENT" || words.first == "PING"
            let text = isGreeting && self.answersGreeting ? "+OK\r\n" : self.answer(words)
            guard let text else { continue }
            guard !text.isEmpty else { return context.close(promise: nil) }
            context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
        }
    }
}
