package import ApusCore
internal import ApusHTTP2
internal import ApusProviders
package import ApusTLS
package import Logging
package import NIOCore

/// Requests access tokens over a connection that is made for each request: tokens live for an hour.
///
/// Source: https://developers.google.com/identity/protocols/oauth2/service-account
package final class AccessTokenClient: AccessTokenSource {
    private let address: WebAddress
    private let eventLoop: any EventLoop
    private let tls: TLSContext
    private let timeout: TimeAmount
    private let logger: Logger

    /// - Parameters:
    ///   - address: the token endpoint.
    ///   - tls: the TLS configuration, which must offer `h2`.
    ///   - timeout: the time limit for connecting, and again for the answer.
    package init(
        address: WebAddress,
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

    package func request(_ body: [UInt8], now: UnixMilliseconds) async -> OAuthAnswer {
        do {
            let question = try PlainRequest(
                method: "POST",
                authority: self.address.authority,
                path: self.address.path,
                headers: [try HeaderField("content-type", "application/x-www-form-urlencoded")],
                body: body,
            )
            let answer = try await PlainClient.with(
                self.address,
                tls: self.tls,
                timeout: self.timeout,
                on: self.eventLoop,
            ) { await $0.send(question) }
            guard let answer else {
                let seconds = self.timeout.nanoseconds / 1_000_000_000
                let detail = "\(self.address.authority) does not answer within \(seconds) seconds"
                return .unavailable(retryAfterMilliseconds: nil, detail: detail)
            }
            return OAuthAnswer(
                status: answer.status,
                body: answer.body,
                retryAfterMilliseconds: answer.headers[.retryAfter].flatMap { RetryAfter.milliseconds($0, now: now) },
            )
        } catch {
            let detail = ConnectFailure.words(of: error, to: self.address)
            return .unavailable(retryAfterMilliseconds: nil, detail: detail)
        }
    }
}
