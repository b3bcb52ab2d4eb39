internal import ApusCore

/// Detects from the provider's answers that a route is configured wrongly. A pure state machine of one route on one
/// event loop.
///
/// The route is to stop before a whole audience fails. An answer that names the fault stops the route at once, because
/// it holds for every message. A 403 or 404 without a reason is unclear: it rejects its message, and stops the route
/// only when it repeats without any other answer between, because an answer about a token or a message shows that the
/// configuration works. What holds for one subroute alone is not counted here: see ``SubrouteFaults``. Times are
/// nanoseconds of one monotonic clock.
struct RouteFaults: Sendable {
    /// The limits from which repeated unclear answers are a fault of the route.
    struct Rules: Hashable, Sendable {
        /// The number of consecutive unclear answers that stops the route.
        var unclearMax = 10
        /// The maximum age of the first unclear answer. After that, counting starts again.
        var windowNanoseconds: UInt64 = 600_000_000_000
    }

    private let rules: Rules
    private var inARow = 0
    private var since: UInt64 = 0

    init(_ rules: Rules = Rules()) {
        precondition(rules.unclearMax >= 1)
        self.rules = rules
    }

    /// Records an accepted message.
    @inline(__always)
    mutating func recordAccepted() { self.inARow = 0 }

    /// Records an answer and returns its meaning in the light of those before it.
    ///
    /// `misconfigured(.route)` stops the route. `misconfigured(.unclear)` is returned unchanged while it may still
    /// concern a single message.
    mutating func record(_ outcome: DeliveryOutcome, now: UInt64) -> DeliveryOutcome {
        switch outcome {
        case .misconfigured(.unclear):
            // The count stays at the limit after the route resumes, because perhaps nothing was corrected: every
            // further unclear answer stops the route until another answer arrives.
            if self.inARow < self.rules.unclearMax {
                if self.inARow == 0 || now >= self.since + self.rules.windowNanoseconds {
                    (self.inARow, self.since) = (0, now)
                }
                self.inARow += 1
            }
            return self.inARow >= self.rules.unclearMax ? .misconfigured(.route) : outcome
        case .accepted, .unregistered, .suspect, .rejected: self.inARow = 0
        case .misconfigured, .deferred, .lost: break
        }
        return outcome
    }
}
