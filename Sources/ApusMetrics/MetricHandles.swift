/// A family of metrics, declared at the handle's creation in the current catalogue (``MetricCatalogue/declare(_:)``).
///
/// Names are full, as queries write them; a help text is one sentence; a scale gives the value of one step of a cell in
/// the unit of the name.
public protocol MetricHandle: Sendable {
    /// A cell of the family.
    var anyCell: Int { get }
}

/// A counter: one cell that only grows.
public struct Counter: MetricHandle, Hashable {
    @usableFromInline let cell: Int
    /// The index of the cell.
    public var anyCell: Int { self.cell }

    /// Declares a counter; its name ends in `_total`.
    public init(_ name: String, _ help: String, scale: MetricScale = .one) {
        self.init(declareFamily(name, .counter, help, scale: scale).cell)
    }

    @inlinable
    init(_ cell: Int) { self.cell = cell }
}

/// Counters of one family, one for each value of a label.
public struct CounterBy<Label: MetricLabel>: MetricHandle {
    @usableFromInline let base: Int
    /// The index of the first cell.
    public var anyCell: Int { self.base }

    /// Declares counters by one label; their name ends in `_total`.
    public init(_ name: String, _ help: String, by label: LabelDimension<Label>, scale: MetricScale = .one) {
        self.base = declareFamily(name, .counter, help, [label.values], scale: scale).cell
    }

    /// Returns the counter of a value.
    @inlinable
    public subscript(_ label: Label) -> Counter { Counter(self.base + label.labelIndex) }
}

/// Counters of one family, one for each pair of values of two labels.
public struct CounterBy2<First: MetricLabel, Second: MetricLabel>: MetricHandle {
    @usableFromInline let base: Int
    /// The index of the first cell.
    public var anyCell: Int { self.base }
    @usableFromInline let stride: Int

    /// Declares counters by two labels; their name ends in `_total`.
    public init(
        _ name: String,
        _ help: String,
        by first: LabelDimension<First>,
        _ second: LabelDimension<Second>,
        scale: MetricScale = .one,
    ) {
        self.base = declareFamily(name, .counter, help, [first.values, second.values], scale: scale).cell
        self.stride = second.values.capacity
    }

    /// Returns the counter of a pair of values.
    @inlinable
    public subscript(_ first: First, _ second: Second) -> Counter {
        Counter(self.base + first.labelIndex * self.stride + second.labelIndex)
    }
}

/// A gauge: one cell that goes up and down. A scrape adds the values of every shard and of the shared cells.
public struct Gauge: MetricHandle, Hashable {
    @usableFromInline let cell: Int
    /// The index of the cell.
    public var anyCell: Int { self.cell }

    /// Declares a gauge.
    ///
    /// - Parameter startsAbsent: true when the gauge has no sample until it is set: for values without a meaningful
    ///   zero, such as times. Set such a gauge through the shared cells.
    public init(_ name: String, _ help: String, scale: MetricScale = .one, startsAbsent: Bool = false) {
        self.init(declareFamily(name, .gauge, help, scale: scale, startsAbsent: startsAbsent).cell)
    }

    @inlinable
    init(_ cell: Int) { self.cell = cell }
}

/// Gauges of one family, one for each value of a label.
public struct GaugeBy<Label: MetricLabel>: MetricHandle {
    @usableFromInline let base: Int
    /// The index of the first cell.
    public var anyCell: Int { self.base }

    /// Declares gauges by one label.
    public init(
        _ name: String,
        _ help: String,
        by label: LabelDimension<Label>,
        scale: MetricScale = .one,
        startsAbsent: Bool = false,
    ) {
        self.base = declareFamily(name, .gauge, help, [label.values], scale: scale, startsAbsent: startsAbsent).cell
    }

    /// Returns the gauge of a value.
    @inlinable
    public subscript(_ label: Label) -> Gauge { Gauge(self.base + label.labelIndex) }
}

/// Gauges of one family, one for each pair of values of two labels.
public struct GaugeBy2<First: MetricLabel, Second: MetricLabel>: MetricHandle {
    @usableFromInline let base: Int
    /// The index of the first cell.
    public var anyCell: Int { self.base }
    @usableFromInline let stride: Int

