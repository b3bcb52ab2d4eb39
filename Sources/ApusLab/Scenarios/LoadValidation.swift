internal import ApusConsole
internal import ApusCore

/// A reason why the figures of a load say nothing about Apus.
package enum LoadProblem: Hashable, Sendable, CustomStringConvertible {
    /// Less was done than planned, so the latencies are of another load.
    case targetNotReached(unit: String, planned: Double, achieved: Double)
    /// The simulator could take no more, so the latencies are the simulator's.
    case sinkSaturated(share: Double)
    /// This program began too late with what was due, so the latencies are its own.
    case driverLate(milliseconds: Double)

    /// Which of them, as one word.
    package var name: String {
        switch self {
        case .targetNotReached: "target_not_reached"
        case .sinkSaturated: "sink_saturated"
        case .driverLate: "driver_late"
        }
    }

    /// In a sentence that tells the cure.
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

/// Checks whether a load was the one that was planned.
package struct LoadValidation: Hashable, Sendable {
    /// The share of the planned rate that must be reached.
    package static let rateShareMin = 0.98
    /// The share of the time that the simulator may be busy.
    package static let sinkShareMax = 0.9
    /// Milliseconds after it was due by which 99 of 100 must have been begun.
    package static let lateMillisecondsMax = 50.0

    /// The reasons not to publish figures; empty: there is none.
    package private(set) var problems: [LoadProblem] = []

    /// Checks a load.
    ///
    /// - Parameters:
    ///   - rates: everything that had a rate to reach.
    ///   - sinkShare: as in ``ResourceUsage/sinkShare``.
    ///   - lateMilliseconds: the 99th percentile from due to begun.
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

    /// Things per second, over the time that was planned for them or, if they took longer, that they took.
    package static func rate(_ count: Int, planned seconds: Double, span: ClosedRange<Int64>?) -> Double {
        let taken = span.map { Double($0.upperBound - $0.lowerBound) / 1e9 } ?? 0
        let time = max(seconds, taken)
        return time > 0 ? Double(count) / time : 0
    }
}
