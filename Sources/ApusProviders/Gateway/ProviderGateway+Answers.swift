internal import ApusCore
internal import ApusHTTP2
internal import Logging
internal import NIOCore

/// What a gateway does with what its connections hear.
extension ProviderGateway {
    /// A request was answered.
    @inline(__always)
    func answered(
        _ request: RequestSlots.Request,
        _ answer: HTTP2Answer,
        _ handler: HTTP2ClientHandler,
        _ connection: ProviderConnection,
    ) {
        self.pool.answered(connection.place, now: handler.readAt)
        guard answer.status == 200 else { return self.refused(request, answer, handler, connection) }
        self.pool.proved(connection.place)
        self.turnedAwayInARow = 0
        self.counts.accepted += 1
        let provider = self.configuration.provider
        self.tell(
            request.tag,
            .accepted,
            ProviderAnswer(answer, of: handler, from: provider, startedAt: request.startedAt, word: ""),
        )
        self.roomMayHaveChanged()
    }

    private func refused(
        _ request: RequestSlots.Request,
        _ answer: HTTP2Answer,
        _ handler: HTTP2ClientHandler,
        _ connection: ProviderConnection,
    ) {
        self.turnedAwayInARow = 0
        self.counts.refusals[answer.status, default: 0] += 1
        let (meaning, word) = self.meaning(of: answer, handler)
        var outcome = meaning
        switch meaning {
        case .misconfigured(let what): outcome = self.misconfigured(what, request, connection, word: word)
        case .deferred(let deferral):
            if deferral.needsNewConnection { self.retire(connection) }
        case .accepted, .unregistered, .suspect, .rejected, .lost: self.pool.proved(connection.place)
        }
        let provider = self.configuration.provider
        self.tell(
            request.tag,
            outcome,
            ProviderAnswer(answer, of: handler, from: provider, startedAt: request.startedAt, word: word),
        )
        if case .deferred(let deferral) = outcome, deferral.isFree { self.handedBack() }
        self.roomMayHaveChanged()
    }

    private func meaning(of answer: HTTP2Answer, _ handler: HTTP2ClientHandler) -> (DeliveryOutcome, String) {
        let body = handler.body(of: answer)
        let retryAfter = handler.value(of: .retryAfter, in: answer)
            .flatMap { RetryAfter.milliseconds($0, now: self.clock.now()) }
        switch self.configuration.provider {
        case .apns:
            let parsed = APNsAnswer(status: answer.status, body: body)
            return (parsed.outcome(retryAfterMilliseconds: retryAfter), parsed.word ?? "status \(answer.status)")
        case .fcm, .webpush:
            let parsed = FCMAnswer(status: answer.status, body: body)
            return (parsed.outcome(retryAfterMilliseconds: retryAfter), parsed.word ?? "status \(answer.status)")
        }
    }

    private func misconfigured(
        _ what: Misconfiguration,
        _ request: RequestSlots.Request,
        _ connection: ProviderConnection,
        word: String,
    ) -> DeliveryOutcome {
        switch what {
        case .staleCredential:
            // After ExpiredProviderToken a connection to APNs stays unusable: it calls newer tokens expired too. Apple's pages do not say so;
            // other clients close it as well (https://github.com/jchambers/pushy).
            let isAboutToken = !connection.isWedged
            if self.configuration.provider == .apns {
                connection.isWedged = true
                self.retire(connection)
            }
            guard !self.isHeld else { return .misconfigured(.credential) }
            // A certificate cannot be renewed by us.
            guard !self.isCertified else {
                self.hold(for: word)
                return .misconfigured(.credential)
            }
            if isAboutToken, request.credential == self.authorizationNumber { self.renew() }
            return .deferred(Deferral(.credentials, needsNewConnection: true, isFree: true))
        case .renewedTooOften:
            self.credential.renewedTooOften()
            // The connection takes no token until the twenty minutes have passed: the one that goes on needs another.
            // https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
            if self.configuration.provider == .apns { self.retire(connection) }
        case .wrongConnection: self.retire(connection)
        case .credential:
            self.hold(for: word)
            if self.configuration.provider == .apns { self.retire(connection) }
        // A connection knows the team's apps as they were when it was made.
        // https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
        case .route: self.retireIfOld(connection)
        case .forbidden, .unclear, .partnerCredential: break
        }
        return .misconfigured(what)
    }

    /// A request was certainly not processed.
    func turnedAway(_ request: RequestSlots.Request, _ connection: ProviderConnection) {
        self.pool.ended(connection.place, now: Self.now())
        self.counts.turnedAway += 1
        self.turnedAwayInARow += 1
        let outcome: DeliveryOutcome =
            if connection.verdict != nil {
                .misconfigured(.credential)
            } else {
                .deferred(Deferral(.connection, isFree: true))
            }
        let reason = connection.verdict ?? "refused stream"
        self.tell(request.tag, outcome, ProviderAnswer(startedAt: request.startedAt, reason: reason))
        if self.turnedAwayInARow >= Self.turnedAwayMax {
            self.turnedAwayInARow = 0
            self.retire(connection)
        }
        self.handedBack()
    }

    /// A request has ended and its outcome is unknown.
    func lost(_ request: RequestSlots.Request, _ loss: Loss, _ connection: ProviderConnection) {
        let now = Self.now()
        switch loss {
        case .timeout:
            self.counts.timedOut += 1
            if self.pool.timedOut(connection.place, now: now) {
                connection.handler?.close()
            } else {
                self.ping(connection)
            }
        case .connection:
            self.counts.lost += 1
            self.pool.ended(connection.place, now: now)
        }
        let reason = loss == .timeout ? "no answer in time" : "the connection ended"
        self.tell(request.tag, .lost(loss), ProviderAnswer(startedAt: request.startedAt, reason: reason))
        self.roomMayHaveChanged()
    }

    /// The provider takes no more requests on a connection.
    func goAwayReceived(_ code: HTTP2ErrorCode, _ debug: [UInt8], _ connection: ProviderConnection) {
        self.counts.goAways[GoAwayCode(code), default: 0] += 1
        switch APNsAnswer.goAway(debug: debug) {
        case .reconnect(let word):
            self.logger.info(
                "provider ends a connection",
                metadata: ["host": "\(self.configuration.host)", "code": "\(code)", "reason": "\(word ?? "-")"],
            )
        // Of a token that was replaced since, nothing is to be done but to connect anew.
        case .misconfigured(.staleCredential, _) where !self.isCertified && !self.isHeld:
            if connection.openedWith == self.authorizationNumber { self.renew() }
        case .misconfigured(.renewedTooOften, _): self.credential.renewedTooOften()
        case .misconfigured(_, let word):
            connection.verdict = word
            self.hold(for: word)
        }
        self.pool.retired(connection.place, now: Self.now(), draw: self.draw)
        self.openConnections()
    }

    /// The peer answered our PING.
    func pingAnswered(within nanoseconds: UInt64) {
        self.delegate?.gateway(self, pingAnsweredWithin: Int64(clamping: nanoseconds))
    }

    /// The peer allows more or fewer requests at a time.
    func streamsChanged(_ connection: ProviderConnection, max: Int) {
        self.pool.streamsChanged(connection.place, max: max)
        self.roomMayHaveChanged()
    }

    /// A connection that had turned a request away has room.
    func unblocked(_ connection: ProviderConnection) {
        self.pool.unblocked(connection.place)
        self.roomMayHaveChanged()
    }
}