    /// Declares gauges by two labels.
    public init(
        _ name: String,
        _ help: String,
        by first: LabelDimension<First>,
        _ second: LabelDimension<Second>,
        scale: MetricScale = .one,
        startsAbsent: Bool = false,
    ) {
        let labels = [first.values, second.values]
        self.base = declareFamily(name, .gauge, help, labels, scale: scale, startsAbsent: startsAbsent).cell
        self.stride = second.values.capacity
    }

    /// Returns the gauge of a pair of values.
    @inlinable
    public subscript(_ first: First, _ second: Second) -> Gauge {
        Gauge(self.base + first.labelIndex * self.stride + second.labelIndex)
    }
}

/// A histogram: a cell for each bucket, not cumulative, and the sum of the observed values.
public struct Histogram: MetricHandle, Hashable {
    @usableFromInline let cell: Int
    @usableFromInline let sum: Int
    @usableFromInline let bounds: Int
    @usableFromInline let boundCount: Int
    /// The index of the exemplars of its buckets; -1 when it keeps none.
    @usableFromInline let exemplar: Int
    /// The index of the first cell.
    public var anyCell: Int { self.cell }

    /// Declares a histogram. Observed values are in steps of the buckets' scale.
    public init(_ name: String, _ help: String, buckets: MetricBuckets) {
        self = declareFamily(name, .histogram, help, scale: buckets.scale, buckets: buckets).histogram
    }

    @inlinable
    init(_ cell: Int, sum: Int, bounds: Int, boundCount: Int, exemplar: Int) {
        self.cell = cell
        self.sum = sum
        self.bounds = bounds
        self.boundCount = boundCount
        self.exemplar = exemplar
    }
}

/// Histograms of one family, one for each value of a label.
public struct HistogramBy<Label: MetricLabel>: MetricHandle {
    @usableFromInline let first: Histogram
    /// The index of the first cell.
    public var anyCell: Int { self.first.cell }

    /// Declares histograms by one label; there is no form with two, since each histogram has some twenty series.
    ///
    /// - Parameter keepsExemplars: true when each bucket shows the last trace that was observed with it, in OpenMetrics.
    public init(
        _ name: String,
        _ help: String,
        by label: LabelDimension<Label>,
        buckets: MetricBuckets,
        keepsExemplars: Bool = false,
    ) {
        self.first =
            declareFamily(
                name,
                .histogram,
                help,
                [label.values],
                scale: buckets.scale,
                buckets: buckets,
                keepsExemplars: keepsExemplars,
            ).histogram
    }

    /// Returns the histogram of a value.
    @inlinable
    public subscript(_ label: Label) -> Histogram {
        let before = label.labelIndex * (self.first.boundCount + 1)
        return Histogram(
            self.first.cell + before,
            sum: self.first.sum + label.labelIndex,
            bounds: self.first.bounds,
            boundCount: self.first.boundCount,
            exemplar: self.first.exemplar < 0 ? -1 : self.first.exemplar + before,
        )
    }
}

extension CounterBy where Label: ClosedMetricLabel {
    /// Declares counters, one for every case of a label.
    public init(_ name: String, _ help: String, scale: MetricScale = .one) {
        self.init(name, help, by: .all, scale: scale)
    }
}

extension CounterBy2 where First: ClosedMetricLabel, Second: ClosedMetricLabel {
    /// Declares counters, one for every pair of cases of two labels.
    public init(_ name: String, _ help: String, scale: MetricScale = .one) {
        self.init(name, help, by: .all, .all, scale: scale)
    }
}

extension GaugeBy where Label: ClosedMetricLabel {
    /// Declares gauges, one for every case of a label.
    public init(_ name: String, _ help: String, scale: MetricScale = .one, startsAbsent: Bool = false) {
        self.init(name, help, by: .all, scale: scale, startsAbsent: startsAbsent)
    }
}

extension GaugeBy2 where First: ClosedMetricLabel, Second: ClosedMetricLabel {
    /// Declares gauges, one for every pair of cases of two labels.
    public init(_ name: String, _ help: String, scale: MetricScale = .one, startsAbsent: Bool = false) {
        self.init(name, help, by: .all, .all, scale: scale, startsAbsent: startsAbsent)
    }
}

extension HistogramBy where Label: ClosedMetricLabel {
    /// Declares histograms, one for every case of a label.
    public init(_ name: String, _ help: String, buckets: MetricBuckets, keepsExemplars: Bool = false) {
        self.init(name, help, by: .all, buckets: buckets, keepsExemplars: keepsExemplars)
    }
}
