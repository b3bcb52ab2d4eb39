internal import ApusCore
internal import ApusHTTP2
internal import Logging
internal import NIOCore

/// How a gateway comes by its credential, and what it does when the provider does not take it.
extension ProviderGateway {
    func askForCredential() {
        guard !self.isAsking, self.phase == .running else { return }
        self.await(self.credential.grant(on: self.eventLoop))
    }

    /// The provider called our header stale: nothing goes out before there is another.
    func renew() {
        guard let stale = self.authorization else { return }
        self.authorization = nil
        self.authorizationNumber &+= 1
        self.pool.doubt()
        self.await(self.credential.rejected(stale, on: self.eventLoop))
    }

    private func await(_ grant: EventLoopFuture<CredentialGrant>) {
        self.isAsking = true
        self.askAgainAt = nil
        let number = self.authorizationNumber
        grant.assumeIsolated().whenComplete { result in
            // Asked for before the header was found stale: the other question's answer counts.
            guard number == self.authorizationNumber else { return }
            self.isAsking = false
            switch result {
            case .success(.usable(let header, let askAgainAt)): self.adopt(header, askAgainAt)
            case .success(.connection(let askAgainAt)):
                self.isCertified = true
                self.askAgainAt = askAgainAt
                self.roomMayHaveChanged()
            case .success(.unavailable(let time)):
                self.authorization = nil
                self.askAgainAt = time
            case .success(.paused(let detail)):
                self.authorization = nil
                self.isCertified = false
                self.hold(for: detail)
            case .failure(let error):
                self.logger.error("no credential", metadata: ["error": "\(error)"])
                self.askAgainAt = self.clock.now().advanced(byMilliseconds: 1_000)
            }
        }
    }

    private func adopt(_ header: HeaderValue, _ askAgainAt: UnixMilliseconds) {
        self.askAgainAt = askAgainAt
        if self.authorization !== header {
            self.authorization = header
            self.authorizationNumber &+= 1
        }
        self.roomMayHaveChanged()
    }

    /// The provider does not take our credential: nothing more goes out, and no connection is made that would end the same way.
    func hold(for word: String) {
        guard self.phase == .running, !self.isHeld else { return }
        self.logger.error(
            "the provider refuses our credential",
            metadata: ["host": "\(self.configuration.host)", "reason": "\(word)"],
        )
        self.isHeld = true
        self.pool.doubt()
        self.delegate?.gateway(self, heldFor: word)
    }

    /// Lets requests go out again, one at first: somebody has corrected what the provider refused, or wants to know whether it is right.
    package func restored() {
        self.eventLoop.preconditionInEventLoop()
        guard self.isHeld else { return }
        self.isHeld = false
        self.credential.restored()
        if !self.hasCredential { self.askForCredential() }
        self.openConnections()
        self.roomMayHaveChanged()
    }
}
