import ApusHTTP2
import NIOCore
import NIOPosix

/// Collects a connection's events, sends again what was refused, and submits the rest when there is room. Lives on one loop.
final class Sender: HTTP2ClientDelegate {
    let total: UInt64
    private(set) var answered: [UInt64: Int] = [:]
    private(set) var bodies: [UInt64: [UInt8]] = [:]
    private(set) var others: [ClientEvent] = []
    private(set) var closed: HTTP2CloseReason?
    private(set) var inFlightMax = 0
    private(set) var fullCount = 0
    private(set) var refusedCount = 0
    private var next: UInt64 = 0
    private var again: [UInt64] = []
    private let template: RequestTemplate
    private let isResending: Bool
    private let finished: EventLoopPromise<Void>
    private let ended: EventLoopPromise<HTTP2CloseReason>

    init(
        total: UInt64,
        template: RequestTemplate,
        isResending: Bool,
        finished: EventLoopPromise<Void>,
        ended: EventLoopPromise<HTTP2CloseReason>,
    ) {
        self.total = total
        self.template = template
        self.isResending = isResending
        self.finished = finished
        self.ended = ended
    }

    func fill(_ handler: HTTP2ClientHandler) {
        let token = Samples.token
        while let tag = self.again.last ?? (self.next < self.total ? self.next : nil) {
            let result = handler.submit(
                self.template,
                authorization: Samples.authorization,
                token: token.span,
                id: RequestID(high: 0, low: tag),
                tag: tag,
                deadline: .now() + .seconds(60),
            )
            self.inFlightMax = max(self.inFlightMax, handler.inFlight)
            guard result == .submitted else {
                self.fullCount += 1
                return
            }
            if self.again.popLast() == nil { self.next += 1 }
        }
    }

    func http2(_ handler: HTTP2ClientHandler, received event: HTTP2ClientEvent) {
        switch event {
        case .answered(let answer):
            self.answered[answer.tag] = answer.status
            self.bodies[answer.tag] = handler.body(of: answer)
            if self.answered.count == self.total { self.finished.succeed(()) }
        case .refused(let tag) where self.isResending && handler.isOpen:
            self.refusedCount += 1
            self.again.append(tag)
            self.fill(handler)
        case .closed(let reason):
            self.closed = reason
            self.ended.succeed(reason)
            self.finished.fail(Ended(reason: reason))
        default:
            self.others.append(ClientEvent(event))
        }
    }

    func http2CapacityAvailable(_ handler: HTTP2ClientHandler) { self.fill(handler) }
}

/// A connection that ended before all was answered.
struct Ended: Error {
    let reason: HTTP2CloseReason
}

/// A server that does what a closure says. Lives on one loop.
final class Answerer: HTTP2ServerDelegate {
    private let answer: (HTTP2ServerHandler, HTTP2Request) -> Void

    init(_ answer: @escaping (HTTP2ServerHandler, HTTP2Request) -> Void) { self.answer = answer }

    func http2(_ handler: HTTP2ServerHandler, received event: HTTP2ServerEvent) {
        if case .requested(let request) = event { self.answer(handler, request) }
    }
}

/// A sender on its own connection to some port of this machine.
struct Connection {
    let channel: any Channel
    let sender: NIOLoopBound<Sender>
    let handler: NIOLoopBound<HTTP2ClientHandler>
    let finished: EventLoopFuture<Void>
    let ended: EventLoopFuture<HTTP2CloseReason>

    static func open(
        port: Int,
        total: UInt64,
        template: RequestTemplate = Samples.template,
        isResending: Bool = true,
        configuration: HTTP2ClientConfiguration = HTTP2ClientConfiguration(),
    ) async throws -> Connection {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let finished = loop.makePromise(of: Void.self)
        let ended = loop.makePromise(of: HTTP2CloseReason.self)
        let (sender, handler) = try await loop.submit {
            let sender = Sender(
                total: total,
                template: template,
                isResending: isResending,
                finished: finished,
                ended: ended
            )
            let handler = try HTTP2ClientHandler(configuration: configuration, delegate: sender)
            return (NIOLoopBound(sender, eventLoop: loop), NIOLoopBound(handler, eventLoop: loop))
        }.get()
        let channel = try await ClientBootstrap(group: loop)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(handler.value) }
            }
            .connect(host: "127.0.0.1", port: port)
            .get()
        let connection = Connection(
            channel: channel,
            sender: sender,
            handler: handler,
            finished: finished.futureResult,
            ended: ended.futureResult,
        )
        try await connection.run { handler, sender in sender.fill(handler) }
        return connection
    }

    /// Runs on the connection's loop.
    func run<Result: Sendable>(
        _ body: @escaping @Sendable (HTTP2ClientHandler, Sender) throws -> Result
    ) async throws -> Result {
        let handler = self.handler
        let sender = self.sender
        return try await self.channel.eventLoop.submit { try body(handler.value, sender.value) }.get()
    }
}

/// The server's reaction to a request.
typealias Answer = @Sendable (HTTP2ServerHandler, HTTP2Request) -> Void

/// A plaintext server on a free port.
func withServer(
    configuration: HTTP2ServerConfiguration = HTTP2ServerConfiguration(),
    answer: @escaping Answer,
    _ body: (Int) async throws -> Void,
) async throws {
    let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .childChannelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(
                    HTTP2ServerHandler(configuration: configuration, delegate: Answerer(answer))
                )
            }
        }
        .bind(host: "127.0.0.1", port: 0)
        .get()
    do {
        try await body(server.localAddress?.port ?? 0)
    } catch {
        try await server.close()
        throw error
    }
    try await server.close()
}
