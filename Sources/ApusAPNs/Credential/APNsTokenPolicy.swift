package import ApusCore

/// Decides when to sign a new provider token, and when a refusal is not the token's fault.
///
/// Apple: "Refresh your token no more than once every 20 minutes and no less than once every 60 minutes"
/// (https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns). There
/// is one policy per key; it decides, the driver signs, shares and connects. A token is identified by its `iat`.
package struct APNsTokenPolicy: Hashable, Sendable {
    /// The age at which a token is replaced.
    package static let refreshAgeMilliseconds: Int64 = 3_000_000
    /// The age from which Apple refuses a token.
    package static let ageMillisecondsMax: Int64 = 3_600_000
    /// The minimum interval between two tokens of one key.
    package static let intervalMillisecondsMin: Int64 = 1_200_000

    /// The actions for a request.
    package enum Action: Hashable, Sendable {
        /// Send with the token of the given `iat`.
        case use(issuedAt: UnixMilliseconds)
        /// Sign a token with the given `iat` and send with it.
        case sign(issuedAt: UnixMilliseconds)
        /// Wait: no token may be used or signed before the given time.
        case wait(until: UnixMilliseconds)
        /// Wait as well: Apple calls a newly signed token expired, so the clock of this machine is wrong.
        case waitForClock(until: UnixMilliseconds)
        /// Send nothing: the key cannot sign.
        case pause
    }

    /// The `iat` of the token in use.
    package private(set) var issuedAt: UnixMilliseconds?
    /// True when the key cannot sign: it sends nothing until an operator has corrected it.
    package private(set) var isUnusable = false
    private var signNotBefore = UnixMilliseconds(.min)

    /// Creates the policy of a key that has signed nothing yet.
    package init() {}

    /// Returns the action for a request that needs a token.
    package mutating func tokenNeeded(now: UnixMilliseconds) -> Action {
        if self.isUnusable { return .pause }
        guard let issuedAt else { return self.sign(now: now) }
        let age = now.milliseconds(since: issuedAt)
        guard age > -Self.intervalMillisecondsMin else {
            // The clock was ahead when it was signed: Apple takes no token from the future.
            self.signNotBefore = UnixMilliseconds(.min)
            return self.sign(now: now)
        }
        if age < Self.refreshAgeMilliseconds { return .use(issuedAt: issuedAt) }
        if now >= self.signNotBefore { return self.sign(now: now) }
        return age < Self.ageMillisecondsMax ? .use(issuedAt: issuedAt) : .wait(until: self.signNotBefore)
    }

    /// Records a token that another process shares; the younger one is used.
    package mutating func tokenShared(issuedAt: UnixMilliseconds) {
        guard self.issuedAt.map({ $0 < issuedAt }) ?? true else { return }
        self.adopt(issuedAt)
    }

    /// Discards a newly signed token that was never used, in favour of one that another process stored first.
    package mutating func tokenYielded(to issuedAt: UnixMilliseconds) { self.adopt(issuedAt) }

    /// Handles the answer `ExpiredProviderToken` to a request with the token of the given `iat`. The connection is
    /// unusable: the request is repeated on a new one, with the returned action.
    package mutating func tokenExpired(issuedAt: UnixMilliseconds, now: UnixMilliseconds) -> Action {
        if self.isUnusable { return .pause }
        // This is one of many answers to an older token, which has been replaced already.
        guard let current = self.issuedAt, current <= issuedAt else { return self.tokenNeeded(now: now) }
        guard now.milliseconds(since: current) > -Self.intervalMillisecondsMin else {
            return self.tokenNeeded(now: now)
        }
        if now >= self.signNotBefore { return self.sign(now: now) }
        let isNew = now.milliseconds(since: current) < Self.intervalMillisecondsMin
        return isNew ? .waitForClock(until: self.signNotBefore) : .wait(until: self.signNotBefore)
    }

    /// Handles the answer `TooManyProviderTokenUpdates`: no new token is signed for the longest interval, the current one stays in use.
    package mutating func updatedTooOften(now: UnixMilliseconds) {
        self.signNotBefore = max(self.signNotBefore, now.advanced(byMilliseconds: Self.intervalMillisecondsMin))
    }

    /// Records that signing failed: there is no token. (A key that APNs refuses, `InvalidProviderToken` and similar, stops the gateway, not the policy.)
    package mutating func signingFailed() {
        self.isUnusable = true
        self.issuedAt = nil
        self.signNotBefore = UnixMilliseconds(.min)
    }

    /// Resumes after an operator's correction, within the same interval between tokens.
    package mutating func restored() { self.isUnusable = false }

    private mutating func sign(now: UnixMilliseconds) -> Action {
        guard now >= self.signNotBefore else { return .wait(until: self.signNotBefore) }
        let issuedAt = UnixMilliseconds(seconds: now.seconds)
        self.adopt(issuedAt)
        return .sign(issuedAt: issuedAt)
    }

    private mutating func adopt(_ issuedAt: UnixMilliseconds) {
        self.issuedAt = issuedAt
        let next = issuedAt.advanced(byMilliseconds: Self.intervalMillisecondsMin)
        self.signNotBefore = max(self.signNotBefore, next)
    }
}
