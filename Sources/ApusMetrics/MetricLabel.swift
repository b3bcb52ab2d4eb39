internal import ApusCore

/// One value of a label. Its index picks a cell, so that counting is an addition in an array.
public protocol MetricLabel: Sendable {
    /// The place among the dimension's values, from 0.
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
/// A type may carry several labels at once, where only some combinations make sense: it names them all and returns one
/// value for each.
public protocol ClosedMetricLabel: MetricLabel, CaseIterable {
    /// The labels' names in snake case: one, usually.
    static var labelNames: [String] { get }
    /// The values, one for each name.
    var labelValues: [String] { get }
    /// Places for values: as many as there are cases, unless more may come while the program runs.
    static var labelCapacity: Int { get }
}

extension ClosedMetricLabel {
    /// One for each case.
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

/// The values that one label of a family may take, as the family was declared.
public struct LabelDimension<Label: MetricLabel>: Sendable {
    let values: LabelValues

    /// Some values of a label read from the configuration.
    ///
    /// - Parameter labels: the label with its bound.
    public static func configured(_ labels: ConfiguredLabel) -> LabelDimension where Label == LabelSlot {
        LabelDimension(values: .configured(labels))
    }
}

extension LabelDimension where Label: ClosedMetricLabel {
    /// Every case.
    public static var all: LabelDimension { .only(Array(Label.allCases)) }

    /// Some of the cases: the others have no series, and counting one of them is lost.
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

/// One value, or one combination of values, of a dimension.
struct LabelRow: Sendable {
    let index: Int
    let values: [String]
}

/// A dimension without its type.
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
