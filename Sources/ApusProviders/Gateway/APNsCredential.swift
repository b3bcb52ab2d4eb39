package import ApusCore
package import ApusHTTP2
package import Logging
package import NIOCore
internal import Synchronization

/// Where dispatchers leave the provider token that all of them use: "many JWTs per key and hour get a team throttled".
///
/// What comes out is not trusted: it must be a token of the right key and team, and younger than the one in use.
package protocol SharedTokenStore: Sendable {
    /// The token under that key; nil when there is none, or when the store cannot be reached.
    func read(_ key: String) async -> String?
    /// Leaves a token for that many milliseconds. A store that cannot be reached is no obstacle.
    func write(_ key: String, _ token: String, milliseconds: Int64) async
}

/// The provider token of one APNs key: signed once, shared by all event loops and, through the store, by all dispatchers.
package final class APNsCredential: ProviderCredential {
    private struct State {
        var policy = APNsTokenPolicy()
        var token: APNsProviderToken?
        var header: HeaderValue?
        /// The token that Apple called expired, until another one takes its place.
        var staleIssuedAt: UnixMilliseconds?
        var pausedAt: UnixMilliseconds?
        var isRenewing = false
        var waiters: [EventLoopPromise<CredentialGrant>] = []
    }

    private let key: APNsProviderKey
    private let store: (any SharedTokenStore)?
    private let clock: any WallClock
    private let logger: Logger
    /// Told of each token that was made (true), or asked for in vain.
    private let minted: @Sendable (Bool) -> Void
    private let state = Mutex(State())

    /// How long a refused key or a wrong clock is left alone before one more try: as long as between two tokens.
    package static let pauseMilliseconds = APNsTokenPolicy.intervalMillisecondsMin
    /// How soon a question is asked again that cannot be answered now.
    static let askAgainMillisecondsMin: Int64 = 1_000

    /// The credential of a key; `store` is where other dispatchers find the token, nil when there are none.
    package init(
        key: APNsProviderKey,
        store: (any SharedTokenStore)?,
        clock: any WallClock,
        logger: Logger,
        minted: @escaping @Sendable (Bool) -> Void = { _ in }
    ) {
        self.key = key
        self.store = store
        self.clock = clock
        self.logger = logger
        self.minted = minted
    }

    /// Under what the token is shared.
    package var sharedKey: String { "apus:jwt:\(self.key.teamID):\(self.key.keyID)" }

    package func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        let promise = eventLoop.makePromise(of: CredentialGrant.self)
        let now = self.clock.now()
        let known: CredentialGrant? = self.state.withLock { state in
            if let pausedAt = state.pausedAt {
                if now.milliseconds(since: pausedAt) < Self.pauseMilliseconds { return Self.paused(state.policy) }
                state.policy.mended()
                state.pausedAt = nil
            }
            if let header = state.header, let issuedAt = state.token?.issuedAt, issuedAt != state.staleIssuedAt,
                now.milliseconds(since: issuedAt) < APNsTokenPolicy.refreshAgeMilliseconds
            {
                return Self.usable(header, issuedAt)
            }
            state.waiters.append(promise)
            return nil
        }
        if let known { promise.succeed(known) } else { self.renew() }
        return promise.futureResult
    }

    package func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        // Another event loop may have said so already: then this one gets what that one gets.
        self.state.withLock { state in
            if state.header === header { state.staleIssuedAt = state.token?.issuedAt }
        }
        return self.grant(on: eventLoop)
    }

    package func renewedTooOften() {
        let now = self.clock.now()
        self.state.withLock { $0.policy.updatedTooOften(now: now) }
    }

    package var expiresAt: UnixMilliseconds? {
        self.state.withLock { state in
            state.token?.issuedAt.advanced(byMilliseconds: APNsTokenPolicy.ageMillisecondsMax)
        }
    }

    /// An operator has mended the key or the clock.
    package func mended() {
        self.state.withLock { state in
            state.policy.mended()
            state.pausedAt = nil
        }
    }

    private func renew() {
        let isFirst = self.state.withLock { state in
            defer { state.isRenewing = true }
            return !state.isRenewing
        }
        guard isFirst else { return }
        Task {
            let shared = await self.store?.read(self.sharedKey)
            let signed = self.decide(shared: shared)
            guard let signed, let store = self.store else { return }
            let age = self.clock.now().milliseconds(since: signed.issuedAt)
            let left = max(1_000, APNsTokenPolicy.ageMillisecondsMax - age)
            await store.write(self.sharedKey, signed.text, milliseconds: left)
        }
    }

    /// Answers everybody who waits; the token, if a new one was signed.
    private func decide(shared: String?) -> APNsProviderToken? {
        let now = self.clock.now()
        let result = self.state.withLock { state in
            self.adopt(shared, now: now, &state)
            let action =
                if let expired = state.staleIssuedAt {
                    state.policy.tokenExpired(issuedAt: expired, now: now)
                } else {
                    state.policy.tokenNeeded(now: now)
                }
            let result = self.perform(action, now: now, &state)
            let waiters = state.waiters
            state.waiters = []
            state.isRenewing = false
            if state.token?.issuedAt != state.staleIssuedAt { state.staleIssuedAt = nil }
            return (grant: result.grant, signed: result.signed, waiters: waiters)
        }
        for waiter in result.waiters { waiter.succeed(result.grant) }
        return result.signed
    }

    private func adopt(_ shared: String?, now: UnixMilliseconds, _ state: inout State) {
        guard let shared,
            let token = APNsProviderToken(shared: shared, keyID: self.key.keyID, teamID: self.key.teamID),
            now.milliseconds(since: token.issuedAt) < APNsTokenPolicy.refreshAgeMilliseconds,
            now.milliseconds(since: token.issuedAt) > -APNsTokenPolicy.intervalMillisecondsMin,
            state.token.map({ $0.issuedAt < token.issuedAt }) ?? true, self.key.signed(token),
            let header = try? HeaderValue(token.authorization)
        else { return }
        state.policy.tokenShared(issuedAt: token.issuedAt)
        guard state.policy.issuedAt == token.issuedAt else { return }
        state.token = token
        state.header = header
    }

    private func perform(
        _ action: APNsTokenPolicy.Action,
        now: UnixMilliseconds,
        _ state: inout State,
    ) -> (grant: CredentialGrant, signed: APNsProviderToken?) {
        switch action {
        case .use(let issuedAt):
            guard let header = state.header, state.token?.issuedAt == issuedAt else {
                preconditionFailure("the token in use is at hand")
            }
            return (Self.usable(header, issuedAt, askAgainFrom: now), nil)
        case .sign(let issuedAt):
            do {
                let token = try self.key.sign(issuedAt: issuedAt)
                let header = try HeaderValue(token.authorization)
                state.token = token
                state.header = header
                self.minted(true)
                self.logger.info("signed a provider token", metadata: ["key": "\(self.key.keyID)"])
                return (Self.usable(header, issuedAt), token)
            } catch {
                self.minted(false)
                self.logger.error("no provider token", metadata: ["key": "\(self.key.keyID)", "error": "\(error)"])
                state.policy.keyRefused()
                state.pausedAt = now
                return (Self.paused(state.policy), nil)
            }
        case .wait(let until): return (.unavailable(askAgainAt: until), nil)
        case .pause:
            state.pausedAt = state.pausedAt ?? now
            return (Self.paused(state.policy), nil)
        }
    }

    private static func usable(
        _ header: HeaderValue,
        _ issuedAt: UnixMilliseconds,
        askAgainFrom now: UnixMilliseconds = UnixMilliseconds(.min),
    ) -> CredentialGrant {
        let due = issuedAt.advanced(byMilliseconds: APNsTokenPolicy.refreshAgeMilliseconds)
        return .usable(header, askAgainAt: max(due, now.advanced(byMilliseconds: Self.askAgainMillisecondsMin)))
    }

    private static func paused(_ policy: APNsTokenPolicy) -> CredentialGrant {
        switch policy.alarm {
        case .clock: .paused(detail: "a token just signed was called expired: the clock is wrong")
        case .refused, nil: .paused(detail: "the key cannot be used")
        }
    }
}
