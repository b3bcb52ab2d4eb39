/// The value of one step of a cell in the unit of the family: cells are integers, so that counting is exact.
public enum MetricScale: Int64, Sendable, Hashable {
    /// One: objects, bytes, whole seconds.
    case one = 1
    /// A hundredth: clock ticks of /proc.
    case hundredths = 100
    /// A thousandth: milliseconds of a family in seconds.
    case thousandths = 1_000
    /// A billionth: nanoseconds of a family in seconds.
    case billionths = 1_000_000_000

    private var digits: Int {
        switch self {
        case .one: 0
        case .hundredths: 2
        case .thousandths: 3
        case .billionths: 9
        }
    }

    /// Appends the exact decimal: `1500` in thousandths is "1.5".
    func append(_ value: Int64, to text: inout [UInt8]) {
        appendDecimal(value / self.rawValue, negative: value < 0, to: &text)
        let rest = (value % self.rawValue).magnitude
        guard rest != 0 else { return }
        text.append(0x2e)
        var fraction = rest
        var divisor = UInt64(self.rawValue) / 10
        while fraction != 0 {
            text.append(0x30 + UInt8(fraction / divisor))
            fraction %= divisor
            divisor /= 10
        }
    }

    /// Returns the canonical form of a bucket's bound: always with a point, `1.0`.
    ///
    /// Source: OpenMetrics 1.0, "Considerations: Canonical Numbers". Both formats use the same text: `le="1"` in one
    /// and `le="1.0"` in the other would be two series.
    func bound(_ value: Int64) -> String {
        var text: [UInt8] = []
        self.append(value, to: &text)
        if !text.contains(0x2e) { text += [0x2e, 0x30] }
        return String(decoding: text, as: UTF8.self)
    }

    /// Returns the value in the family's unit, for a sum.
    func real(_ value: Double) -> Double { value / Double(self.rawValue) }
}

/// Appends digits without creating a String.
private func appendDecimal(_ value: Int64, negative: Bool, to text: inout [UInt8]) {
    if negative { text.append(0x2d) }
    var rest = value.magnitude
    guard rest != 0 else {
        text.append(0x30)
        return
    }
    let start = text.count
    while rest != 0 {
        text.append(0x30 + UInt8(rest % 10))
        rest /= 10
    }
    text[start...].reverse()
}
