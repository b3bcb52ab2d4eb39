/// What a catalogue gives out when a family is declared; the catalogue knows the family by it.
public protocol MetricHandle: Sendable {
    /// A cell of the family.
    var anyCell: Int { get }
}

/// A counter: one cell that only grows.
public struct Counter: MetricHandle, Hashable {
    @usableFromInline let cell: Int
    /// Its cell.
    public var anyCell: Int { self.cell }

    @inlinable
    init(_ cell: Int) { self.cell = cell }
}

/// Counters of one family, one for each value of a label.
public struct CounterBy<Label: MetricLabel>: MetricHandle {
    @usableFromInline let base: Int
    /// The first cell.
    public var anyCell: Int { self.base }

    init(_ base: Int) { self.base = base }

    /// The counter of one value.
    @inlinable
    public subscript(_ label: Label) -> Counter { Counter(self.base + label.labelIndex) }
}

/// Counters of one family, one for each pair of values of two labels.
public struct CounterBy2<First: MetricLabel, Second: MetricLabel>: MetricHandle {
    @usableFromInline let base: Int
    /// The first cell.
    public var anyCell: Int { self.base }
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
public struct Gauge: MetricHandle, Hashable {
    @usableFromInline let cell: Int
    /// Its cell.
    public var anyCell: Int { self.cell }

    @inlinable
    init(_ cell: Int) { self.cell = cell }
}

/// Gauges of one family, one for each value of a label.
public struct GaugeBy<Label: MetricLabel>: MetricHandle {
    @usableFromInline let base: Int
    /// The first cell.
    public var anyCell: Int { self.base }

    init(_ base: Int) { self.base = base }

    /// The gauge of one value.
    @inlinable
    public subscript(_ label: Label) -> Gauge { Gauge(self.base + label.labelIndex) }
}

/// Gauges of one family, one for each pair of values of two labels.
public struct GaugeBy2<First: MetricLabel, Second: MetricLabel>: MetricHandle {
    @usableFromInline let base: Int
    /// The first cell.
    public var anyCell: Int { self.base }
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
public struct Histogram: MetricHandle, Hashable {
    @usableFromInline let cell: Int
    @usableFromInline let sum: Int
    @usableFromInline let bounds: Int
    @usableFromInline let boundCount: Int
    /// Where the exemplars of its buckets stand; -1: it keeps none.
    @usableFromInline let exemplar: Int
    /// The first cell.
    public var anyCell: Int { self.cell }

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
    /// The first cell.
    public var anyCell: Int { self.first.cell }

    init(_ first: Histogram) { self.first = first }

    /// The histogram of one value.
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
