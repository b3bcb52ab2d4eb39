/// A JSON number, kept as it was written: nothing is lost between reading and writing, however large or precise it is.
public struct JSONNumber: Hashable, Sendable, CustomStringConvertible {
    /// The number as written, following RFC 8259 §6.
    public let text: String

    /// Wraps a text that the parser has checked.
    init(checked text: String) { self.text = text }

    /// Creates a whole number.
    public init(_ value: some FixedWidthInteger) { self.text = String(value) }

    /// Creates a finite number, in the fewest digits that restore it; whole ones without a fraction. Nil for infinities
    /// and NaN, which JSON cannot express.
    public init?(_ value: Double) {
        guard value.isFinite else { return nil }
        if let whole = Int64(exactly: value), whole.magnitude < 1 << 53 {
            self.text = String(whole)
        } else {
            self.text = value.description
        }
    }

    /// The number as an integer, when it is written as one (no fraction, no exponent) and in range.
    public var int64: Int64? { Int64(self.text) }

    /// The nearest double; nil beyond its range.
    public var double: Double? {
        guard let value = Double(self.text), value.isFinite else { return nil }
        return value
    }

    /// The number as written.
    public var description: String { self.text }
}
