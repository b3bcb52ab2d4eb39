/// What the client does by itself after a command failed. Pure: the random number comes in.
package enum RetryDecision: Hashable {
    /// Send it again after that wait.
    case resend(after: Duration)
    /// Tell the caller.
    case fail

    /// The wait after a refusal is drawn from 20 ms first: a slot in migration needs about that long.
    package static let base: Duration = .milliseconds(20)
    /// The longest wait between two tries.
    package static let cap: Duration = .milliseconds(500)

    /// Decides.
    ///
    /// - Parameters:
    ///   - error: why the command failed.
    ///   - attempt: how many tries there were, from 1.
    ///   - idempotent: whether executing it twice is the same as once.
    ///   - left: how much patience is left.
    ///   - draw: a random number in 0..<1.
    package init(error: RedisError, attempt: Int, idempotent: Bool, left: Duration, draw: Double) {
        precondition(attempt >= 1 && draw >= 0 && draw < 1)
        guard error.isRetryable || (idempotent && error.isOutcomeUnknown) else {
            self = .fail
            return
        }
        let ceiling = min(Self.cap, Self.base * (1 << min(attempt, 10)))
        // Half fixed, half drawn: never at once, so that a server in trouble is not hammered.
        let wait = ceiling * (0.5 + draw / 2)
        self = wait < left ? .resend(after: wait) : .fail
    }
}
