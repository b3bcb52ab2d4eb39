/// A counter: one cell that only grows.
public struct Counter: Sendable, Hashable {
    @usableFromInline let cell: Int

    @inlinable
    init(_ cell: Int) { self.cell = cell }
}

/// Counters of one family, one for each value of a label.
public struct CounterBy<Label: MetricLabel>: Sendable {
    @usableFromInline let base: Int

    init(_ base: Int) { self.base = base }

    /// The counter of one value.
    @inlinable
    public subscript(_ label: Label) -> Counter { Counter(self.base + label.labelIndex) }
}

/// Counters of one family, one for each pair of values of two labels.
public struct CounterBy2<First: MetricLabel, Second: MetricLabel>: Sendable {
    @usableFromInline let base: Int
    @usableFromInline let stride: Int

    init(_ base: Int, stride: Int) {
        self.base = base
        self.stride = stride
    }

    /// The counter of one pair.
    @inlinable
    public subscript(_ first: First, _ second: Second) -> Counter {
        Counter(self.base + first.labelIndex * self.stride + second.labelIndex)
    }
}

/// A gauge: one cell that goes up and down. A scrape adds up what every shard and the shared cells hold.
public struct Gauge: Sendable, Hashable {
    @usableFromInline let cell: Int

    @inlinable
    init(_ cell: Int) { self.cell = cell }
}

/// Gauges of one family, one for each value of a label.
public struct GaugeBy<Label: MetricLabel>: Sendable {
    @usableFromInline let base: Int

    init(_ base: Int) { self.base = base }

    /// The gauge of one value.
    @inlinable
    public subscript(_ label: Label) -> Gauge { Gauge(self.base + label.labelIndex) }
}

/// Gauges of one family, one for each pair of values of two labels.
public struct GaugeBy2<First: MetricLabel, Second: MetricLabel>: Sendable {
    @usableFromInline let base: Int
    @usableFromInline let stride: Int

    init(_ base: Int, stride: Int) {
        self.base = base
        self.stride = stride
    }

    /// The gauge of one pair.
    @inlinable
    public subscript(_ first: First, _ second: Second) -> Gauge {
        Gauge(self.base + first.labelIndex * self.stride + second.labelIndex)
    }
}

/// A histogram: a cell for each bucket, not cumulative, and the sum of what was observed.
public struct Histogram: Sendable, Hashable {
    @usableFromInline let cell: Int
    @usableFromInline let sum: Int
    @usableFromInline let bounds: Int
    @usableFromInline let boundCount: Int

    @inlinable
    init(_ cell: Int, sum: Int, bounds: Int, boundCount: Int) {
        self.cell = cell
        self.sum = sum
        self.bounds = bounds
        self.boundCount = boundCount
    }
}

/// Histograms of one family, one for each value of a label.
public struct HistogramBy<Label: MetricLabel>: Sendable {
    @usableFromInline let first: Histogram

    init(_ first: Histogram) { self.first = first }

    /// The histogram of one value.
    @inlinable
    public subscript(_ label: Label) -> Histogram {
        Histogram(
            self.first.cell + label.labelIndex * (self.first.boundCount + 1),
            sum: self.first.sum + label.labelIndex,
            bounds: self.first.bounds,
            boundCount: self.first.boundCount,
        )
    }
}
