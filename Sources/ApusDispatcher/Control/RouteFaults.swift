internal import ApusCore

/// Tells when the provider's answers say that a route is configured wrongly, so that the route stops before an audience is spent on
/// it: a pure machine of one route on one event loop.
///
/// What names the fault (`BadTopic` and its kin: a wrong topic is wrong for everybody) stops the route at once. What only may be one,
/// a 403 or 404 without a word, refuses its message, and stops the route when it comes again and again with no other answer between:
/// an answer about a token or a message shows that the configuration works. Times are nanoseconds of one monotonic clock.
struct RouteFaults: Sendable {
    /// When repetition is a fault of the route.
    struct Rules: Hashable, Sendable {
        /// Answers that may be a fault, in a row: the last of them stops the route.
        var unclearMax = 10
        /// A row that began longer ago is begun anew.
        var windowNanoseconds: UInt64 = 600_000_000_000
    }

    private let rules: Rules
    private var inARow = 0
    private var since: UInt64 = 0

    init(_ rules: Rules = Rules()) {
        precondition(rules.unclearMax >= 1)
        self.rules = rules
    }

    /// A good answer: the path of nearly all.
    @inline(__always)
    mutating func recordAccepted() { self.inARow = 0 }

    /// What an answer means after those before it. `misconfigured(.route)` stops the route; `misconfigured(.unclear)` is left as it is
    /// only while it may still be about one message.
    mutating func record(_ outcome: DeliveryOutcome, now: UInt64) -> DeliveryOutcome {
        switch outcome {
        case .misconfigured(.unclear):
            // Who let the route go on may have corrected nothing: what stopped it goes on until something else is answered.
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
