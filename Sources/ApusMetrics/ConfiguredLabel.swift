internal import Synchronization

/// A label whose values come from the configuration, such as `app`: bounded, so that no configuration can inflate an exposition.
///
/// A value gets a slot when it is first looked up and keeps it; values beyond the bound share the slot `other`. Look a
/// slot up where the configuration is read and keep it: the look-up takes a lock.
public final class ConfiguredLabel: Sendable {
    /// The label's name.
    public let name: String
    /// The maximum number of values beside `other`.
    public let valuesMax: Int
    private let values = Mutex<[String]>([])

    /// Creates a label without values yet.
    ///
    /// - Parameters:
    ///   - name: the name in snake case.
    ///   - valuesMax: the number of values that get a series of their own, 1 to 1,000.
    public init(_ name: String, valuesMax: Int = 50) {
        precondition((1...1_000).contains(valuesMax))
        self.name = name
        self.valuesMax = valuesMax
    }

    /// Returns the slot for a value, a new one while there is room.
    public func slot(for value: String) -> LabelSlot {
        self.values.withLock { values in
            if let index = values.firstIndex(of: value) { return LabelSlot(index + 1) }
            guard values.count < self.valuesMax, value != "other" else { return .other }
            values.append(value)
            return LabelSlot(values.count)
        }
    }

    /// The slots of the values that are known so far, and of the others.
    public var slots: [LabelSlot] { [.other] + self.values.withLock { $0.indices.map { LabelSlot($0 + 1) } } }

    var capacity: Int { self.valuesMax + 1 }

    var rows: [LabelRow] {
        self.values.withLock { values in
            values.enumerated().map { LabelRow(index: $0.offset + 1, values: [$0.element]) }
                + [LabelRow(index: 0, values: ["other"])]
        }
    }
}

/// The slot of a configured value.
public struct LabelSlot: MetricLabel, Hashable {
    /// The index; 0 is `other`.
    public let labelIndex: Int

    /// The slot of all values without one of their own.
    public static let other = LabelSlot(0)

    init(_ labelIndex: Int) { self.labelIndex = labelIndex }
}
