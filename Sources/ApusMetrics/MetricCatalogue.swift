/// The families of a service, while they are declared.
///
/// A declaration that breaks a rule of the formats or of promlint traps: a catalogue is code.
public struct MetricCatalogue: Sendable {
    private(set) var families: [MetricFamily] = []
    private(set) var cellCount = 0
    private(set) var sumCount = 0
    private(set) var exemplarCount = 0
    private(set) var bounds: [Int64] = []

    /// No family.
    public init() {}

    /// The declarations, sorted by name.
    public var definitions: [MetricDefinition] {
        self.families.sorted { $0.familyName < $1.familyName }.map(\.definition)
    }

    /// What was declared under a handle; a handle of another catalogue traps, or finds another family.
    public func definition(of handle: some MetricHandle) -> MetricDefinition {
        let cell = handle.anyCell
        let family = self.families.first { family in
            family.cell..<family.cell + family.childCount * family.cellsPerChild ~= cell
        }
        guard let family else { preconditionFailure("no family has the cell \(cell)") }
        return family.definition
    }

    /// Declares a counter.
    ///
    /// - Parameters:
    ///   - name: full, with `_total`.
    ///   - help: one sentence.
    ///   - scale: what one step is worth in the unit of the name.
    public mutating func counter(_ name: String, _ help: String, scale: MetricScale = .one) -> Counter {
        Counter(self.declare(name, .counter, help, [], scale: scale).cell)
    }

    /// Declares counters by one label.
    public mutating func counter<Label>(
        _ name: String,
        _ help: String,
        by label: LabelDimension<Label>,
        scale: MetricScale = .one,
    ) -> CounterBy<Label> {
        CounterBy(self.declare(name, .counter, help, [label.values], scale: scale).cell)
    }

    /// Declares counters by two labels.
    public mutating func counter<First, Second>(
        _ name: String,
        _ help: String,
        by first: LabelDimension<First>,
        _ second: LabelDimension<Second>,
        scale: MetricScale = .one,
    ) -> CounterBy2<First, Second> {
        let family = self.declare(name, .counter, help, [first.values, second.values], scale: scale)
        return CounterBy2(family.cell, stride: second.values.capacity)
    }

    /// Declares a gauge.
    ///
    /// - Parameters:
    ///   - name: full.
    ///   - help: one sentence.
    ///   - scale: what one step is worth in the unit of the name.
    ///   - startsAbsent: no sample until it is set: for what has no honest zero, such as the time of something. Set such a
    ///     gauge through the shared cells.
    public mutating func gauge(
        _ name: String,
        _ help: String,
        scale: MetricScale = .one,
        startsAbsent: Bool = false,
    ) -> Gauge {
        Gauge(self.declare(name, .gauge, help, [], scale: scale, startsAbsent: startsAbsent).cell)
    }

    /// Declares gauges by one label.
    public mutating func gauge<Label>(
        _ name: String,
        _ help: String,
        by label: LabelDimension<Label>,
        scale: MetricScale = .one,
        startsAbsent: Bool = false,
    ) -> GaugeBy<Label> {
        GaugeBy(
            self.declare(name, .gauge, help, [label.values], scale: scale, startsAbsent: startsAbsent).cell
        )
    }

    /// Declares gauges by two labels.
    public mutating func gauge<First, Second>(
        _ name: String,
        _ help: String,
        by first: LabelDimension<First>,
        _ second: LabelDimension<Second>,
        scale: MetricScale = .one,
        startsAbsent: Bool = false,
    ) -> GaugeBy2<First, Second> {
        let values = [first.values, second.values]
        let family = self.declare(name, .gauge, help, values, scale: scale, startsAbsent: startsAbsent)
        return GaugeBy2(family.cell, stride: second.values.capacity)
    }

    /// Declares a histogram. Observations come in steps of the buckets' scale.
    public mutating func histogram(_ name: String, _ help: String, buckets: MetricBuckets) -> Histogram {
        self.declare(name, .histogram, help, [], scale: buckets.scale, buckets: buckets).histogram
    }

    /// Declares histograms by one label; never more, since each has some twenty series.
    ///
    /// - Parameter keepsExemplars: whether each bucket shows the last trace that was observed with it, in OpenMetrics.
    public mutating func histogram<Label>(
        _ name: String,
        _ help: String,
        by label: LabelDimension<Label>,
        buckets: MetricBuckets,
        keepsExemplars: Bool = false,
    ) -> HistogramBy<Label> {
        let family = self.declare(
            name,
            .histogram,
            help,
            [label.values],
            scale: buckets.scale,
            buckets: buckets,
            keepsExemplars: keepsExemplars,
        )
        return HistogramBy(family.histogram)
    }

