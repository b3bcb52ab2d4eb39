package import ApusCore

/// An OAuth access token.
package struct FCMAccessToken: Hashable, Sendable {
    /// The token. A secret: whoever has it can send until it expires.
    package let text: String
    /// When it was granted.
    package let grantedAt: UnixMilliseconds
    /// When it expires.
    package let expiresAt: UnixMilliseconds

    /// The value of `authorization`.
    package var authorization: String { "Bearer \(self.text)" }
}

/// When to ask for an access token, and when the trouble is not the token's.
///
/// One policy per service account; it decides, the driver asks. Never more than one request is under way; a token that is
/// still valid serves whatever happens to the request for its successor.
package struct FCMTokenPolicy: Hashable, Sendable {
    /// How long before its end a token is replaced.
    package static let refreshAheadMilliseconds: Int64 = 300_000
    /// A token rejected within this time after one was rejected before it: it is not the token.
    package static let rejectedAgainMilliseconds: Int64 = 300_000
    /// How the token endpoint is tried again; it goes on for as long as a token is needed.
    package static let retry = RetryPolicy(
        baseMilliseconds: 1_000,
        floorMilliseconds: 500,
        capMilliseconds: 60_000,
        attemptsMax: .max,
    )

    /// Why nothing is sent with this account until an operator has corrected it.
    package enum Alarm: Hashable, Sendable {
        /// The token endpoint refuses the account.
        case refused(OAuthAnswer.Refusal, detail: String)
        /// FCM takes no token of this account, however new.
        case rejectedAgain
    }

    /// What to do for a request.
    package enum Action: Hashable, Sendable {
        /// Send with it.
        case use(FCMAccessToken)
        /// Send with it, and ask for its successor.
        case useAndFetch(FCMAccessToken)
        /// Ask for a token, and hold the request until it comes.
        case fetch
        /// A token has been asked for: hold the request.
        case wait
        /// The last request for a token failed: hold the request, and ask again then.
        case waitAndFetch(at: UnixMilliseconds)
        /// Send nothing.
        case pause(Alarm)
    }

    private var token: FCMAccessToken?
    private var isFetching = false
    private var failures: UInt32 = 0
    private var fetchNotBefore = UnixMilliseconds(.min)
    /// Whether a token was rejected and its successor has not proved itself yet.
    private var followsRejection = false
    /// Why the account is paused; nil: it is not.
    package private(set) var alarm: Alarm?

    /// An account without a token.
    package init() {}

    /// A request wants a token.
    package mutating func tokenNeeded(now: UnixMilliseconds) -> Action {
        if let alarm { return .pause(alarm) }
        if let token, now < token.expiresAt {
            let left = token.expiresAt.milliseconds(since: now)
            guard left <= Self.refreshAheadMilliseconds, !self.isFetching, now >= self.fetchNotBefore else {
                return .use(token)
            }
            self.isFetching = true
            return .useAndFetch(token)
        }
        if self.isFetching { return .wait }
        guard now >= self.fetchNotBefore else { return .waitAndFetch(at: self.fetchNotBefore) }
        self.isFetching = true
        return .fetch
    }

    /// The token endpoint answered.
    ///
    /// - Parameter draw: a random number in 0..<1.
    /// - Returns: what a waiting request does now.
    package mutating func answered(_ answer: OAuthAnswer, now: UnixMilliseconds, draw: Double) -> Action {
        self.isFetching = false
        switch answer {
        case .granted(let text, let seconds):
            self.failures = 0
            self.fetchNotBefore = UnixMilliseconds(.min)
            self.token = FCMAccessToken(
                text: text,
                grantedAt: now,
                expiresAt: now.advanced(byMilliseconds: seconds * 1_000),
            )
        case .refused(let refusal, let detail):
            // The token at hand is none the worse for it: it serves until its end, and the account is asked for again till then.
            if let token, now < token.expiresAt {
                self.failed(retryAfter: nil, now: now, draw: draw)
            } else {
                self.alarm = .refused(refusal, detail: detail)
            }
        case .unavailable(let retryAfter): self.failed(retryAfter: retryAfter, now: now, draw: draw)
        }
        return self.tokenNeeded(now: now)
    }

    /// The request for a token got no answer.
    ///
    /// - Returns: what a waiting request does now.
    package mutating func unanswered(now: UnixMilliseconds, draw: Double) -> Action {
        self.answered(.unavailable(retryAfterMilliseconds: nil), now: now, draw: draw)
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
        self.fetchNotBefore = time
    }

    /// FCM answered `UNAUTHENTICATED` to a request sent with that token. It goes again with whatever this says.
    package mutating func tokenRejected(_ rejected: FCMAccessToken, now: UnixMilliseconds) -> Action {
        // One of many answers to an older token: it has been replaced already, or is about to be.
        guard self.alarm == nil, self.token == rejected else { return self.tokenNeeded(now: now) }
        if self.followsRejection, now.milliseconds(since: rejected.grantedAt) < Self.rejectedAgainMilliseconds {
            self.alarm = .rejectedAgain
            return .pause(.rejectedAgain)
        }
        self.followsRejection = true
        self.token = nil
        return self.tokenNeeded(now: now)
    }

    /// An operator has corrected it: a new token is asked for.
    package mutating func restored() {
        let wasFetching = self.isFetching
        self = FCMTokenPolicy()
        self.isFetching = wasFetching
    }
}
