internal import ApusCore
internal import ApusHTTP2
internal import NIOCore

/// One connection of a gateway: its requests, and what it hears.
final class ProviderConnection: HTTP2ClientDelegate {
    /// Its place in the pool.
    let place: ConnectionPool.Place
    /// Let go of by the gateway, and the other way round, when the connection has ended.
    private let gateway: ProviderGateway
    private(set) var handler: HTTP2ClientHandler?
    private var slots: RequestSlots
    /// What the peer's GOAWAY says is wrong with us, in its word; what it refused is told so.
    var verdict: String?
    /// Whether a credential was called stale here, where connections keep that in mind: what is answered after that says nothing of the
    /// credential it was sent.
    var isWedged = false
    /// Whether anything arrived since the gateway last looked.
    var hasReceived = true
    /// When the gateway found last that something had arrived.
    var receivedAt: UInt64 = 0
    /// When it was made.
    private(set) var openedAt: UInt64 = 0
    /// Which credential was in use then.
    private(set) var openedWith: UInt32 = 0

    init(place: ConnectionPool.Place, gateway: ProviderGateway) {
        self.place = place
        self.gateway = gateway
        // One more than streams: an answer's slot is taken until its event has been reported.
        self.slots = RequestSlots(capacity: gateway.configuration.streamsMax + 1)
    }

    /// The connection is made.
    func attach(_ handler: HTTP2ClientHandler, credential: UInt32, now: UInt64) {
        self.handler = handler
        self.receivedAt = now
        self.openedAt = now
        self.openedWith = credential
    }

    /// Hands a request to the connection.
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
        )
        if result != .submitted { _ = self.slots.release(slot) }
        return result
    }

    func http2(_ handler: HTTP2ClientHandler, received event: HTTP2ClientEvent) {
        self.hasReceived = true
        switch event {
        case .answered(let answer):
            self.gateway.answered(self.slots.release(answer.tag), answer, handler, self)
        case .refused(let slot): self.gateway.turnedAway(self.slots.release(slot), self)
        case .reset(let slot, _): self.gateway.lost(self.slots.release(slot), .connection, self)
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
            precondition(self.slots.count == 0, "every request has had its end")
            // It may end before the gateway knows that it began; then the attempt has failed.
            guard self.handler != nil else { return }
            self.handler = nil
            self.gateway.counts.add(handler)
            self.gateway.closed(self, reason)
        }
    }

    func http2CapacityAvailable(_ handler: HTTP2ClientHandler) { self.gateway.unblocked(self) }
}
