package import ApusCore

/// Holds a provider's retry policies by kind of answer.
package struct RetryRules: Hashable, Sendable {
    /// The policy for a provider in trouble. A message that lives for less than its first wait follows ``connection`` where this one leaves it
    /// no further attempt.
    package let unavailable: RetryPolicy
    /// The policy for too many requests, of whatever scope.
    package let rateLimited: RetryPolicy
    /// The policy for failures of the connection: another one may work.
    package let connection: RetryPolicy
    /// The time for which a message is retried, from its first attempt on; it ends nobody before the attempt that follows
    /// ``unbudgetedAttempts``, however long the provider asks to wait. Nil for the policies' own limits.
    package let budgetMilliseconds: Int64?
    /// The wait after a refused rate whose answer names none; nil for the policy's own wait.
    package let quotaWaitMilliseconds: Int64?

    /// Creates rules; the defaults are cautious.
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

    /// The number of attempts after each of which there is another, however much time has passed: the budget goes on while a route is paused,
    /// and everybody has five attempts.
    package static let unbudgetedAttempts: UInt32 = 4

    /// Retries after half a minute at first, then less often, for some hours at most.
    static let cautious = RetryPolicy(
        baseMilliseconds: 30_000,
        floorMilliseconds: 10_000,
        capMilliseconds: 900_000,
        attemptsMax: 16,
    )

    /// Retries soon and rarely, while a new credential or connection is on its way.
    static let afterRenewal = RetryPolicy(
        baseMilliseconds: 2_000,
        floorMilliseconds: 100,
        capMilliseconds: 60_000,
        attemptsMax: 6,
    )
    /// Retries after too many new credentials: the old one must serve until twenty minutes have passed. The ten
    /// attempts are at least two and a half minutes apart, so the last one always comes after that.
    /// Source: https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
    static let afterTooManyRenewals = RetryPolicy(
        baseMilliseconds: 300_000,
        floorMilliseconds: 150_000,
        capMilliseconds: 1_200_000,
        attemptsMax: 10,
    )

    /// Returns the policy for an outcome; nil when the outcome is final, or when an operator must correct the configuration first.
    package func policy(for outcome: DeliveryOutcome) -> RetryPolicy? {
        switch outcome {
        case .accepted, .unregistered, .suspect, .rejected: nil
        case .deferred(let deferral): self.policy(for: deferral)
        case .lost: self.connection
        case .misconfigured(.staleCredential), .misconfigured(.wrongConnection): Self.afterRenewal
        case .misconfigured(.renewedTooOften): Self.afterTooManyRenewals
        case .misconfigured(.credential), .misconfigured(.route), .misconfigured(.subroute), .misconfigured(.forbidden),
            .misconfigured(.unclear), .misconfigured(.thirdPartyAuth):
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

    /// Decides whether and when to retry.
    ///
    /// - Parameters:
    ///   - attempt: the number of attempts so far, from 1.
    ///   - firstAttemptAt: the start of the first attempt, from which the budget counts.
    ///   - expiresAt: the time at which the message expires; nil for never.
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
        let budget = attempt > Self.unbudgetedAttempts ? self.budgetMilliseconds : nil
        let latest = budget.map { firstAttemptAt.advanced(byMilliseconds: $0) }
        let decision = policy.decide(
            attempt: attempt,
            retryAfterMilliseconds: retryAfter,
            now: now,
            expiresAt: expiresAt,
            latest: latest,
            draw: draw,
        )
        if decision == .expire, self.isBrief(outcome, firstAttemptAt: firstAttemptAt, expiresAt: expiresAt) {
            let sooner = self.connection.decide(
                attempt: attempt,
                retryAfterMilliseconds: nil,
                now: now,
                expiresAt: expiresAt,
                latest: latest,
                draw: draw,
            )
            if case .retry = sooner { return sooner }
        }
        return decision
    }

    /// Returns true for trouble of a provider that asks for no wait, about a message that lives for less than the first wait after such trouble,
    /// such as a call: most trouble is a single server's and short.
    private func isBrief(
        _ outcome: DeliveryOutcome,
        firstAttemptAt: UnixMilliseconds,
        expiresAt: UnixMilliseconds?,
    ) -> Bool {
        guard case .deferred(let deferral) = outcome, deferral.reason == .providerUnavailable,
            deferral.retryAfterMilliseconds == nil, let expiresAt
        else { return false }
        return expiresAt.milliseconds(since: firstAttemptAt) < self.unavailable.baseMilliseconds
    }
}
