/// The kinds of families.
public enum MetricKind: String, Sendable, Hashable {
    /// A value that only grows.
    case counter
    /// A value that goes up and down.
    case gauge
    /// Counts of observations by size.
    case histogram
    /// A constant 1 with facts in its labels.
    case info

    /// The ends of family names that are units.
    private static let units = ["seconds", "bytes", "ratio", "entries"]

    /// Returns a metric's name without the suffix of this kind: OpenMetrics' name of the family.
    func familyName(of name: String) -> String {
        switch self {
        case .counter: String(name.dropLast("_total".count))
        case .info: String(name.dropLast("_info".count))
        case .gauge, .histogram: name
        }
    }

    /// Returns the unit at the end of the family's name; nil without one.
    func unit(of name: String) -> String? {
        let family = self.familyName(of: name)
        return Self.units.first { family.hasSuffix("_" + $0) }
    }
}

/// The declaration of a family, as `apus metrics list`, the dashboards' check and the documentation read it.
public struct MetricDefinition: Sendable, Hashable {
    /// The full name, as queries write it: with `_total` for a counter, `_info` for an info, without `_bucket` for a histogram.
    public let name: String
    /// The kind of family.
    public let kind: MetricKind
    /// The help text: one sentence.
    public let help: String
    /// The names of the labels beside `le`.
    public let labelNames: [String]
    /// The known values of each label, by name.
    public let labelValues: [String: [String]]
    /// The bounds as written in `le`; empty except for a histogram.
    public let bounds: [String]
    /// The number of samples in an exposition, including those with known values of configured labels.
    public let seriesCount: Int

    /// Creates a declaration.
    public init(
        name: String,
        kind: MetricKind,
        help: String,
        labelNames: [String],
        labelValues: [String: [String]],
        bounds: [String],
        seriesCount: Int,
    ) {
        self.name = name
        self.kind = kind
        self.help = help
        self.labelNames = labelNames
        self.labelValues = labelValues
        self.bounds = bounds
        self.seriesCount = seriesCount
    }

    /// The name without the suffix of its kind: OpenMetrics' name of the family.
    public var familyName: String { self.kind.familyName(of: self.name) }

    /// The unit at the end of the family's name: seconds, bytes, ratio or entries; nil without one.
    public var unit: String? { self.kind.unit(of: self.name) }
}
