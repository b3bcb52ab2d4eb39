internal import ApusCore

/// One value of a label. Its index selects a cell, so that counting is an addition in an array.
public protocol MetricLabel: Sendable {
    /// The index among the dimension's values, from 0.
    var labelIndex: Int { get }
}

/// A label whose values are the cases of an enum: a closed set, known when the program is built.
///
/// An `Int` enum needs only its label's name; its values are its cases in snake case:
///
///     enum Stage: Int, ClosedMetricLabel {
///         case read, resolve, encode
///         static let labelNames = ["stage"]
///     }
///
/// A type may carry several labels at once, where only some combinations make sense: it names them all and returns one value for each.
public protocol ClosedMetricLabel: MetricLabel, CaseIterable {
    /// The names of the labels in snake case: usually one.
    static var labelNames: [String] { get }
    /// The values, one for each name.
    var labelValues: [String] { get }
    /// The number of slots for values: as many as there are cases, unless more may be added at run time.
    static var labelCapacity: Int { get }
}

extension ClosedMetricLabel {
    /// The number of cases.
    public static var labelCapacity: Int { Self.allCases.count }
}

extension MetricLabel where Self: RawRepresentable, RawValue == Int {
    /// The raw value.
    @inlinable
    public var labelIndex: Int { self.rawValue }
}

extension ClosedMetricLabel where Self: RawRepresentable, RawValue == Int {
    /// The case's name in snake case.
    public var labelValues: [String] { [SnakeCase.name(of: self)] }
}

/// The values of one label of a family, as the family was declared.
public struct LabelDimension<Label: MetricLabel>: Sendable {
    let values: LabelValues

    /// Returns a dimension of values that the configuration names.
    ///
    /// - Parameter labels: the label with its bound.
    public static func configured(_ labels: ConfiguredLabel) -> LabelDimension where Label == LabelSlot {
        LabelDimension(values: .configured(labels))
    }
}

extension LabelDimension where Label: ClosedMetricLabel {
    /// The dimension of every case.
    public static var all: LabelDimension { .only(Array(Label.allCases)) }

    /// Returns a dimension of some cases: the others have no series, and counting one of them has no effect.
    public static func only(_ cases: [Label]) -> LabelDimension {
        let all = Array(Label.allCases)
        let indices = Set(all.map(\.labelIndex))
        precondition(
            indices.count == all.count && indices.allSatisfy { (0..<Label.labelCapacity).contains($0) },
            "the indices of \(Label.self) are not 0, 1, 2, ...",
        )
        precondition(Set(all.map(\.labelValues)).count == all.count, "two cases of \(Label.self) share a value")
        precondition(all.allSatisfy { $0.labelValues.count == Label.labelNames.count })
        return LabelDimension(
            values: .closed(
                names: Label.labelNames,
                capacity: Label.labelCapacity,
                rows: cases.map { LabelRow(index: $0.labelIndex, values: $0.labelValues) },
            )
        )
    }
}

/// A value, or a combination of values, of a dimension.
struct LabelRow: Sendable {
    let index: Int
    let values: [String]
}

/// A dimension without its generic type.
enum LabelValues: Sendable {
    case closed(names: [String], capacity: Int, rows: [LabelRow])
    case configured(ConfiguredLabel)

    var names: [String] {
        switch self {
        case .closed(let names, _, _): names
        case .configured(let labels): [labels.name]
        }
    }

    var capacity: Int {
        switch self {
        case .closed(_, let capacity, _): capacity
        case .configured(let labels): labels.capacity
        }
    }

    var rows: [LabelRow] {
        switch self {
        case .closed(_, _, let rows): rows
        case .configured(let labels): labels.rows
        }
    }

    var isClosed: Bool {
        switch self {
        case .closed: true
        case .configured: false
        }
    }
}
