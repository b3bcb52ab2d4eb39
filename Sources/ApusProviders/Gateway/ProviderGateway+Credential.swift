internal import ApusCore
internal import ApusHTTP2
internal import ApusTLS
internal import Logging
internal import NIOCore

/// Fetches a gateway's credential, and handles its refusal by the provider.
extension ProviderGateway {
    func askForCredential() {
        guard !self.isAsking, self.phase == .running else { return }
        self.await(self.credential.grant(on: self.eventLoop))
    }

    /// Handles a header that the provider called stale: nothing is sent before there is another.
    func renew() {
        guard let stale = self.authorization else { return }
        self.authorization = nil
        self.authorizationNumber &+= 1
        self.refusedInARow = 0
        // The next acceptance is news.
        self.tellsAcceptanceAt = 0
        self.pool.doubt()
        self.await(self.credential.rejected(stale, on: self.eventLoop), after: stale)
    }

    private func await(_ grant: EventLoopFuture<CredentialGrant>, after stale: HeaderValue? = nil) {
        self.isAsking = true
        self.credentialWait = nil
        let number = self.authorizationNumber
        grant.assumeIsolated().whenComplete { result in
            // This grant was requested before the header was found stale: a later request's result counts.
            guard number == self.authorizationNumber else { return }
            self.isAsking = false
            switch result {
            case .success(.usable(let header, let askAgainAt)):
                self.adopt(header, askAgainAt)
                // The provider accepts others with the very header, at other gateways: the next recipient that is refused is at fault.
                if header === stale { self.acceptedNumber = self.authorizationNumber }
            case .success(.connection):
                self.isCertified = true
                self.credentialFault = nil
                self.roomMayHaveChanged()
            case .success(.unavailable(let time, let detail)):
                self.authorization = nil
                self.askAgain(at: time, millisecondsMax: CredentialWait.unavailableMillisecondsMax)
                if let detail { self.noteCredentialFault(detail) }
            case .success(.paused(let detail)):
                self.authorization = nil
                self.isCertified = false
                self.hold(for: detail)
            case .failure(let error):
                self.logger.error("cannot get a credential", metadata: ["error": "\(error)"])
                self.askAgain(
                    at: self.clock.now().advanced(byMilliseconds: 1_000),
                    millisecondsMax: CredentialWait.unavailableMillisecondsMax,
                )
            }
        }
    }

    /// Records why there is no credential, and reports it. A held gateway's owner knows why.
    private func noteCredentialFault(_ words: String) {
        if !self.isHeld {
            self.credentialFault = GatewayFault(since: self.credentialFault?.since ?? Self.now(), detail: words)
        }
        self.delegate?.gateway(self, cannotSend: words)
    }

    private func askAgain(at time: UnixMilliseconds, millisecondsMax: Int64) {
        self.credentialWait = CredentialWait(
            until: time,
            millisecondsMax: millisecondsMax,
            now: self.clock.now(),
            uptime: Self.now(),
        )
    }

    private func adopt(_ header: HeaderValue, _ askAgainAt: UnixMilliseconds) {
        self.credentialFault = nil
        self.askAgain(at: askAgainAt, millisecondsMax: CredentialWait.usableMillisecondsMax)
        if self.authorization !== header {
            self.authorization = header
            self.authorizationNumber &+= 1
        }
        self.roomMayHaveChanged()
    }

    /// Holds all requests because the provider refuses the credential; no connection is opened that would end the same way.
    func hold(for word: String) {
        guard self.phase == .running, !self.isHeld else { return }
        self.logger.error(
            "the provider refuses our credential",
            metadata: ["host": "\(self.configuration.host)", "reason": "\(word)"],
        )
        self.isHeld = true
        // It does not try again by itself.
        self.connectFault = nil
        self.faultBeganAt = nil
        self.credentialFault = nil
        self.pool.doubt()
        self.delegate?.gateway(self, heldFor: word)
    }

    /// Takes an alert about our certificate for the provider's verdict on it, as a GOAWAY gives one, and returns true for such an alert.
    ///
    /// In TLS 1.3 a client has finished its handshake before the server has looked at its certificate (RFC 8446 §2), so the alert may
    /// come after requests were sent. A connection that has answered any was accepted, and ends for another reason.
    @discardableResult
    func judge(_ connection: ProviderConnection, by error: (any Error)?) -> Bool {
        guard self.isCertified, let alert = (error as? TLSError)?.certificateAlert,
            !self.pool.hasAnswered(connection.place)
        else { return false }
        let word = "the certificate is refused (\(alert))"
        connection.verdict = word
        self.hold(for: word)
        return true
    }

    /// Releases held requests, one at first: an operator has corrected what the provider refused, or wants to know
    /// whether it is correct now.
    package func restored() {
        self.eventLoop.preconditionInEventLoop()
        guard self.isHeld else { return }
        self.isHeld = false
        self.credential.restored()
        if let origins {
            origins.restored()
            return self.roomMayHaveChanged()
        }
        if !self.isCertified {
            // The header that was refused may have been replaced meanwhile.
            self.authorization = nil
            self.askForCredential()
        }
        self.openConnections()
        self.roomMayHaveChanged()
    }
}
