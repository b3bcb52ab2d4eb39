/// Decides what the client does after a command has failed. Pure: the random number is an argument.
package enum RetryDecision: Hashable {
    /// Send the command again after the given wait.
    case resend(after: Duration)
    /// Return the error to the caller.
    case fail

    /// The shortest first wait after a refusal, which is 20 to 40 ms: a slot migration takes about that long.
    package static let base: Duration = .milliseconds(20)
    /// The upper bound of every wait.
    package static let cap: Duration = .milliseconds(500)

    /// Decides what to do next.
    ///
    /// - Parameters:
    ///   - error: the reason of the failure.
    ///   - attempt: the number of attempts so far, from 1.
    ///   - idempotent: true when executing the command twice has the same effect as once.
    ///   - left: the time left for repetitions.
    ///   - draw: a random number in 0..<1.
    package init(error: RedisError, attempt: Int, idempotent: Bool, left: Duration, draw: Double) {
        precondition(attempt >= 1 && draw >= 0 && draw < 1)
        guard error.isRetryable || (idempotent && error.isOutcomeUnknown) else {
            self = .fail
            return
        }
        let ceiling = min(Self.cap, Self.base * (1 << min(attempt, 10)))
        // Half of the wait is fixed, half is random: the command is never repeated at once, so that a server in trouble is not overloaded.
        let wait = ceiling * (0.5 + draw / 2)
        self = wait < left ? .resend(after: wait) : .fail
    }
}
