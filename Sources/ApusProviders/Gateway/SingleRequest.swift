package import ApusCore
package import NIOCore

/// Sends one request over a gateway of its own: for rare requests that go the way of notifications.
package final class SingleRequest: ProviderGatewayDelegate {
    /// The outcome of the request, and the provider's reason.
    package struct Answer: Hashable, Sendable {
        /// The outcome.
        package let outcome: DeliveryOutcome
        /// The provider's reason, or what happened instead of an answer.
        package let reason: String
        /// The HTTP status; 0 when there was no answer.
        package let status: Int
    }

    private let gateway: ProviderGateway
    private let message: PreparedMessage
    private let token: [UInt8]
    private let promise: EventLoopPromise<Answer>
    private var isAnswered = false
    private var isUnderWay = false

    private init(
        _ gateway: ProviderGateway,
        _ message: PreparedMessage,
        token: [UInt8],
        _ promise: EventLoopPromise<Answer>,
    ) {
        self.gateway = gateway
        self.message = message
        self.token = token
        self.promise = promise
    }

    /// Starts the gateway, sends the request, and drains the gateway. Call it on the gateway's event loop.
    ///
    /// - Parameters:
    ///   - token: the token in the form of the message's template: raw bytes or text.
    ///   - timeout: the time limit of the answer; a request in flight is drained after it.
    package static func send(
        _ message: PreparedMessage,
        token: [UInt8],
        over gateway: ProviderGateway,
        timeout: TimeAmount = .seconds(15),
    ) -> EventLoopFuture<Answer> {
        let eventLoop = gateway.eventLoop
        let request = SingleRequest(gateway, message, token: token, eventLoop.makePromise(of: Answer.self))
        gateway.delegate = request
        gateway.start()
        request.submit()
        let timer = eventLoop.assumeIsolated().scheduleTask(in: timeout) {
            let seconds = timeout.nanoseconds / 1_000_000_000
            request.end(.lost(.timeout), "no answer within \(seconds) seconds")
        }
        request.promise.futureResult.assumeIsolated().whenComplete { _ in
            timer.cancel()
            // The gateway does not hold its delegate: the request lives until the gateway is drained.
            gateway.drain().assumeIsolated().whenComplete { _ in withExtendedLifetime(request) {} }
        }
        return request.promise.futureResult
    }

    private func submit() {
        guard !self.isAnswered, !self.isUnderWay, self.gateway.hasRoom(.express) else { return }
        let token = self.token
        self.isUnderWay = self.gateway.submit(self.message, token: token.span, id: nil, tag: 0, lane: .express)
    }

    private func end(_ outcome: DeliveryOutcome, _ reason: String, status: Int = 0) {
        guard !self.isAnswered else { return }
        self.isAnswered = true
        self.promise.succeed(Answer(outcome: outcome, reason: reason, status: status))
    }

    package func gatewayHasRoom(_ gateway: ProviderGateway) { self.submit() }

    package func gateway(_ gateway: ProviderGateway, heldFor word: String) {
        // A request in flight gets an answer of its own.
        if !self.isUnderWay { self.end(.misconfigured(.credential), word) }
    }

    package func gateway(_ gateway: ProviderGateway, cannotSend detail: String) {
        if !self.isUnderWay { self.end(.lost(.connection), detail) }
    }

    package func gateway(
        _ gateway: ProviderGateway,
        answered tag: UInt64,
        _ outcome: DeliveryOutcome,
        _ answer: ProviderAnswer,
    ) {
        self.isUnderWay = false
        if case .deferred(let deferral) = outcome, deferral.isFree { return self.submit() }
        self.end(outcome, answer.reason(), status: answer.status)
    }
}
