internal import ApusCore
internal import ApusTLS
internal import NIOCore
internal import NIOHTTP1
internal import NIOWebSocket
internal import Synchronization

/// Connects real Firefox browsers with a ``FirefoxPushService``.
final class FirefoxConnections: Sendable {
    private struct State {
        var service = FirefoxPushService()
        var channels: [Int: any Channel] = [:]
        var connectionCount = 0
    }

    /// The path of the WebSocket at the control listener, for the browser's preference `dom.push.serverURL`.
    static let path = "/push"

    private let state = Mutex(State())

    /// Returns the upgrader of an HTTP connection to a browser's WebSocket.
    func upgrader() -> NIOWebSocketServerUpgrader {
        NIOWebSocketServerUpgrader(
            maxFrameSize: SimulatorLimits.firefoxTextBytesMax,
            shouldUpgrade: { channel, head in
                let isWanted = head.uri == Self.path
                let protocols = head.headers[canonicalForm: "sec-websocket-protocol"]
                var headers = HTTPHeaders()
                if let name = protocols.first { headers.add(name: "sec-websocket-protocol", value: String(name)) }
                return channel.eventLoop.makeSucceededFuture(isWanted ? headers : nil)
            },
            upgradePipelineHandler: { channel, _ in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers(
                        NIOWebSocketFrameAggregator(
                            minNonFinalFragmentSize: 0,
                            maxAccumulatedFrameCount: 16,
                            maxAccumulatedFrameSize: SimulatorLimits.firefoxTextBytesMax,
                        ),
                        FirefoxHandler(self),
                    )
                }
            },
        )
    }

    // MARK: Browsers

    fileprivate func opened(_ channel: any Channel) -> Int {
        self.state.withLock { state in
            state.connectionCount += 1
            state.channels[state.connectionCount] = channel
            return state.connectionCount
        }
    }

    fileprivate func closed(_ connection: Int) {
        self.state.withLock { state in
            state.channels[connection] = nil
            state.service.closed(connection)
        }
    }

    fileprivate func receive(_ text: String, on connection: Int) -> [String]? {
        self.state.withLock { state in
            state.service.receive(text, on: connection) { Hexadecimal.encode(SecureRandom.bytes(16)) }
        }
    }

    // MARK: Senders

    /// Returns the key of a real browser's subscription.
    func key(ofPath path: String) throws(WebPushRefusal) -> [UInt8]? {
        try self.state.withLock { state throws(WebPushRefusal) in try state.service.key(ofPath: path) }
    }

    /// Passes a valid message on to a real browser.
    func deliver(_ request: ProviderRequest, version: String) throws(WebPushRefusal) {
        let (text, channel) = try self.state.withLock { state throws(WebPushRefusal) in
            let outgoing = try state.service.deliver(
                request.body,
                toPath: request.path,
                version: version,
                isKept: request.first("ttl") != "0",
            )
            return (outgoing?.text, outgoing.flatMap { state.channels[$0.connection] })
        }
        guard let text, let channel else { return }
        channel.writeAndFlush(FirefoxHandler.frame(text, channel.allocator), promise: nil)
    }
}

/// Reads a browser's texts from its WebSocket and writes the answers.
private final class FirefoxHandler: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    private let connections: FirefoxConnections
    private var connection: Int?

    init(_ connections: FirefoxConnections) { self.connections = connections }

    static func frame(_ text: String, _ allocator: ByteBufferAllocator) -> WebSocketFrame {
        WebSocketFrame(fin: true, opcode: .text, data: allocator.buffer(string: text))
    }

    func handlerAdded(context: ChannelHandlerContext) { self.connection = self.connections.opened(context.channel) }

    func channelInactive(context: ChannelHandlerContext) {
        if let connection { self.connections.closed(connection) }
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = self.unwrapInboundIn(data)
        let content = frame.unmaskedData
        switch frame.opcode {
        case .text:
            guard let connection,
                let texts = self.connections.receive(String(buffer: content), on: connection)
            else { return context.close(promise: nil) }
            for text in texts {
                context.write(self.wrapOutboundOut(Self.frame(text, context.channel.allocator)), promise: nil)
            }
            context.flush()
        case .ping:
            let pong = WebSocketFrame(fin: true, opcode: .pong, data: content)
            context.writeAndFlush(self.wrapOutboundOut(pong), promise: nil)
        case .connectionClose: context.close(promise: nil)
        default: break
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