    /// Declares an info: always 1, with these labels.
    public mutating func info(_ name: String, _ help: String, _ labels: [(name: String, value: String)]) {
        let row = LabelRow(index: 0, values: labels.map(\.value))
        let values = LabelValues.closed(names: labels.map(\.name), capacity: 1, rows: [row])
        _ = self.declare(name, .info, help, [values], scale: .one)
    }

    private mutating func declare(
        _ name: String,
        _ kind: MetricKind,
        _ help: String,
        _ dimensions: [LabelValues],
        scale: MetricScale,
        startsAbsent: Bool = false,
        buckets: MetricBuckets? = nil,
        keepsExemplars: Bool = false,
    ) -> MetricFamily {
        let labelNames = dimensions.flatMap(\.names)
        if let violation = MetricNameRules.violation(name: name, kind: kind, help: help, labelNames: labelNames) {
            preconditionFailure("\(name): \(violation)")
        }
        let family = MetricFamily(
            name: name,
            kind: kind,
            help: help,
            dimensions: dimensions,
            scale: scale,
            startsAbsent: startsAbsent,
            buckets: buckets,
            cell: self.cellCount,
            sum: self.sumCount,
            boundsStart: self.bounds.count,
            exemplar: keepsExemplars ? self.exemplarCount : nil,
        )
        let children = family.childCount
        precondition(children <= MetricFamily.childrenMax, "\(name): \(children) children are too many")
        precondition(
            !self.families.contains { $0.familyName == family.familyName },
            "\(name): metric not unique",
        )
        self.families.append(family)
        self.cellCount += children * family.cellsPerChild
        if let buckets {
            self.sumCount += children
            self.bounds += buckets.bounds
        }
        if keepsExemplars { self.exemplarCount += children * family.cellsPerChild }
        return family
    }
}

/// A family and where its cells are.
struct MetricFamily: Sendable {
    /// Children of one family: beyond it a label is not what labels are for.
    static let childrenMax = 10_000

    let name: String
    let kind: MetricKind
    let help: String
    let dimensions: [LabelValues]
    let scale: MetricScale
    let startsAbsent: Bool
    let buckets: MetricBuckets?
    /// The first cell.
    let cell: Int
    /// The first sum, of a histogram.
    let sum: Int
    /// The first bound in the table of all bounds.
    let boundsStart: Int
    /// The first exemplar; nil: it keeps none.
    let exemplar: Int?

    var cellsPerChild: Int { self.buckets.map { $0.bounds.count + 1 } ?? 1 }

    /// Children that there are cells for.
    var childCount: Int { self.dimensions.reduce(1) { $0 * $1.capacity } }

    var familyName: String { self.definition.familyName }

    var histogram: Histogram {
        Histogram(
            self.cell,
            sum: self.sum,
            bounds: self.boundsStart,
            boundCount: self.buckets?.bounds.count ?? 0,
            exemplar: self.exemplar ?? -1,
        )
    }

    var definition: MetricDefinition {
        var values: [String: [String]] = [:]
        for dimension in self.dimensions {
            for (place, name) in dimension.names.enumerated() {
                var seen: Set<String> = []
                values[name] = dimension.rows.map { $0.values[place] }.filter { seen.insert($0).inserted }
            }
        }
        return MetricDefinition(
            name: self.name,
            kind: self.kind,
            help: self.help,
            labelNames: self.dimensions.flatMap(\.names),
            labelValues: values,
            bounds: self.buckets.map { buckets in buckets.bounds.map(buckets.scale.bound) } ?? [],
            // A histogram has its buckets, the last one without a bound among them, the sum and the count.
            seriesCount: self.children.count * (self.buckets.map { $0.bounds.count + 3 } ?? 1),
        )
    }

    /// Every combination of label values that has a series, with the place of its child.
    var children: [(index: Int, labels: [(name: String, value: String)])] {
        var rows: [(index: Int, labels: [(name: String, value: String)])] = [(0, [])]
        for dimension in self.dimensions {
            let names = dimension.names
            rows = rows.flatMap { row in
                dimension.rows.map { value in
                    (
                        row.index * dimension.capacity + value.index,
                        row.labels + zip(names, value.values).map { (name: $0, value: $1) },
                    )
                }
            }
        }
        return rows
    }
}
