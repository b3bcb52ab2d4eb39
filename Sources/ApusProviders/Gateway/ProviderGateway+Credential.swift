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
                self.holdOff(because: detail)
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

    /// The provider does not take our credential: answers everything here for a while instead of storming it.
    func holdOff(because reason: String) {
        guard self.phase == .running else { return }
        if self.heldUntil == nil {
            self.logger.error(
                "the provider refuses our credential",
                metadata: ["host": "\(self.configuration.host)", "reason": "\(reason)"],
            )
        }
        self.heldUntil = Self.now() &+ UInt64(self.configuration.holdOff.nanoseconds)
        self.pool.doubt()
        self.roomMayHaveChanged()
    }

    func endHoldOff() {
        self.heldUntil = nil
        self.pool.doubt()
        if !self.hasCredential { self.askForCredential() }
        self.roomMayHaveChanged()
    }
}
