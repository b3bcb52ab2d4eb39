package import ApusCore
package import ApusHTTP2
package import ApusProviders
package import Logging
package import NIOCore
internal import Synchronization

/// Requests an access token once. It separates ``FCMCredential`` from the network.
package protocol AccessTokenSource: Sendable {
    /// Returns the answer of the token endpoint; nil when none came in time.
    func request(_ body: [UInt8], now: UnixMilliseconds) async -> OAuthAnswer
}

/// Provides the access token of one service account: requested once, however many event loops need it, and again before it expires.
package final class FCMCredential: ProviderCredential {
    private struct State {
        var policy = FCMTokenPolicy()
        var token: FCMAccessToken?
        var header: HeaderValue?
        var waiters: [EventLoopPromise<CredentialGrant>] = []
        /// The reason for which the last request for a token failed.
        var lastFailure = ""
    }

    /// The work to be done outside the lock.
    private struct Step {
        /// The grant; nil when the caller must wait.
        var grant: CredentialGrant?
        var fetches = false
    }

    private let account: ServiceAccount
    private let source: any AccessTokenSource
    private let clock: any WallClock
    private let logger: Logger
    /// Called with true for each token that was granted, and with false for each failed request.
    private let minted: @Sendable (Bool) -> Void
    private let state = Mutex(State())

    /// The interval at which callers ask again for a token that is being requested.
    private static let askAgainMilliseconds: Int64 = 5_000

    /// Creates the credential of an account, whose tokens come from `source`.
    package init(
        account: ServiceAccount,
        source: any AccessTokenSource,
        clock: any WallClock,
        logger: Logger,
        minted: @escaping @Sendable (Bool) -> Void = { _ in }
    ) {
        self.account = account
        self.source = source
        self.clock = clock
        self.logger = logger
        self.minted = minted
    }

    package func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        self.answer(on: eventLoop) { state, now in
            self.step(state.policy.tokenNeeded(now: now), now: now, &state)
        }
    }

    package func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        self.answer(on: eventLoop) { state, now in
            guard state.header === header, let token = state.token else {
                return self.step(state.policy.tokenNeeded(now: now), now: now, &state)
            }
            return self.step(state.policy.tokenRejected(token, now: now), now: now, &state)
        }
    }

    package var expiresAt: UnixMilliseconds? { self.state.withLock { $0.token?.expiresAt } }

    /// Does nothing: Google has no such limit.
    package func renewedTooOften() {}

    package func restored() { self.state.withLock { $0.policy.restored() } }

    private func answer(
        on eventLoop: any EventLoop,
        _ decide: (inout State, UnixMilliseconds) -> Step,
    ) -> EventLoopFuture<CredentialGrant> {
        let promise = eventLoop.makePromise(of: CredentialGrant.self)
        let step = self.state.withLock { state in
            // Read within the lock: a time before that of the last answer would look like a clock that was set back.
            let step = decide(&state, self.clock.now())
            if step.grant == nil { state.waiters.append(promise) }
            return step
        }
        if let grant = step.grant { promise.succeed(grant) }
        if step.fetches { self.fetch() }
        return promise.futureResult
    }

    private func step(_ action: FCMTokenPolicy.Action, now: UnixMilliseconds, _ state: inout State) -> Step {
        switch action {
        case .use(let token): return Step(grant: self.usable(token, now: now, &state))
        case .useAndFetch(let token): return Step(grant: self.usable(token, now: now, &state), fetches: true)
        case .fetch: return Step(fetches: true)
        case .wait: return Step()
        case .waitAndFetch(let time):
            return Step(grant: .unavailable(askAgainAt: time, detail: "no access token: \(state.lastFailure)"))
        case .pause(let alarm): return Step(grant: .paused(detail: Self.text(alarm)))
        }
    }

    private func usable(_ token: FCMAccessToken, now: UnixMilliseconds, _ state: inout State) -> CredentialGrant {
        if state.token != token || state.header == nil {
            guard let header = try? HeaderValue(token.authorization) else {
                preconditionFailure("OAuthAnswer accepted a token that is not fit for a header")
            }
            state.token = token
            state.header = header
        }
        guard let header = state.header else { preconditionFailure("the header was made above") }
        let due = token.expiresAt.advanced(byMilliseconds: -FCMTokenPolicy.refreshAheadMilliseconds)
        let soon = now.advanced(byMilliseconds: Self.askAgainMilliseconds)
        // The time is not beyond the token's expiry, however short its life.
        return .usable(header, askAgainAt: min(max(due, soon), max(token.expiresAt, now)))
    }

    private static func text(_ alarm: FCMTokenPolicy.Alarm) -> String {
        switch alarm {
        case .refused(let refusal, let detail): "\(Self.refusal(refusal)): \(detail)"
        case .rejectedAgain: "FCM accepts no token of this account"
        }
    }

    /// Returns the beginning of the text that names a refusal.
    static func refusal(_ refusal: OAuthAnswer.Refusal) -> String {
        "the token endpoint refuses the account (\(refusal))"
    }

    private func fetch() {
        Task {
            let now = self.clock.now()
            let answer: OAuthAnswer
            do {
                answer = await self.source.request(try self.account.tokenRequestBody(issuedAt: now), now: now)
            } catch {
                answer = .refused(.other, detail: "\(error)")
            }
            self.fetched(answer)
        }
    }

    private func fetched(_ answer: OAuthAnswer) {
        let now = self.clock.now()
        let draw = Double.random(in: 0..<1)
        let (grant, fetches, waiters) = self.state.withLock { state in
            if case .unavailable(_, let detail) = answer { state.lastFailure = detail }
            let action = state.policy.answered(answer, now: now, draw: draw)
            let step = self.step(action, now: now, &state)
            guard let grant = step.grant else {
                return (CredentialGrant?.none, step.fetches, [EventLoopPromise<CredentialGrant>]())
            }
            defer { state.waiters = [] }
            return (grant, step.fetches, state.waiters)
        }
        if case .granted = answer { self.minted(true) } else { self.minted(false) }
        self.log(answer)
        if let grant { for waiter in waiters { waiter.succeed(grant) } }
        if fetches { self.fetch() }
    }

    private func log(_ answer: OAuthAnswer) {
        switch answer {
        case .granted(_, let seconds):
            self.logger.info("got an access token", metadata: ["expires_in_s": "\(seconds)"])
        case .refused(_, let detail): self.logger.error("no access token", metadata: ["reason": "\(detail)"])
        case .unavailable(_, let detail):
            self.logger.warning("no access token yet", metadata: ["reason": "\(detail)"])
        }
    }
}
