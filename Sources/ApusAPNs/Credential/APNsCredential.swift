package import ApusCore
package import ApusHTTP2
package import ApusProviders
package import Logging
package import NIOCore
internal import Synchronization

/// Provides the provider token of one APNs key: signed once, shared by all event loops and, through the store, by all dispatchers.
///
/// Apple allows a token to change once in twenty minutes on a connection and answers more changes with
/// `TooManyProviderTokenUpdates`, but the same token may be used from several servers
/// (https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns).
///
/// A shared token is verified: it must be of the right key and team, and younger than the one in use.
package final class APNsCredential: ProviderCredential {
    private struct State {
        var policy = APNsTokenPolicy()
        var token: APNsProviderToken?
        var header: HeaderValue?
        /// The issue time of the token that Apple called expired, until another one replaces it.
        var staleIssuedAt: UnixMilliseconds?
        /// The issue time of the token for which the log says that the clock is wrong: once, however many event loops ask.
        var loggedIssuedAt: UnixMilliseconds?
        var isRenewing = false
        var waiters: [EventLoopPromise<CredentialGrant>] = []
    }

    /// A token that is ready to be used.
    private struct Draft {
        let token: APNsProviderToken
        let header: HeaderValue
    }

    /// A grant and the callers that wait for it.
    private struct Reply {
        let grant: CredentialGrant
        let waiters: [EventLoopPromise<CredentialGrant>]

        func send() { for waiter in self.waiters { waiter.succeed(self.grant) } }
    }

    private let key: APNsProviderKey
    private let store: (any SharedTokenStore)?
    private let clock: any WallClock
    private let logger: Logger
    /// Called with true for each token that was signed, and with false for each failed attempt.
    private let minted: @Sendable (Bool) -> Void
    private let state = Mutex(State())

    /// The minimum wait before a request for a token is repeated.
    static let askAgainMillisecondsMin: Int64 = 1_000

    /// Creates the credential of a key; `store` shares the token with other dispatchers, nil when there are none.
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

    /// The key under which the token is shared.
    var sharedKey: String { "apus:jwt:\(self.key.teamID):\(self.key.keyID)" }

    package func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        let promise = eventLoop.makePromise(of: CredentialGrant.self)
        let now = self.clock.now()
        let known: CredentialGrant? = self.state.withLock { state in
            if state.policy.isUnusable { return Self.unusable }
            if let header = state.header, let issuedAt = state.token?.issuedAt, issuedAt != state.staleIssuedAt,
                now.milliseconds(since: issuedAt) < APNsTokenPolicy.refreshAgeMilliseconds,
                now.milliseconds(since: issuedAt) > -APNsTokenPolicy.intervalMillisecondsMin
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
        // When another event loop has reported the same before, this one gets the same grant.
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

    package func restored() { self.state.withLock { $0.policy.restored() } }

    private func renew() {
        let isFirst = self.state.withLock { state in
            defer { state.isRenewing = true }
            return !state.isRenewing
        }
        guard isFirst else { return }
        Task {
            let shared = await self.store?.read(self.sharedKey)
            guard let draft = self.decide(shared: shared) else { return }
            // Other processes may have signed at the same moment: only one token is used, whoever signed it.
            let age = self.clock.now().milliseconds(since: draft.token.issuedAt)
            let left = max(1_000, APNsTokenPolicy.ageMillisecondsMax - age)
            var other: String?
            if let store = self.store, self.mayReplace(shared) {
                other = await store.write(self.sharedKey, draft.token.text, after: shared, milliseconds: left)
            }
            self.settle(draft, other: other)
        }
    }

    /// Returns true when our token may replace the stored one: not if another key with the same id has signed it,
    /// because ours may be from the wrong file, of a credential that Apple has not accepted yet; and not if the stored one is from the
    /// future, because our clock may be slow, and our token one that Apple calls expired.
    private func mayReplace(_ shared: String?) -> Bool {
        guard let shared,
            let token = APNsProviderToken(shared: shared, keyID: self.key.keyID, teamID: self.key.teamID)
        else { return true }
        let age = self.clock.now().milliseconds(since: token.issuedAt)
        return self.key.signed(token) && age > -APNsTokenPolicy.intervalMillisecondsMin
    }

    /// Completes all waiting requests, unless a token was signed, which must be settled first.
    private func decide(shared: String?) -> Draft? {
        let now = self.clock.now()
        let (reply, draft) = self.state.withLock { state -> (Reply?, Draft?) in
            if let shared { self.adopt(shared, now: now, &state) }
            let action =
                if let expired = state.staleIssuedAt {
                    state.policy.tokenExpired(issuedAt: expired, now: now)
                } else {
                    state.policy.tokenNeeded(now: now)
                }
            let (grant, draft) = self.perform(action, now: now, &state)
            guard let grant else { return (nil, draft) }
            return (Reply(grant: grant, waiters: Self.end(&state)), nil)
        }
        reply?.send()
        return draft
    }

    /// Uses a token that was signed, or the one that another process stored before it.
    private func settle(_ draft: Draft, other: String?) {
        let now = self.clock.now()
        let foreign = other.flatMap { self.draft(ofShared: $0, now: now) }
        let (reply, isOwn) = self.state.withLock { state -> (Reply, Bool) in
            var elected = draft
            var isOwn = true
            if let foreign, foreign.token.issuedAt != state.staleIssuedAt {
                elected = foreign
                isOwn = false
                state.policy.tokenYielded(to: foreign.token.issuedAt)
            }
            state.token = elected.token
            state.header = elected.header
            let grant = Self.usable(elected.header, elected.token.issuedAt, askAgainFrom: now)
            return (Reply(grant: grant, waiters: Self.end(&state)), isOwn)
        }
        if isOwn {
            self.minted(true)
            self.logger.info("signed a provider token", metadata: ["key": "\(self.key.keyID)"])
        }
        reply.send()
    }

    /// Ends the renewal and returns the callers that waited for it.
    private static func end(_ state: inout State) -> [EventLoopPromise<CredentialGrant>] {
        state.isRenewing = false
        if state.token?.issuedAt != state.staleIssuedAt { state.staleIssuedAt = nil }
        defer { state.waiters = [] }
        return state.waiters
    }

    /// Parses a token that another process stored; nil unless it is of this very key, and valid for a while.
    private func draft(ofShared shared: String, now: UnixMilliseconds) -> Draft? {
        guard let token = APNsProviderToken(shared: shared, keyID: self.key.keyID, teamID: self.key.teamID),
            now.milliseconds(since: token.issuedAt) < APNsTokenPolicy.refreshAgeMilliseconds,
            now.milliseconds(since: token.issuedAt) > -APNsTokenPolicy.intervalMillisecondsMin,
            self.key.signed(token), let header = try? HeaderValue(token.authorization)
        else { return nil }
        return Draft(token: token, header: header)
    }

    private func adopt(_ shared: String, now: UnixMilliseconds, _ state: inout State) {
        guard let draft = self.draft(ofShared: shared, now: now),
            state.token.map({ $0.issuedAt < draft.token.issuedAt }) ?? true
        else { return }
        state.policy.tokenShared(issuedAt: draft.token.issuedAt)
        guard state.policy.issuedAt == draft.token.issuedAt else { return }
        state.token = draft.token
        state.header = draft.header
    }

    private func perform(
        _ action: APNsTokenPolicy.Action,
        now: UnixMilliseconds,
        _ state: inout State,
    ) -> (grant: CredentialGrant?, signed: Draft?) {
        switch action {
        case .use(let issuedAt):
            guard let header = state.header, state.token?.issuedAt == issuedAt else {
                preconditionFailure("the token in use is missing")
            }
            return (Self.usable(header, issuedAt, askAgainFrom: now), nil)
        case .sign(let issuedAt):
            do {
                let token = try self.key.sign(issuedAt: issuedAt)
                return (nil, Draft(token: token, header: try HeaderValue(token.authorization)))
            } catch {
                self.minted(false)
                self.logger.error(
                    "cannot create a provider token",
                    metadata: ["key": "\(self.key.keyID)", "error": "\(error)"]
                )
                state.policy.signingFailed()
                return (Self.unusable, nil)
            }
        case .wait(let until): return (.unavailable(askAgainAt: until, detail: nil), nil)
        case .waitForClock(let until):
            let detail = "\(CredentialGrant.wrongClock): Apple calls a newly signed token expired"
            if state.loggedIssuedAt != state.policy.issuedAt {
                state.loggedIssuedAt = state.policy.issuedAt
                self.logger.error("cannot send", metadata: ["key": "\(self.key.keyID)", "reason": "\(detail)"])
            }
            return (.unavailable(askAgainAt: until, detail: detail), nil)
        case .pause: return (Self.unusable, nil)
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

    private static let unusable = CredentialGrant.paused(detail: "the key cannot be used")
}
