/// A JSON number, kept as it was written: nothing is lost between reading and writing, however large or precise it is.
public struct JSONNumber: Hashable, Sendable, CustomStringConvertible {
    /// As written, following RFC 8259 §6.
    public let text: String

    /// Takes a text that the parser has checked.
    init(checked text: String) { self.text = text }

    /// A whole number.
    public init(_ value: some FixedWidthInteger) { self.text = String(value) }

    /// A finite number, in the fewest digits that give it back; whole ones without a fraction. Nil for infinities and NaN,
    /// which JSON does not know.
    public init?(_ value: Double) {
        guard value.isFinite else { return nil }
        if let whole = Int64(exactly: value), whole.magnitude < 1 << 53 {
            self.text = String(whole)
        } else {
            self.text = value.description
        }
    }

    /// The number, when it is a whole one in range and written so (no fraction, no exponent).
    public var int64: Int64? { Int64(self.text) }

    /// The nearest double; nil beyond its range.
    public var double: Double? {
        guard let value = Double(self.text), value.isFinite else { return nil }
        return value
    }

    /// As written.
    public var description: String { self.text }
}
