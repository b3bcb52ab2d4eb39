package import ApusCore
internal import Histogram

/// Collects a distribution of latencies: HdrHistogram, 1 µs to 1 h in three digits.
package struct LatencySummary: Sendable {
    private static let microsecondsMax: UInt64 = 3_600_000_000

    private var histogram = Histogram<UInt64>(
        lowestDiscernibleValue: 1,
        highestTrackableValue: Self.microsecondsMax,
        numberOfSignificantValueDigits: .three,
    )
    /// The number of latencies.
    package private(set) var count = 0

    /// Creates an empty distribution.
    package init() {}

    /// Adds a latency; below 0 counts as 0, above an hour as an hour.
    package mutating func record(nanoseconds: Int64) {
        let microseconds = UInt64(max(0, (nanoseconds + 500) / 1_000))
        if self.histogram.record(min(microseconds, Self.microsecondsMax)) { self.count += 1 }
    }

    /// Returns a percentile in milliseconds; nil without any latency.
    package func milliseconds(percentile: Double) -> Double? {
        self.count == 0 ? nil : Double(self.histogram.valueAtPercentile(percentile)) / 1_000
    }

    /// The reported percentiles, by name.
    package static let percentiles: [(name: String, value: Double)] = [
        ("p50", 50), ("p90", 90), ("p99", 99), ("p999", 99.9), ("max", 100),
    ]

    /// The percentiles as JSON, in milliseconds.
    package var json: JSONObject {
        var object: JSONObject = ["count": .integer(self.count)]
        for percentile in Self.percentiles {
            let number = self.milliseconds(percentile: percentile.value).flatMap { JSONNumber($0) }
            object[percentile.name] = number.map { .number($0) } ?? .null
        }
        return object
    }

    /// Returns the whole distribution in milliseconds, in the format of HdrHistogram's plotters (`.hgrm`).
    package var distribution: String {
        var text = ""
        self.histogram.outputPercentileDistribution(to: &text, outputValueUnitScalingRatio: 1_000)
        return text
    }
}
