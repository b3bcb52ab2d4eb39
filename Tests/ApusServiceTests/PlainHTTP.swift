import Foundation
import NIOCore
import NIOPosix

/// The smallest HTTP client: one request, one connection, the bytes of the answer.
enum PlainHTTP {
    struct Answer {
        let status: Int
        let head: String
        let body: String
    }

    private final class Collector: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private var received = ByteBuffer()
        private let done: EventLoopPromise<String>

        init(_ done: EventLoopPromise<String>) { self.done = done }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            var buffer = self.unwrapInboundIn(data)
            self.received.writeBuffer(&buffer)
        }

        func channelInactive(context: ChannelHandlerContext) { self.done.succeed(String(buffer: self.received)) }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            self.done.fail(error)
            context.close(promise: nil)
        }
    }

    static func ask(
        _ method: String = "GET",
        port: Int,
        _ target: String,
        _ headers: [String] = []
    ) async throws -> Answer {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let promise = loop.makePromise(of: String.self)
        let channel: any Channel
        do {
            channel = try await ClientBootstrap(group: loop)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(Collector(promise))
                    }
                }
                .connect(host: "127.0.0.1", port: port).get()
        } catch {
            promise.fail(error)
            throw error
        }
        let lines = ["\(method) \(target) HTTP/1.1", "Host: localhost", "Connection: close"] + headers
        let request = lines.joined(separator: "\r\n") + "\r\n\r\n"
        try await channel.writeAndFlush(ByteBuffer(string: request))
        let text = try await promise.futureResult.get()
        let head = text.prefix(upTo: text.range(of: "\r\n\r\n")?.upperBound ?? text.startIndex)
        let status = Int(text.split(separator: " ", maxSplits: 2).dropFirst().first ?? "") ?? 0
        return Answer(status: status, head: String(head), body: String(text.dropFirst(head.count)))
    }
}
