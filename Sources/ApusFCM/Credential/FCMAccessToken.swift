package import ApusCore

/// An OAuth access token.
package struct FCMAccessToken: Hashable, Sendable {
    /// The token. It is a secret: its holder can send until it expires.
    package let text: String
    /// The time at which the token was granted.
    let grantedAt: UnixMilliseconds
    /// The time at which the token expires.
    package let expiresAt: UnixMilliseconds

    /// The value of the header `authorization`.
    package var authorization: String { "Bearer \(self.text)" }
}

/// Decides when to request an access token, and when a refusal is not the token's fault.
///
/// There is one policy per service account; it decides, the driver sends requests. Never more than one request is under
/// way; a token that is still valid serves whatever happens to the request for its successor.
package struct FCMTokenPolicy: Hashable, Sendable {
    /// The time before its expiry at which a token is replaced.
    package static let refreshAheadMilliseconds: Int64 = 300_000
    /// The time after a rejection within which a second rejected token shows that the token is not at fault.
    static let rejectedAgainMilliseconds: Int64 = 300_000
    /// The retry policy for the token endpoint; it continues for as long as a token is needed.
    package static let retry = RetryPolicy(
        baseMilliseconds: 1_000,
        floorMilliseconds: 500,
        capMilliseconds: 60_000,
        attemptsMax: .max,
        retryAfterMillisecondsMax: 3_600_000,
    )

    /// The reasons for which an account sends nothing until an operator has corrected it.
    package enum Alarm: Hashable, Sendable {
        /// The token endpoint refuses the account.
        case refused(OAuthAnswer.Refusal, detail: String)
        /// FCM accepts no token of this account, however new.
        case rejectedAgain
    }

    /// The actions for a request.
    package enum Action: Hashable, Sendable {
        /// Send with the token.
        case use(FCMAccessToken)
        /// Send with the token, and request its successor.
        case useAndFetch(FCMAccessToken)
        /// Request a token, and hold the request until it arrives.
        case fetch
        /// Hold the request: a token has been requested.
        case wait
        /// The last request for a token failed: hold the request, and ask again at the given time.
        case waitAndFetch(at: UnixMilliseconds)
        /// Send nothing.
        case pause(Alarm)
    }

    private var token: FCMAccessToken?
    private var isFetching = false
    private var failures: UInt32 = 0
    private var fetchNotBefore = UnixMilliseconds(.min)
    /// The length of the wait that ends at `fetchNotBefore`, when it was set.
    private var fetchWaitMilliseconds: Int64 = 0
    /// True after a token was rejected, until its successor has served for longer than a rejection takes to come.
    private var followsRejection = false
    /// The reason why the account is paused; nil while it is not.
    package private(set) var alarm: Alarm?

    /// Creates the policy of an account without a token.
    package init() {}

    /// Returns the action for a request that needs a token.
    package mutating func tokenNeeded(now: UnixMilliseconds) -> Action {
        if let alarm { return .pause(alarm) }
        if let token, now < token.expiresAt {
            let left = token.expiresAt.milliseconds(since: now)
            guard left <= Self.refreshAheadMilliseconds, !self.isFetching, self.mayFetch(now) else {
                return .use(token)
            }
            self.isFetching = true
            return .useAndFetch(token)
        }
        if self.isFetching { return .wait }
        guard self.mayFetch(now) else { return .waitAndFetch(at: self.fetchNotBefore) }
        self.isFetching = true
        return .fetch
    }

    /// Returns true when the wait for the next request is over. If more is left than was to be waited, the clock was set back.
    private func mayFetch(_ now: UnixMilliseconds) -> Bool {
        let left = self.fetchNotBefore.milliseconds(since: now)
        return left <= 0 || left > self.fetchWaitMilliseconds
    }

    private mutating func wait(_ milliseconds: Int64, from now: UnixMilliseconds) {
        self.fetchWaitMilliseconds = milliseconds
        self.fetchNotBefore = now.advanced(byMilliseconds: milliseconds)
    }

    /// Handles an answer of the token endpoint.
    ///
    /// - Parameter draw: a random number in 0..<1.
    /// - Returns: the action for a waiting request.
    package mutating func answered(_ answer: OAuthAnswer, now: UnixMilliseconds, draw: Double) -> Action {
        self.isFetching = false
        switch answer {
        case .granted(let text, let seconds):
            self.failures = 0
            if let token, now.milliseconds(since: token.grantedAt) >= Self.rejectedAgainMilliseconds {
                self.followsRejection = false
            }
            // A token that lives for less than the time ahead of which others are renewed is not renewed at once.
            let isShort = seconds * 1_000 <= Self.refreshAheadMilliseconds
            self.wait(isShort ? seconds * 1_000 / 2 : 0, from: now)
            self.token = FCMAccessToken(
                text: text,
                grantedAt: now,
                expiresAt: now.advanced(byMilliseconds: seconds * 1_000),
            )
        case .refused(let refusal, let detail):
            // The current token is not affected: it serves until its expiry, and new ones are requested until then.
            if let token, now < token.expiresAt {
                self.failed(retryAfter: nil, now: now, draw: draw)
            } else {
                self.alarm = .refused(refusal, detail: detail)
            }
        case .unavailable(let retryAfter, _): self.failed(retryAfter: retryAfter, now: now, draw: draw)
        }
        return self.tokenNeeded(now: now)
    }

    private mutating func failed(retryAfter: Int64?, now: UnixMilliseconds, draw: Double) {
        self.failures = min(self.failures + 1, 1_000)
        let decision = Self.retry.decide(
            attempt: self.failures,
            retryAfterMilliseconds: retryAfter.map { min($0, Self.retry.retryAfterMillisecondsMax) },
            now: now,
            expiresAt: nil,
            draw: draw,
        )
        guard case .retry(let time) = decision else { preconditionFailure("attempts are not bounded") }
        self.wait(time.milliseconds(since: now), from: now)
    }

    /// Handles the answer `UNAUTHENTICATED` to a request with the given token. The request is repeated with the returned action.
    package mutating func tokenRejected(_ rejected: FCMAccessToken, now: UnixMilliseconds) -> Action {
        // This is one of many answers to an older token, which has been or is being replaced.
        guard self.alarm == nil, self.token == rejected else { return self.tokenNeeded(now: now) }
        if self.followsRejection, now.milliseconds(since: rejected.grantedAt) < Self.rejectedAgainMilliseconds {
            self.alarm = .rejectedAgain
            return .pause(.rejectedAgain)
        }
        self.followsRejection = true
        self.token = nil
        return self.tokenNeeded(now: now)
    }

    /// Resumes after an operator's correction: a new token is requested.
    package mutating func restored() {
        let wasFetching = self.isFetching
        self = FCMTokenPolicy()
        self.isFetching = wasFetching
    }
}
