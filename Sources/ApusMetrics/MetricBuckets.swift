/// The upper bounds of a histogram's buckets. They are part of the interface: they never change after a release.
public struct MetricBuckets: Sendable, Hashable {
    /// The ascending bounds in steps of the scale.
    public let bounds: [Int64]
    /// The value of one step.
    public let scale: MetricScale

    /// Creates buckets.
    ///
    /// - Parameters:
    ///   - bounds: ascending, positive, at most 31; each at least 0.0001 and below a million in the family's unit, where
    ///     the canonical form of a bound needs no exponent.
    ///   - scale: the value of one step in the family's unit.
    public init(bounds: [Int64], scale: MetricScale) {
        precondition((1...31).contains(bounds.count), "a histogram has 1 to 31 bounds")
        precondition(zip(bounds, bounds.dropFirst()).allSatisfy { $0.0 < $0.1 }, "bounds must ascend")
        for bound in bounds {
            let value = scale.real(Double(bound))
            precondition(value >= 0.000_1 && value < 1_000_000, "the bound \(value) would need an exponent")
        }
        self.bounds = bounds
        self.scale = scale
    }

    private static func microseconds(_ bounds: [Int64]) -> MetricBuckets {
        MetricBuckets(bounds: bounds.map { $0 * 1_000 }, scale: .billionths)
    }

    /// Buckets for publication to acceptance, in nanoseconds; 0.1, 1, 5 and 60 s are bounds of objectives.
    public static let endToEnd = Self.microseconds([
        100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
        1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
    ])

    /// Buckets for a provider's round trip, in nanoseconds: fine steps where real providers answer; 10 and 30 s bracket the time-out.
    public static let roundTrip = Self.microseconds([
        500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 75_000, 100_000, 150_000, 200_000, 300_000, 500_000, 750_000,
        1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000,
    ])

    /// Buckets for waiting in a queue, which may take hours, in nanoseconds.
    public static let queueWait = Self.microseconds([
        100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
        1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000, 300_000_000, 1_800_000_000, 7_200_000_000,
    ])

    /// Buckets for requests to an HTTP server, in nanoseconds.
    public static let httpServer = Self.microseconds([
        500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
        1_000_000, 2_500_000, 5_000_000, 10_000_000,
    ])

    /// Buckets for short work in the process and near it, in nanoseconds: Redis commands, stages, lag of an event loop.
    public static let short = Self.microseconds([
        100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000,
    ])

    /// Buckets for payloads, in bytes; providers stop at 4 or 5 KiB.
    public static let payloadBytes = MetricBuckets(
        bounds: [128, 256, 512, 1_024, 2_048, 3_072, 4_096, 5_120],
        scale: .one,
    )

    /// Buckets for the devices that one send reaches.
    public static let fanOut = MetricBuckets(bounds: [1, 10, 100, 1_000, 10_000, 100_000], scale: .one)
}
