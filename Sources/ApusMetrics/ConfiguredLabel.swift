internal import Synchronization

/// A label whose values come from the configuration, such as `app`: bounded, so that no configuration can blow up an
/// exposition.
///
/// A value gets a slot the first time that it is asked for and keeps it; what comes after the bound shares the slot `other`.
/// Look a slot up where the configuration is read and keep it: the look-up takes a lock.
public final class ConfiguredLabel: Sendable {
    /// The label's name.
    public let name: String
    /// Values beside `other`.
    public let valuesMax: Int
    private let slots = Mutex<[String]>([])

    /// Creates a label without values yet.
    ///
    /// - Parameters:
    ///   - name: in snake case.
    ///   - valuesMax: how many values get a series of their own, 1 to 1,000.
    public init(_ name: String, valuesMax: Int = 50) {
        precondition((1...1_000).contains(valuesMax))
        self.name = name
        self.valuesMax = valuesMax
    }

    /// The slot for a value, a new one while there is room.
    public func slot(for value: String) -> LabelSlot {
        self.slots.withLock { values in
            if let index = values.firstIndex(of: value) { return LabelSlot(index + 1) }
            guard values.count < self.valuesMax, value != "other" else { return .other }
            values.append(value)
            return LabelSlot(values.count)
        }
    }

    var capacity: Int { self.valuesMax + 1 }

    var rows: [LabelRow] {
        self.slots.withLock { values in
            values.enumerated().map { LabelRow(index: $0.offset + 1, values: [$0.element]) }
                + [LabelRow(index: 0, values: ["other"])]
        }
    }
}

/// The place of a configured value.
public struct LabelSlot: MetricLabel, Hashable {
    /// 0 is `other`.
    public let labelIndex: Int

    /// Everything without a slot of its own.
    public static let other = LabelSlot(0)

    init(_ labelIndex: Int) { self.labelIndex = labelIndex }
}
