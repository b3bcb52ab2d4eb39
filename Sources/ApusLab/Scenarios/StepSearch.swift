/// Finds the knee: the highest rate that is held. Doubles until one is not, then halves the gap.
package struct StepSearch: Hashable, Sendable {
    /// The maximum number of steps.
    package static let stepsMax = 32
    /// The gap between held and not held, as a share of what is held, that is close enough.
    package static let precision = 0.05
    /// Nothing above is tried, per second.
    package static let rateMax = 10_000_000.0
    /// Nothing below is tried, per second.
    package static let rateMin = 1.0

    /// The rate of the next step, per second; nil when it is over.
    package private(set) var next: Double?
    /// The highest rate that was held; nil for none so far.
    package private(set) var knee: Double?
    private var notHeld: Double?
    private var steps = 0

    /// Creates a search.
    ///
    /// - Parameter first: the rate of the first step.
    package init(first: Double) {
        precondition((Self.rateMin...Self.rateMax).contains(first), "a search begins between its ends")
        self.next = first
    }

    /// Takes note of how the step at ``next`` went. Must be called only while there is one.
    package mutating func note(held: Bool) {
        guard let rate = self.next else { preconditionFailure("the search is over") }
        self.steps += 1
        if held { self.knee = max(self.knee ?? 0, rate) } else { self.notHeld = min(self.notHeld ?? .infinity, rate) }
        self.next = self.steps < Self.stepsMax ? self.following : nil
    }

    private var following: Double? {
        switch (self.knee, self.notHeld) {
        case (let held?, nil): held * 2 <= Self.rateMax ? held * 2 : nil
        case (nil, let missed?): missed / 2 >= Self.rateMin ? missed / 2 : nil
        case (let held?, let missed?): missed - held > held * Self.precision ? (held + missed) / 2 : nil
        case (nil, nil): nil
        }
    }
}
