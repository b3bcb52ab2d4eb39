package import ApusCore

/// How a provider wants to be tried again, by what it answered.
package struct RetryRules: Hashable, Sendable {
    /// The provider is in trouble.
    package let unavailable: RetryPolicy
    /// Too many requests, of whatever scope.
    package let rateLimited: RetryPolicy
    /// The connection's trouble: another one may work.
    package let connection: RetryPolicy
    /// How long a message is tried, from its first attempt; nil: as the policies say.
    package let budgetMilliseconds: Int64?
    /// How long a message waits after a refused rate whose answer says nothing about it; nil: as the policy says.
    package let quotaWaitMilliseconds: Int64?

    /// Rules; those for a provider that says nothing of the kind are cautious.
    package init(
        unavailable: RetryPolicy = Self.cautious,
        rateLimited: RetryPolicy = Self.cautious,
        connection: RetryPolicy = Self.cautious,
        budgetMilliseconds: Int64? = nil,
        quotaWaitMilliseconds: Int64? = nil,
    ) {
        self.unavailable = unavailable
        self.rateLimited = rateLimited
        self.connection = connection
        self.budgetMilliseconds = budgetMilliseconds
        self.quotaWaitMilliseconds = quotaWaitMilliseconds
    }

    /// Half a minute at first, then longer, for some hours at most.
    package static let cautious = RetryPolicy(
        baseMilliseconds: 30_000,
        floorMilliseconds: 10_000,
        capMilliseconds: 900_000,
        attemptsMax: 16,
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

    /// The policy for what came back; nil when it is final, or when somebody must correct the configuration first.
    package func policy(for outcome: DeliveryOutcome) -> RetryPolicy? {
        switch outcome {
        case .accepted, .unregistered, .suspect, .rejected: nil
        case .deferred(let deferral): self.policy(for: deferral)
        case .lost: self.connection
        case .misconfigured(.staleCredential), .misconfigured(.wrongConnection): Self.afterRenewal
        case .misconfigured(.renewedTooOften): Self.afterTooManyRenewals
        case .misconfigured(.credential), .misconfigured(.route), .misconfigured(.forbidden), .misconfigured(.unclear),
            .misconfigured(.thirdPartyAuth):
            nil
        }
    }

    private func policy(for deferral: Deferral) -> RetryPolicy {
        if deferral.needsNewConnection { return self.connection }
        return switch deferral.reason {
        case .rateLimited: self.rateLimited
        case .timeout, .connection: self.connection
        default: self.unavailable
        }
    }

    /// When to try again, if at all.
    ///
    /// - Parameters:
    ///   - attempt: how many tries there were, from 1.
    ///   - firstAttemptAt: when the first one began: the budget counts from then.
    ///   - expiresAt: when the message loses its worth; nil: never.
    ///   - draw: a random number in 0..<1.
    /// - Returns: nil when the outcome is final or waits for an operator.
    package func decide(
        _ outcome: DeliveryOutcome,
        attempt: UInt32,
        firstAttemptAt: UnixMilliseconds,
        now: UnixMilliseconds,
        expiresAt: UnixMilliseconds?,
        draw: Double,
    ) -> RetryPolicy.Decision? {
        guard let policy = self.policy(for: outcome) else { return nil }
        var retryAfter: Int64?
        if case .deferred(let deferral) = outcome {
            let quotaWait = deferral.reason == .rateLimited ? self.quotaWaitMilliseconds : nil
            retryAfter = deferral.retryAfterMilliseconds ?? quotaWait
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
        if let budgetMilliseconds, case .retry(let time) = decision,
            time > firstAttemptAt.advanced(byMilliseconds: budgetMilliseconds)
        {
            return .giveUp
        }
        return decision
    }
}
