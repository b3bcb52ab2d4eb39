package import ApusCore
internal import ApusHTTP2
package import ApusTLS
package import Logging
package import NIOCore

/// Asks a token endpoint over a connection of its own, made for one question: tokens live for an hour.
///
/// Source: https://developers.google.com/identity/protocols/oauth2/service-account
package final class AccessTokenClient: AccessTokenSource {
    private let address: HTTPSAddress
    private let eventLoop: any EventLoop
    private let tls: TLSContext
    private let timeout: TimeAmount
    private let logger: Logger

    /// - Parameters:
    ///   - address: the token endpoint.
    ///   - tls: must offer `h2`.
    ///   - timeout: for connecting, and again for the answer.
    package init(
        address: HTTPSAddress,
        eventLoop: any EventLoop,
        tls: TLSContext,
        timeout: TimeAmount = .seconds(10),
        logger: Logger,
    ) {
        self.address = address
        self.eventLoop = eventLoop
        self.tls = tls
        self.timeout = timeout
        self.logger = logger
    }

    package func request(_ body: [UInt8], now: UnixMilliseconds) async -> OAuthAnswer? {
        let promise = self.eventLoop.makePromise(of: OAuthAnswer?.self)
        self.eventLoop.execute { self.ask(body, now: now, promise) }
        return (try? await promise.futureResult.get()) ?? nil
    }

    private func ask(_ body: [UInt8], now: UnixMilliseconds, _ promise: EventLoopPromise<OAuthAnswer?>) {
        let exchange = TokenExchange(promise, now: now)
        do {
            let question = try PlainRequest(
                method: "POST",
                authority: self.address.authority,
                path: self.address.path,
                headers: [try HeaderField("content-type", "application/x-www-form-urlencoded")],
                body: body,
            )
            let handler = try HTTP2ClientHandler(delegate: exchange)
            HTTP2Connector.connect(
                host: self.address.host,
                port: self.address.port,
                tls: self.tls,
                handler: handler,
                timeout: self.timeout,
                on: self.eventLoop,
            ).assumeIsolated().whenComplete { result in
                switch result {
                case .success:
                    let sent = handler.submitPlain(question, tag: 0, deadline: .now() + self.timeout)
                    if sent != .submitted { handler.close() }
                case .failure(let error): self.failed(error, promise)
                }
            }
        } catch {
            self.failed(error, promise)
        }
    }

    private func failed(_ error: any Error, _ promise: EventLoopPromise<OAuthAnswer?>) {
        self.logger.warning(
            "no connection to the token endpoint",
            metadata: ["host": "\(self.address.host)", "error": "\(error)"],
        )
        promise.succeed(nil)
    }
}

/// One question and its answer.
private final class TokenExchange: HTTP2ClientDelegate {
    private let promise: EventLoopPromise<OAuthAnswer?>
    private let now: UnixMilliseconds
    private var answer: OAuthAnswer?

    init(_ promise: EventLoopPromise<OAuthAnswer?>, now: UnixMilliseconds) {
        self.promise = promise
        self.now = now
    }

    func http2(_ handler: HTTP2ClientHandler, received event: HTTP2ClientEvent) {
        switch event {
        case .answered(let answer):
            self.answer = OAuthAnswer(
                status: answer.status,
                body: handler.body(of: answer),
                retryAfterMilliseconds: handler.value(of: .retryAfter, in: answer)
                    .flatMap { RetryAfter.milliseconds($0, now: self.now) },
            )
            handler.startDraining()
        case .refused, .reset, .timedOut: handler.close()
        case .goAway, .settingsChanged, .pingAcknowledged: break
        case .closed: self.promise.succeed(self.answer)
        }
    }

    func http2CapacityAvailable(_ handler: HTTP2ClientHandler) {}
}
