package import ApusCore

/// When to sign a new provider token, and when the trouble is not the token's.
///
/// Apple: "Refresh your token no more than once every 20 minutes and no less than once every 60 minutes"
/// (https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns). One policy
/// per key; it decides, the driver signs, shares and connects. A token is known by its `iat`.
package struct APNsTokenPolicy: Hashable, Sendable {
    /// Age at which a token is replaced.
    package static let refreshAgeMilliseconds: Int64 = 3_000_000
    /// Age at which Apple refuses it.
    package static let ageMillisecondsMax: Int64 = 3_600_000
    /// Between two tokens of one key at least.
    package static let intervalMillisecondsMin: Int64 = 1_200_000

    /// Why nothing is sent with this key until an operator has corrected it.
    package enum Alarm: Hashable, Sendable {
        /// A token just signed was called expired: our clock, or Apple's, is wrong.
        case clock
        /// No token can be signed with the key.
        case unusable
    }

    /// What to do for a request.
    package enum Action: Hashable, Sendable {
        /// Send with the token of that `iat`.
        case use(issuedAt: UnixMilliseconds)
        /// Sign a token with that `iat` and send with it.
        case sign(issuedAt: UnixMilliseconds)
        /// No token may be used or signed before then.
        case wait(until: UnixMilliseconds)
        /// Send nothing.
        case pause(Alarm)
    }

    /// The `iat` of the token in use.
    package private(set) var issuedAt: UnixMilliseconds?
    /// Why the key is paused; nil: it is not.
    package private(set) var alarm: Alarm?
    private var signNotBefore = UnixMilliseconds(.min)

    /// A key that has signed nothing yet.
    package init() {}

    /// A request wants a token.
    package mutating func tokenNeeded(now: UnixMilliseconds) -> Action {
        if let alarm { return .pause(alarm) }
        guard let issuedAt else { return self.sign(now: now) }
        let age = now.milliseconds(since: issuedAt)
        if age < Self.refreshAgeMilliseconds { return .use(issuedAt: issuedAt) }
        if now >= self.signNotBefore { return self.sign(now: now) }
        return age < Self.ageMillisecondsMax ? .use(issuedAt: issuedAt) : .wait(until: self.signNotBefore)
    }

    /// Another process of ours shares a token; the younger one is used.
    package mutating func tokenShared(issuedAt: UnixMilliseconds) {
        guard self.issuedAt.map({ $0 < issuedAt }) ?? true else { return }
        self.adopt(issuedAt)
    }

    /// A token that was just signed gives way to one that another process of ours has left first: it was never used.
    package mutating func tokenYielded(to issuedAt: UnixMilliseconds) { self.adopt(issuedAt) }

    /// APNs answered `ExpiredProviderToken` to a request sent with the token of that `iat`. The connection is unusable: the
    /// request goes again on a new one, with whatever this says.
    package mutating func tokenExpired(issuedAt: UnixMilliseconds, now: UnixMilliseconds) -> Action {
        if let alarm { return .pause(alarm) }
        // One of many answers to an older token: it has been replaced already.
        guard let current = self.issuedAt, current <= issuedAt else { return self.tokenNeeded(now: now) }
        if now >= self.signNotBefore { return self.sign(now: now) }
        guard now.milliseconds(since: current) < Self.intervalMillisecondsMin else {
            return .wait(until: self.signNotBefore)
        }
        self.alarm = .clock
        return .pause(.clock)
    }

    /// APNs answered `TooManyProviderTokenUpdates`: no new token for the longest interval, the one in use goes on.
    package mutating func updatedTooOften(now: UnixMilliseconds) {
        self.signNotBefore = max(self.signNotBefore, now.advanced(byMilliseconds: Self.intervalMillisecondsMin))
    }

    /// Signing with the key failed. (A key that APNs does not take, `InvalidProviderToken` and its kin, stops the gateway, not the policy.)
    package mutating func signingFailed() { self.alarm = .unusable }

    /// An operator has corrected it: sending goes on, within the same interval between tokens.
    package mutating func restored() { self.alarm = nil }

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
