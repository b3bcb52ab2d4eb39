internal import ApusStreams

/// Decides which subroutes of a route wait because the provider refuses them, and when a message asks again.
///
/// A pure state machine of one route on one event loop. A subroute is refused by one answer, such as `TopicDisallowed`, because the answer
/// holds for every message that goes by it. Its messages then wait, and the route's others go on. When the wait is over, the messages that
/// come first ask on behalf of the others, one recipient each. The wait doubles with each refusal, because too many refused requests may
/// make a provider disconnect. Times are nanoseconds of one monotonic clock; random numbers are arguments.
struct SubrouteFaults: Sendable {
    /// The permission of a message that goes by a subroute.
    enum Standing: Hashable, Sendable {
        /// It is sent.
        case open
        /// It is sent to one recipient at a time, until the provider accepts one.
        case asks
        /// It waits until that time, and is not sent.
        case waits(until: UInt64)
    }

    private struct Backoff: Sendable {
        var wait: UInt64
        var asksAt: UInt64
    }

    private let rules: FaultRetests.Rules
    /// The subroutes that this event loop knows to be refused.
    private var backoffs: [String: Backoff] = [:]
    /// The subroutes that are refused as far as the fleet knows.
    private var refusedByFleet: Set<String> = []
    /// The provider's answers by subroute that Redis has not recorded yet.
    private var news: [String: RateLimitRequest.SubrouteAnswer] = [:]

    init(_ rules: FaultRetests.Rules = FaultRetests.Rules()) { self.rules = rules }

    /// True when no subroute is refused.
    @inline(__always)
    var isQuiet: Bool { self.backoffs.isEmpty && self.refusedByFleet.isEmpty }

    /// Returns what a message that goes by a subroute may do now.
    func standing(of subroute: String, now: UInt64) -> Standing {
        guard let backoff = self.backoffs[subroute] else {
            return self.refusedByFleet.contains(subroute) ? .asks : .open
        }
        return now < backoff.asksAt ? .waits(until: backoff.asksAt) : .asks
    }

    /// Records that the provider refuses a subroute.
    ///
    /// - Parameter draw: a random number in 0..<1. It shortens the wait by up to half, so that the processes of a fleet do not ask together.
    mutating func recordRefusal(of subroute: String, _ word: String, now: UInt64, draw: Double) {
        let known = self.backoffs[subroute]
        // The answer belongs to a request that was sent before the wait began.
        if let known, now < known.asksAt { return }
        let wait = known.map { min(2 * $0.wait, self.rules.mostNanoseconds) } ?? self.rules.firstNanoseconds
        let asksAt = now + wait - UInt64(Double(wait) * 0.5 * draw)
        self.backoffs[subroute] = Backoff(wait: wait, asksAt: asksAt)
        let milliseconds = Int64(clamping: wait / 1_000_000)
        self.news[subroute] = .refused(word: word.isEmpty ? "unknown" : word, waitMilliseconds: milliseconds)
    }

    /// Records that the provider accepts a subroute.
    mutating func recordAcceptance(of subroute: String) {
        guard self.backoffs.removeValue(forKey: subroute) != nil || self.refusedByFleet.contains(subroute) else {
            return
        }
        self.refusedByFleet.remove(subroute)
        self.news[subroute] = .accepted
    }

    /// Lets every refused subroute ask at once, because the configuration has changed.
    mutating func configurationChanged() {
        for subroute in self.backoffs.keys { self.backoffs[subroute]?.asksAt = 0 }
    }

    // MARK: The fleet

    /// True when there are changes that Redis has not recorded.
    var hasNews: Bool { !self.news.isEmpty }

    /// Takes the changes that Redis has not recorded.
    mutating func takeNews() -> [String: RateLimitRequest.SubrouteAnswer] {
        defer { self.news = [:] }
        return self.news
    }

    /// Puts back what did not reach Redis, unless there is something newer.
    mutating func failed(_ news: [String: RateLimitRequest.SubrouteAnswer]) {
        self.news.merge(news) { newer, _ in newer }
    }

    /// Records which subroutes are refused as far as the fleet knows. One that Redis does not name although it was told of it is accepted
    /// elsewhere, or an operator has resumed the route.
    mutating func granted(_ refused: Set<String>) {
        self.refusedByFleet = refused.filter { self.news[$0] != .accepted }
        for subroute in self.backoffs.keys where !refused.contains(subroute) && self.news[subroute] == nil {
            self.backoffs[subroute] = nil
        }
    }
}
