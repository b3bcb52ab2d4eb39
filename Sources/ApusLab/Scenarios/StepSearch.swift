/// Finds the knee, the highest sustained rate: doubles until a rate is not sustained, then halves the interval.
package struct StepSearch: Hashable, Sendable {
    /// The maximum number of steps.
    package static let stepsMax = 32
    /// The final interval between sustained and unsustained rates, as a share of the sustained one.
    static let precision = 0.05
    /// The maximum rate, per second.
    package static let rateMax = 10_000_000.0
    /// The minimum rate, per second.
    package static let rateMin = 1.0

    /// The rate of the next step, per second; nil when the search is complete.
    package private(set) var next: Double?
    /// The highest sustained rate; nil for none so far.
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

    /// Records the result of the step at ``next``. Must be called only while there is one.
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
