internal import ApusCore
internal import ApusHTTP2
internal import NIOCore

/// Represents one connection of a gateway and its requests in flight.
final class ProviderConnection: HTTP2ClientDelegate {
    /// The connection's index in the pool.
    let place: ConnectionPool.Place
    /// The gateway. Both references are released when the connection has ended.
    private let gateway: ProviderGateway
    private(set) var handler: HTTP2ClientHandler?
    private var slots: RequestSlots
    /// The reason why the peer's GOAWAY or its alert refuses us; the requests that it did not process are refused with it.
    var verdict: String?
    /// True when a request has ended with an unknown outcome because the connection or its stream ended.
    private(set) var hasLostRequest = false
    /// True after a credential was called stale on a connection that remembers credentials: its later answers say
    /// nothing about the credential of their request.
    var hasStaleCredential = false
    /// True when anything has arrived since the gateway's last check.
    var hasReceived = true
    /// The time of the gateway's last check that found received bytes.
    var receivedAt: UInt64 = 0
    /// The time at which the connection was opened.
    private(set) var openedAt: UInt64 = 0
    /// The number of the credential that was in use at that time.
    private(set) var openedWith: UInt32 = 0

    init(place: ConnectionPool.Place, gateway: ProviderGateway) {
        self.place = place
        self.gateway = gateway
        // There is one slot more than streams: an answer's slot is in use until its event has been reported.
        self.slots = RequestSlots(capacity: gateway.configuration.streamsMax + 1)
    }

    /// Takes over the handler of the opened connection.
    func attach(_ handler: HTTP2ClientHandler, credential: UInt32, now: UInt64) {
        self.handler = handler
        self.receivedAt = now
        self.openedAt = now
        self.openedWith = credential
    }

    /// Submits a request to the connection.
    @inline(__always)
    func submit(
        _ template: RequestTemplate,
        authorization: HeaderValue?,
        credential: UInt32,
        token: Span<UInt8>,
        badge: UInt32,
        id: RequestID?,
        tag: UInt64,
        now: UInt64,
        deadline: NIODeadline,
        validUntil: UInt64,
    ) -> HTTP2Submission {
        guard let handler, let slot = self.slots.take(tag: tag, startedAt: now, credential: credential) else {
            return .full
        }
        let result = handler.submit(
            template,
            authorization: authorization,
            token: token,
            number: badge,
            id: id,
            tag: slot,
            deadline: deadline,
            validUntil: validUntil,
        )
        if result != .submitted { _ = self.slots.release(slot) }
        return result
    }

    /// Submits a request that differs in all its parts to the connection.
    func submit(
        _ request: PlainRequest,
        credential: UInt32,
        recipient: UInt32,
        tag: UInt64,
        now: UInt64,
        deadline: NIODeadline,
        validUntil: UInt64,
    ) -> HTTP2Submission {
        guard let handler,
            let slot = self.slots.take(tag: tag, startedAt: now, credential: credential, recipient: recipient)
        else { return .full }
        let result = handler.submitPlain(request, tag: slot, deadline: deadline, validUntil: validUntil)
        if result != .submitted { _ = self.slots.release(slot) }
        return result
    }

    func http2(_ handler: HTTP2ClientHandler, received event: HTTP2ClientEvent) {
        self.hasReceived = true
        switch event {
        case .answered(let answer):
            self.gateway.answered(self.slots.release(answer.tag), answer, handler, self)
        case .refused(let slot):
            self.gateway.judge(self, by: handler.failure)
            self.gateway.turnedAway(self.slots.release(slot), self)
        case .unsent(let slot, let isOverdue):
            self.gateway.unsent(self.slots.release(slot), isOverdue: isOverdue, self)
        case .reset(let slot, _):
            let request = self.slots.release(slot)
            // A peer that refuses our certificate has processed nothing.
            if self.gateway.judge(self, by: handler.failure) { return self.gateway.turnedAway(request, self) }
            self.hasLostRequest = true
            self.gateway.lost(request, .connection, self)
        case .timedOut(let slot):
            self.hasReceived = false
            self.gateway.lost(self.slots.release(slot), .timeout, self)
        case .goAway(let code, _, let debug): self.gateway.goAwayReceived(code, debug, self)
        case .settingsChanged:
            self.gateway.streamsChanged(
                self,
                max: handler.streamsMax,
                forbiddenSince: handler.streamsForbiddenSince?.uptimeNanoseconds
            )
        case .pingAcknowledged(let nanoseconds): self.gateway.pingAnswered(within: nanoseconds)
        case .closed(let reason):
            precondition(self.slots.count == 0, "a connection closed with requests in flight")
            // The connection may end before the gateway knows that it was opened; then the attempt has failed.
            guard self.handler != nil else { return }
            self.handler = nil
            self.gateway.counts.add(handler)
            self.gateway.closed(self, reason, handler.failure)
        }
    }

    func http2CapacityAvailable(_ handler: HTTP2ClientHandler) { self.gateway.unblocked(self) }
}
