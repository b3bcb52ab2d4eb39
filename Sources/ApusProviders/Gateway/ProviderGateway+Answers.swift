internal import ApusCore
internal import ApusHTTP2
internal import Logging
internal import NIOCore

/// Handles the events of a gateway's connections.
extension ProviderGateway {
    /// Handles an answered request.
    @inline(__always)
    func answered(
        _ request: RequestSlots.Request,
        _ answer: HTTP2Answer,
        _ handler: HTTP2ClientHandler,
        _ connection: ProviderConnection,
    ) {
        self.pool.answered(connection.place, now: handler.readAt)
        guard self.isAccepted(answer, handler) else { return self.refused(request, answer, handler, connection) }
        self.pool.proved(connection.place)
        self.turnedAwayInARow = 0
        self.counts.accepted += 1
        self.recordAccepted(request, now: handler.readAt)
        self.report(request.tag, .accepted, ProviderAnswer(answer, of: handler, at: self, startedAt: request.startedAt))
        self.roomMayHaveChanged()
    }

    /// Records that a request was accepted with its header, and tells the credential, which other gateways share, now and then.
    @inline(__always)
    private func recordAccepted(_ request: RequestSlots.Request, now: UInt64) {
        self.acceptedNumber = request.credential
        self.refusedInARow = 0
        guard now >= self.tellsAcceptanceAt else { return }
        self.tellsAcceptanceAt = now &+ Self.acceptanceNanoseconds
        self.credential.accepted()
    }

    /// Returns true when an answer need not be read to know that its request was accepted.
    @inline(__always)
    private func isAccepted(_ answer: HTTP2Answer, _ handler: HTTP2ClientHandler) -> Bool {
        guard self.acceptedStatuses.contains(answer.status) else { return false }
        return self.qualifyingFields.isEmpty
            || !self.qualifyingFields.contains { handler.value(of: $0, in: answer) != nil }
    }

