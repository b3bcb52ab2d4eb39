internal import ApusHTTP2
internal import NIOCore

/// Detects HTTP/2 or HTTP/1.1 by a client's first bytes, and replaces itself by the handlers for it.
///
/// ALPN is not sufficient: providers accept HTTP/2 with prior knowledge too, and a listener without TLS has no ALPN.
/// (No method of HTTP/1.1 begins like the client's preface of HTTP/2.)
final class ProtocolDetector: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    /// Adds handlers at the end of a channel's pipeline, behind this one; the flag is true for HTTP/2.
    typealias Assemble = (any Channel, Bool) throws -> Void

    private let assemble: Assemble
    private var first = ByteBuffer()

    init(_ assemble: @escaping Assemble) { self.assemble = assemble }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = self.unwrapInboundIn(data)
        self.first.writeBuffer(&bytes)
        let preface = HTTP2Frame.clientPreface
        let seen = self.first.readableBytesView.prefix(preface.count)
        let isHTTP2 = seen.elementsEqual(preface.prefix(seen.count))
        // Both are still possible: more bytes must arrive.
        guard !isHTTP2 || seen.count == preface.count else { return }
        do {
            try self.assemble(context.channel, isHTTP2)
        } catch {
            return context.close(promise: nil)
        }
        context.fireChannelRead(self.wrapInboundOut(self.first))
        context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
    }
}
