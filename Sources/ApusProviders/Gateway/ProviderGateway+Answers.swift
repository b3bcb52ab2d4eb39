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
        self.report(request.tag, .accepted, ProviderAnswer(answer, of: handler, at: self, startedAt: request.startedAt))
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
        let meaning = self.meaning(of: answer, handler)
        var outcome = meaning.outcome
        switch outcome {
        case .misconfigured(let what): outcome = self.misconfigured(what, request, connection, word: meaning.word)
        case .deferred(let deferral):
            if deferral.needsNewConnection { self.retire(connection) }
        case .accepted, .unregistered, .suspect, .rejected, .lost: self.pool.proved(connection.place)
        }
        self.report(
            request.tag,
            outcome,
            ProviderAnswer(answer, of: handler, at: self, startedAt: request.startedAt, meaning: meaning),
        )
        if case .deferred(let deferral) = outcome, deferral.isFree { self.handedBack() }
        self.roomMayHaveChanged()
    }

    private func meaning(of answer: HTTP2Answer, _ handler: HTTP2ClientHandler) -> AnswerMeaning {
        let answer = PlainAnswer(answer, of: handler)
        let retryAfter = answer.headers[.retryAfter].flatMap { RetryAfter.milliseconds($0, now: self.clock.now()) }
        return self.configuration.answers.meaning(of: answer, retryAfterMilliseconds: retryAfter)
    }

    private func misconfigured(
        _ what: Misconfiguration,
        _ request: RequestSlots.Request,
        _ connection: ProviderConnection,
        word: String,
    ) -> DeliveryOutcome {
        switch what {
        case .staleCredential:
            // A connection that keeps in mind what it has seen stays unusable: it calls newer credentials stale too.
            let isAboutToken = !connection.isWedged
            if self.configuration.bindsCredentials {
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
            // The connection takes no other credential for a while: the one that goes on needs another connection.
            if self.configuration.bindsCredentials { self.retire(connection) }
        case .wrongConnection: self.retire(connection)
        case .credential:
            self.hold(for: word)
            if self.configuration.bindsCredentials { self.retire(connection) }
        // A connection knows the topics as they were when it was made.
        case .route: self.retireIfOld(connection)
        case .forbidden, .unclear, .thirdPartyAuth: break
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
        self.report(request.tag, outcome, ProviderAnswer(startedAt: request.startedAt, reason: reason))
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
        self.report(request.tag, .lost(loss), ProviderAnswer(startedAt: request.startedAt, reason: reason))
        self.roomMayHaveChanged()
    }

    /// The provider takes no more requests on a connection.
    func goAwayReceived(_ code: HTTP2ErrorCode, _ debug: [UInt8], _ connection: ProviderConnection) {
        self.counts.goAways[GoAwayCode(code), default: 0] += 1
        switch self.configuration.answers.meaning(ofGoAway: debug) {
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
    func streamsChanged(_ connection: ProviderConnection, max: Int, forbiddenSince: UInt64?) {
        self.pool.streamsChanged(connection.place, max: max, forbiddenSince: forbiddenSince)
        self.roomMayHaveChanged()
    }

    /// A connection that had turned a request away has room.
    func unblocked(_ connection: ProviderConnection) {
        self.pool.unblocked(connection.place)
        self.roomMayHaveChanged()
    }
}
