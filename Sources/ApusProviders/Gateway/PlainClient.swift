package import ApusCore
package import ApusHTTP2
package import ApusTLS
package import NIOCore

/// Represents a connection for rare requests: token endpoints, channels, topic subscriptions. Requests share it, as
/// many at a time as the peer allows; the others wait.
///
/// Nothing is sent twice: a request that was not answered, for whatever reason, has no answer.
package final class PlainClient: Sendable {
    /// The maximum bytes of an answer that are kept: the longest is a list of all channels.
    package static let answerBodyBytesMax = 1_024 * 1_024

    private let eventLoop: any EventLoop
    private let exchange: NIOLoopBound<PlainExchange>

    private init(_ exchange: NIOLoopBound<PlainExchange>, on eventLoop: any EventLoop) {
        self.exchange = exchange
        self.eventLoop = eventLoop
    }

    /// Connects and performs the handshake.
    ///
    /// - Parameters:
    ///   - other: the address to connect to instead; nil for the given one.
    ///   - tls: the TLS configuration, which must offer `h2`.
    ///   - timeout: the time limit for connecting, and again for each answer, from the sending of its request.
    package static func connect(
        to address: WebAddress,
        over other: WebAddress? = nil,
        tls: TLSContext,
        timeout: TimeAmount = .seconds(10),
        on eventLoop: any EventLoop,
    ) async throws -> PlainClient {
        let exchange = try await eventLoop.flatSubmit { () -> EventLoopFuture<NIOLoopBound<PlainExchange>> in
            do {
                let exchange = PlainExchange(timeout: timeout)
                // The first frame of the server says how many streams it allows a new client.
                let handler = try HTTP2ClientHandler(
                    configuration: HTTP2ClientConfiguration(
                        streamsMax: 100,
                        streamsMaxBeforeSettings: 1,
                        answerBodyBytesMax: Self.answerBodyBytesMax,
                    ),
                    delegate: exchange,
                )
                exchange.handler = handler
                let bound = NIOLoopBound(exchange, eventLoop: eventLoop)
                let connected = HTTP2Connector.connect(
                    host: address.host,
                    port: address.port,
                    over: other,
                    tls: tls,
                    handler: handler,
                    timeout: timeout,
                    on: eventLoop,
                )
                // They hold each other until the connection ends, which never happens to one that was not made.
                connected.assumeIsolated().whenFailure { _ in exchange.handler = nil }
                return connected.map { _ in bound }
            } catch {
                return eventLoop.makeFailedFuture(error)
            }
        }.get()
        return PlainClient(exchange, on: eventLoop)
    }

    /// Sends a request; returns nil when it was not answered in time, or the connection ended first.
    package func send(_ request: PlainRequest) async -> PlainAnswer? {
        let (exchange, eventLoop) = (self.exchange, self.eventLoop)
        let answer = eventLoop.flatSubmit { exchange.value.send(request, on: eventLoop) }
        return (try? await answer.get()) ?? nil
    }

    /// True while requests can be sent: the connection has neither ended nor announced its end.
    package var isOpen: Bool {
        get async {
            let exchange = self.exchange
            return (try? await self.eventLoop.submit { exchange.value.isOpen }.get()) ?? false
        }
    }

    /// Closes the connection; waiting requests have no answer.
    package func close() {
        let exchange = self.exchange
        self.eventLoop.execute { exchange.value.close() }
    }

    /// Runs `body` with a connection, and closes it afterwards.
    package static func with<Result>(
        _ address: WebAddress,
        tls: TLSContext,
        timeout: TimeAmount = .seconds(10),
        on eventLoop: any EventLoop,
        _ body: (PlainClient) async throws -> Result,
    ) async throws -> Result {
        let client = try await Self.connect(to: address, tls: tls, timeout: timeout, on: eventLoop)
        defer { client.close() }
        return try await body(client)
    }
}

/// Holds the requests of one connection, on its event loop.
private final class PlainExchange: HTTP2ClientDelegate {
    var handler: HTTP2ClientHandler?
    private let timeout: TimeAmount
    private var waiting: [(number: UInt64, request: PlainRequest, promise: EventLoopPromise<PlainAnswer?>)] = []
    private var lastNumber: UInt64 = 0
    private var inFlight: [UInt64: EventLoopPromise<PlainAnswer?>] = [:]
    private var lastTag: UInt64 = 0
    private var isEnding = false

    var isOpen: Bool { self.handler != nil && !self.isEnding }

    init(timeout: TimeAmount) { self.timeout = timeout }

    func send(_ request: PlainRequest, on eventLoop: any EventLoop) -> EventLoopFuture<PlainAnswer?> {
        let promise = eventLoop.makePromise(of: PlainAnswer?.self)
        self.lastNumber += 1
        let number = self.lastNumber
        self.waiting.append((number, request, promise))
        self.submit()
        if self.waiting.last?.number == number {
            // The server may allow no request for as long as it likes.
            eventLoop.assumeIsolated().scheduleTask(in: self.timeout) { self.giveUp(number) }
        }
        return promise.futureResult
    }

    /// Answers a request that still waits for a stream.
    private func giveUp(_ number: UInt64) {
        guard let index = self.waiting.firstIndex(where: { $0.number == number }) else { return }
        self.waiting.remove(at: index).promise.succeed(nil)
    }

    func close() { self.handler?.close() }

    private func submit() {
        while let next = self.waiting.first {
            guard let handler = self.handler else { return self.end() }
            let deadline = NIODeadline.now() + self.timeout
            switch handler.submitPlain(next.request, tag: self.lastTag + 1, deadline: deadline) {
            case .submitted:
                self.lastTag += 1
                self.inFlight[self.lastTag] = next.promise
                self.waiting.removeFirst()
            case .full: return
            case .closed, .invalidToken: return self.end()
            }
        }
    }

    private func end() {
        let waiting = self.waiting
        self.waiting = []
        for request in waiting { request.promise.succeed(nil) }
    }

    func http2(_ handler: HTTP2ClientHandler, received event: HTTP2ClientEvent) {
        switch event {
        case .answered(let answer):
            self.inFlight.removeValue(forKey: answer.tag)?.succeed(PlainAnswer(answer, of: handler))
        case .refused(let tag), .unsent(let tag, _), .reset(let tag, _), .timedOut(let tag):
            self.inFlight.removeValue(forKey: tag)?.succeed(nil)
        case .goAway: self.isEnding = true
        case .settingsChanged, .pingAcknowledged: break
        case .closed:
            self.handler = nil
            for promise in self.inFlight.values { promise.succeed(nil) }
            self.inFlight = [:]
            self.end()
        }
        self.submit()
    }

    func http2CapacityAvailable(_ handler: HTTP2ClientHandler) { self.submit() }
}
