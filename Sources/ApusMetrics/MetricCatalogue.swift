internal import Synchronization

/// Holds the families of a service, as its sets of metrics declare them: the source of registries, `apus metrics list` and dashboards.
///
/// A declaration that breaks a rule of the formats or of promlint traps: a catalogue is code.
public struct MetricCatalogue: Sendable {
    private(set) var families: [MetricFamily] = []
    private(set) var cellCount = 0
    private(set) var sumCount = 0
    private(set) var exemplarCount = 0
    private(set) var bounds: [Int64] = []

    /// Creates an empty catalogue.
    public init() {}

    /// The declarations, sorted by name.
    public var definitions: [MetricDefinition] {
        self.families.sorted { $0.familyName < $1.familyName }.map(\.definition)
    }

    /// Returns the declaration of a handle's family; a handle of another catalogue traps, or finds another family.
    public func definition(of handle: some MetricHandle) -> MetricDefinition {
        let cell = handle.anyCell
        let family = self.families.first { family in
            family.cell..<family.cell + family.childCount * family.cellsPerChild ~= cell
        }
        guard let family else { preconditionFailure("no family has the cell \(cell)") }
        return family.definition
    }

    /// Declares the families of the handles that `make` creates: handles declare their families at creation, and can be created only here.
    public mutating func declare<Result>(_ make: () throws -> Result) rethrows -> Result {
        let current = CurrentCatalogue(self)
        defer { self = current.catalogue.withLock { $0 } }
        return try CurrentCatalogue.$shared.withValue(current) { try make() }
    }

    fileprivate mutating func add(
        _ name: String,
        _ kind: MetricKind,
        _ help: String,
        _ dimensions: [LabelValues],
        scale: MetricScale,
        startsAbsent: Bool,
        buckets: MetricBuckets?,
        keepsExemplars: Bool,
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

/// Holds the current catalogue.
private final class CurrentCatalogue: Sendable {
    @TaskLocal static var shared: CurrentCatalogue?

    let catalogue: Mutex<MetricCatalogue>

    init(_ catalogue: MetricCatalogue) { self.catalogue = Mutex(catalogue) }
}

/// Declares a family in the current catalogue; traps outside of ``MetricCatalogue/declare(_:)``.
func declareFamily(
    _ name: String,
    _ kind: MetricKind,
    _ help: String,
    _ dimensions: [LabelValues] = [],
    scale: MetricScale = .one,
    startsAbsent: Bool = false,
    buckets: MetricBuckets? = nil,
    keepsExemplars: Bool = false,
) -> MetricFamily {
    guard let current = CurrentCatalogue.shared else { preconditionFailure("\(name): no catalogue is being filled") }
    return current.catalogue.withLock { catalogue in
        catalogue.add(
            name,
            kind,
            help,
            dimensions,
            scale: scale,
            startsAbsent: startsAbsent,
            buckets: buckets,
            keepsExemplars: keepsExemplars,
        )
    }
}

/// Declares an info in the current catalogue: always 1, with the given labels.
public func declareInfo(_ name: String, _ help: String, _ labels: [(name: String, value: String)]) {
    let row = LabelRow(index: 0, values: labels.map(\.value))
    _ = declareFamily(name, .info, help, [.closed(names: labels.map(\.name), capacity: 1, rows: [row])])
}

/// A family and the indices of its cells.
struct MetricFamily: Sendable {
    /// The maximum number of children of one family: more would be a misuse of labels.
    static let childrenMax = 10_000

    let name: String
    let kind: MetricKind
    let help: String
    let dimensions: [LabelValues]
    let scale: MetricScale
    let startsAbsent: Bool
    let buckets: MetricBuckets?
    /// The index of the first cell.
    let cell: Int
    /// The index of the first sum of a histogram.
    let sum: Int
    /// The index of the first bound in the table of all bounds.
    let boundsStart: Int
    /// The index of the first exemplar; nil when the family keeps none.
    let exemplar: Int?

    var cellsPerChild: Int { self.buckets.map { $0.bounds.count + 1 } ?? 1 }

    /// The number of children that have cells.
    var childCount: Int { self.dimensions.reduce(1) { $0 * $1.capacity } }

    var familyName: String { self.kind.familyName(of: self.name) }

    var unit: String? { self.kind.unit(of: self.name) }

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
            // A histogram has its buckets, including the last one without a bound, the sum and the count.
            seriesCount: self.children.count * (self.buckets.map { $0.bounds.count + 3 } ?? 1),
        )
    }

    /// Every combination of label values that has a series, with the index of its child.
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

/// The families of one service, or of one part of it: a struct whose properties declare them, each in one line.
///
///     struct ShopMetrics: MetricSet {
///         let sales = CounterBy<Article>("shop_sales_total", "Articles sold.")
///     }
public protocol MetricSet: Sendable {
    /// Declares the families in the current catalogue.
    init()
}

extension MetricSet {
    /// Declares the families in a catalogue.
    public init(_ catalogue: inout MetricCatalogue) { self = catalogue.declare { Self() } }
}
