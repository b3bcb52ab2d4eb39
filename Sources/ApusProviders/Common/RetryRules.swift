package import ApusCore

/// How each provider wants to be tried again, by what it answered.
///
/// Apple's page lets a 500 or 503 be tried again fifteen minutes later, and with back-off
/// (https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns). Our tries begin earlier, a minute
/// or two after the first: most trouble is a single server's and short, and a notification a minute late is worth more than one a quarter of
/// an hour late. They back off from there to Apple's own interval, and go on for at least as long as Apple asks to wait, so that what lasts
/// is outlasted too. Google: never before ten seconds, with jitter, no longer than an hour
/// (https://firebase.google.com/docs/cloud-messaging/scale-fcm).
package enum RetryRules {
    /// How long Google is tried, from the first attempt.
    package static let googleBudgetMilliseconds: Int64 = 3_600_000

    /// How long a message waits after a 429 of Google's that says nothing about it.
    /// Source: https://firebase.google.com/docs/cloud-messaging/scale-fcm
    package static let googleQuotaWaitMilliseconds: Int64 = 60_000

    /// Apple in trouble: after minutes, earlier than Apple asks. Sixteen tries a minute apart at least: fifteen minutes at the very least.
    package static let appleUnavailable = RetryPolicy(
        baseMilliseconds: 120_000,
        floorMilliseconds: 60_000,
        capMilliseconds: 900_000,
        attemptsMax: 16,
    )
    /// Too many to one device.
    package static let appleDeviceRate = RetryPolicy(
        baseMilliseconds: 30_000,
        floorMilliseconds: 5_000,
        capMilliseconds: 900_000,
        attemptsMax: 10,
    )
    /// The connection's trouble, not Apple's: another one may work at once.
    package static let appleConnection = RetryPolicy(
        baseMilliseconds: 2_000,
        floorMilliseconds: 100,
        capMilliseconds: 300_000,
        attemptsMax: 16,
    )
    /// Google in trouble.
    package static let googleUnavailable = RetryPolicy(
        baseMilliseconds: 20_000,
        floorMilliseconds: 10_000,
        capMilliseconds: 900_000,
        attemptsMax: 16,
    )
    /// Google's quotas: exponential from a minute on.
    package static let googleRate = RetryPolicy(
        baseMilliseconds: 60_000,
        floorMilliseconds: 10_000,
        capMilliseconds: 900_000,
        attemptsMax: 16,
    )
    /// Changes of Google's topics, of which a project may make 3,000 a second: exponential from Google's shortest wait on
    /// (https://firebase.google.com/docs/cloud-messaging/topic-messaging).
    package static let googleTopics = RetryPolicy(
        baseMilliseconds: 20_000,
        floorMilliseconds: 10_000,
        capMilliseconds: 120_000,
        attemptsMax: 6,
    )
    /// A new credential or connection is on its way: soon, and not often.
    package static let afterRenewal = RetryPolicy(
        baseMilliseconds: 2_000,
        floorMilliseconds: 100,
        capMilliseconds: 60_000,
        attemptsMax: 6,
    )
    /// Too many new credentials: the old one must do until twenty minutes have passed. Ten tries two and a half minutes apart at least:
    /// whatever the draw, the last comes after them.
    /// Source: https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
    package static let afterTooManyRenewals = RetryPolicy(
        baseMilliseconds: 300_000,
        floorMilliseconds: 150_000,
        capMilliseconds: 1_200_000,
        attemptsMax: 10,
    )

    /// The policy for what came back; nil when it is final, or when somebody must mend the set-up first.
    package static func policy(for outcome: DeliveryOutcome, at provider: Provider) -> RetryPolicy? {
        switch outcome {
        case .accepted, .unregistered, .suspect, .rejected: nil
        case .deferred(let deferral): Self.policy(for: deferral, at: provider)
        case .lost: provider == .apns ? Self.appleConnection : Self.googleUnavailable
        case .misconfigured(.staleCredential), .misconfigured(.wrongConnection): Self.afterRenewal
        case .misconfigured(.renewedTooOften): Self.afterTooManyRenewals
        case .misconfigured(.credential), .misconfigured(.route), .misconfigured(.forbidden), .misconfigured(.unclear),
            .misconfigured(.partnerCredential):
            nil
        }
    }

    private static func policy(for deferral: Deferral, at provider: Provider) -> RetryPolicy {
        switch provider {
        case .apns:
            if deferral.needsNewConnection { return Self.appleConnection }
            switch deferral.reason {
            case .rateLimited: return Self.appleDeviceRate
            case .timeout, .connection: return Self.appleConnection
            default: return Self.appleUnavailable
            }
        case .fcm, .webpush: return deferral.reason == .rateLimited ? Self.googleRate : Self.googleUnavailable
        }
    }

    /// When to try again, if at all.
    ///
    /// - Parameters:
    ///   - attempt: how many tries there were, from 1.
    ///   - firstAttemptAt: when the first one began: Google is given up an hour later.
    ///   - expiresAt: when the message loses its worth; nil: never.
    ///   - draw: a random number in 0..<1.
    /// - Returns: nil when the outcome is final or waits for an operator.
    package static func decide(
        _ outcome: DeliveryOutcome,
        at provider: Provider,
        attempt: UInt32,
        firstAttemptAt: UnixMilliseconds,
        now: UnixMilliseconds,
        expiresAt: UnixMilliseconds?,
        draw: Double,
    ) -> RetryPolicy.Decision? {
        guard let policy = Self.policy(for: outcome, at: provider) else { return nil }
        var retryAfter: Int64?
        if case .deferred(let deferral) = outcome {
            let isQuota = provider != .apns && deferral.reason == .rateLimited
            retryAfter = deferral.retryAfterMilliseconds ?? (isQuota ? Self.googleQuotaWaitMilliseconds : nil)
            if deferral.isFree {
                if let expiresAt, now >= expiresAt { return .expire }
                return .retry(notBefore: now)
            }
        }
        let decision = policy.decide(
            attempt: attempt,
            retryAfterMilliseconds: retryAfter,
            now: now,
            expiresAt: expiresAt,
            draw: draw,
        )
        let giveUpAt = firstAttemptAt.advanced(byMilliseconds: Self.googleBudgetMilliseconds)
        if provider != .apns, case .retry(let time) = decision, time > giveUpAt { return .giveUp }
        return decision
    }
}
