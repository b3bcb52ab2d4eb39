internal import ApusCore
internal import ApusTerminal

/// The reasons why the figures of a load say nothing about Apus.
package enum LoadProblem: Hashable, Sendable, CustomStringConvertible {
    /// The planned rate was not reached, so the latencies are of another load.
    case targetNotReached(unit: String, planned: Double, achieved: Double)
    /// The simulator was saturated, so the latencies are the simulator's.
    case sinkSaturated(share: Double)
    /// This program started tasks too late, so the latencies are its own.
    case driverLate(milliseconds: Double)

    /// The reason as one word.
    package var name: String {
        switch self {
        case .targetNotReached: "target_not_reached"
        case .sinkSaturated: "sink_saturated"
        case .driverLate: "driver_late"
        }
    }

    /// The reason as a sentence with the remedy.
    package var description: String {
        switch self {
        case .targetNotReached(let unit, let planned, let achieved):
            "the target rate was not reached: \(Self.text(achieved)) instead of \(Self.text(planned)) \(unit) per second; "
                + "ask for less"
        case .sinkSaturated(let share):
            "the sink was saturated: the simulator was busy or waited for a processor \(Self.text(share * 100)) % of the time; "
                + "ask for less, or give it a core of its own"
        case .driverLate(let milliseconds):
            "the load was late: one in a hundred was begun \(Self.text(milliseconds)) ms or more after it was due; ask for "
                + "less, or run it on a machine that has nothing else to do"
        }
    }

    private static func text(_ value: Double) -> String { NumberText.json(value, 1).text }
}

/// Checks whether a load was the planned one.
package struct LoadValidation: Hashable, Sendable {
    /// The minimum achieved share of the planned rate.
    package static let rateShareMin = 0.98
    /// The maximum busy share of the simulator.
    static let sinkShareMax = 0.9
    /// The maximum 99th percentile of the delays from the scheduled time to the start, in milliseconds.
    static let lateMillisecondsMax = 50.0

    /// The reasons not to publish the figures; empty when there are none.
    package private(set) var problems: [LoadProblem] = []

    /// Checks a load.
    ///
    /// - Parameters:
    ///   - rates: the achieved and planned rates.
    ///   - sinkShare: the value of ``ResourceUsage/sinkShare``.
    ///   - lateMilliseconds: the 99th percentile of the delays from the scheduled time to the start.
    package init(
        rates: [(unit: String, planned: Double, achieved: Double)],
        sinkShare: Double,
        lateMilliseconds: Double,
    ) {
        for rate in rates where rate.achieved < rate.planned * Self.rateShareMin {
            self.problems.append(
                .targetNotReached(unit: rate.unit, planned: rate.planned, achieved: rate.achieved)
            )
        }
        if sinkShare > Self.sinkShareMax { self.problems.append(.sinkSaturated(share: sinkShare)) }
        if lateMilliseconds > Self.lateMillisecondsMax {
            self.problems.append(.driverLate(milliseconds: lateMilliseconds))
        }
    }

    /// Returns the units per second, over their planned time or, if it was longer, their actual time.
    package static func rate(_ count: Int, planned seconds: Double, span: ClosedRange<Int64>?) -> Double {
        let taken = span.map { Double($0.upperBound - $0.lowerBound) / 1e9 } ?? 0
        let time = max(seconds, taken)
        return time > 0 ? Double(count) / time : 0
    }
}