    private func refused(
        _ request: RequestSlots.Request,
        _ answer: HTTP2Answer,
        _ handler: HTTP2ClientHandler,
        _ connection: ProviderConnection,
    ) {
        self.turnedAwayInARow = 0
        let meaning = self.meaning(of: answer, handler)
        var outcome = meaning.outcome
        if case .accepted = outcome {
            self.counts.accepted += 1
            self.recordAccepted(request, now: handler.readAt)
        } else {
            self.counts.refusals[answer.status, default: 0] += 1
        }
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

    /// Returns true if the refusal of a header that was signed anew lately is about the recipient alone: others were accepted with it since,
    /// or with the header before, with which this recipient was refused, too. After many of them in a row it may be about the header all the same.
    private func isAboutRecipient(_ request: RequestSlots.Request) -> Bool {
        guard self.configuration.bindsRecipients, let renewedAt,
            Self.now() < renewedAt &+ Self.renewalNanoseconds, self.refusedInARow < Self.refusedInARowMax
        else { return false }
        return self.acceptedNumber == request.credential || self.refusedRecipients.contains(request.recipient)
    }

    /// Records the recipient of a refused request that carried the current header, before that is replaced.
    private func noteRefusedRecipient(_ request: RequestSlots.Request, replacesHeader: Bool) {
        guard self.configuration.bindsRecipients else { return }
        if replacesHeader { self.refusedRecipients = [] }
        guard self.acceptedNumber == request.credential, self.refusedRecipients.count < Self.refusedRecipientsMax else {
            return
        }
        self.refusedRecipients.insert(request.recipient)
    }

    private func misconfigured(
        _ what: Misconfiguration,
        _ request: RequestSlots.Request,
        _ connection: ProviderConnection,
        word: String,
    ) -> DeliveryOutcome {
        switch what {
        // A newly signed header that others are accepted with is not at fault: this recipient alone waits.
        case .staleCredential where self.isAboutRecipient(request):
            self.refusedInARow += 1
            let wait = Self.recipientPauseMilliseconds
            return .deferred(Deferral(.credentials, scope: .device, retryAfterMilliseconds: wait))
        case .staleCredential:
            // A connection that remembers credentials stays unusable: it calls newer ones stale too.
            let isAboutToken = !connection.hasStaleCredential
            if self.configuration.bindsCredentials {
                connection.hasStaleCredential = true
                self.retire(connection)
            }
            guard !self.isHeld else { return .misconfigured(.credential) }
            // A certificate cannot be renewed by this process.
            guard !self.isCertified else {
                self.hold(for: word)
                return .misconfigured(.credential)
            }
            let replacesHeader = isAboutToken && request.credential == self.authorizationNumber
            self.noteRefusedRecipient(request, replacesHeader: replacesHeader)
            if replacesHeader {
                self.renewedAt = Self.now()
                self.renew()
            }
            return .deferred(Deferral(.credentials, needsNewConnection: true, isFree: true))
        case .renewedTooOften:
            self.credential.renewedTooOften()
            // The connection accepts no other credential for a while, so the current one needs another connection.
            if self.configuration.bindsCredentials { self.retire(connection) }
        case .wrongConnection: self.retire(connection)
        case .credential:
            self.hold(for: word)
            if self.configuration.bindsCredentials { self.retire(connection) }
        // A connection knows the topics that existed when it was opened.
        case .route, .subroute: self.retireIfOld(connection)
        case .forbidden, .unclear, .thirdPartyAuth: break
        }
        return .misconfigured(what)
    }

    /// Handles a request that was certainly not processed.
    func turnedAway(_ request: RequestSlots.Request, _ connection: ProviderConnection) {
        self.pool.ended(connection.place, now: Self.now())
        self.counts.turnedAway += 1
        self.turnedAwayInARow += 1
        let outcome: DeliveryOutcome =
            if connection.verdict != nil {
                .misconfigured(.credential)
            } else {
                .returned
            }
        let reason = connection.verdict ?? "refused stream"
        self.report(request.tag, outcome, ProviderAnswer(startedAt: request.startedAt, reason: reason))
        if self.turnedAwayInARow >= Self.turnedAwayMax {
            self.turnedAwayInARow = 0
            self.retire(connection)
        }
        self.handedBack()
    }

    /// Handles a request that was not sent while it could be: it comes again at once, when its recipient has been read anew.
    func unsent(_ request: RequestSlots.Request, isOverdue: Bool, _ connection: ProviderConnection) {
        let now = Self.now()
        if isOverdue {
            self.counts.timedOut += 1
            self.ranOut(connection, now: now)
        } else {
            self.pool.ended(connection.place, now: now)
        }
        let reason = isOverdue ? "not sent in time" : "its recipient must be read again"
        self.report(request.tag, .returned, ProviderAnswer(unsentSince: request.startedAt, reason: reason))
        self.handedBack()
    }

    /// Counts a request that timed out on a connection, and asks whether the provider is still there.
    private func ranOut(_ connection: ProviderConnection, now: UInt64) {
        if self.pool.timedOut(connection.place, now: now) {
            connection.handler?.close()
        } else {
            self.ping(connection)
        }
    }

    /// Handles a request that has ended with an unknown outcome.
    func lost(_ request: RequestSlots.Request, _ loss: Loss, _ connection: ProviderConnection) {
        let now = Self.now()
        switch loss {
        case .timeout:
            self.counts.timedOut += 1
            self.ranOut(connection, now: now)
        case .connection:
            self.counts.lost += 1
            self.pool.ended(connection.place, now: now)
        }
        let reason = loss == .timeout ? "no answer in time" : "the connection ended"
        self.report(request.tag, .lost(loss), ProviderAnswer(startedAt: request.startedAt, reason: reason))
        self.roomMayHaveChanged()
    }

    /// Handles a GOAWAY: the provider accepts no more requests on the connection.
    func goAwayReceived(_ code: HTTP2ErrorCode, _ debug: [UInt8], _ connection: ProviderConnection) {
        self.counts.goAways[GoAwayCode(code), default: 0] += 1
        switch self.configuration.answers.meaning(ofGoAway: debug) {
        case .reconnect(let word):
            self.logger.info(
                "the provider ends a connection",
                metadata: ["host": "\(self.configuration.host)", "code": "\(code)", "reason": "\(word ?? "-")"],
            )
        // The token was replaced since: a new connection is enough.
        case .misconfigured(.staleCredential, _) where !self.isCertified && !self.isHeld:
            if connection.openedWith == self.authorizationNumber { self.renew() }
        case .misconfigured(.renewedTooOften, _): self.credential.renewedTooOften()
        case .misconfigured(_, let word):
            connection.verdict = word
            self.hold(for: word)
        }
        self.noteUse(of: connection)
        self.pool.retired(connection.place, now: Self.now(), draw: self.draw)
        self.openConnections()
    }

    /// Handles the peer's answer to a PING.
    func pingAnswered(within nanoseconds: UInt64) {
        self.delegate?.gateway(self, pingAnsweredWithin: Int64(clamping: nanoseconds))
    }

    /// Handles a change of the number of requests that the peer allows at a time.
    func streamsChanged(_ connection: ProviderConnection, max: Int, forbiddenSince: UInt64?) {
        self.pool.streamsChanged(connection.place, max: max, forbiddenSince: forbiddenSince)
        self.roomMayHaveChanged()
    }

    /// Handles a connection that has room again after turning a request away.
    func unblocked(_ connection: ProviderConnection) {
        self.pool.unblocked(connection.place)
        self.roomMayHaveChanged()
    }
}

extension DeliveryOutcome {
    /// The outcome of a request that was certainly not processed and comes again at once.
    static let returned = DeliveryOutcome.deferred(Deferral(.connection, isFree: true))
}
