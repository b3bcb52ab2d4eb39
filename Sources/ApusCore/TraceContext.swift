/// The id of a trace: 16 bytes, not all zero.
public struct TraceID: Hashable, Sendable, CustomStringConvertible {
    /// The first eight bytes.
    public let high: UInt64
    /// The last eight bytes.
    public let low: UInt64

    /// Creates an id of its bytes.
    @inlinable
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// The id in 32 hexadecimal digits.
    public var description: String { hexadecimal(self.high) + hexadecimal(self.low) }
}

/// The id of a span: 8 bytes, not all zero.
public struct SpanID: Hashable, Sendable, CustomStringConvertible {
    /// The eight bytes as a number, the first the most significant.
    public let value: UInt64

    /// The id in 16 hexadecimal digits.
    public var description: String { hexadecimal(self.value) }
}

/// A position in a trace, which messages carry in the field `traceparent`.
///
/// Source: W3C Trace Context, https://www.w3.org/TR/trace-context/#traceparent-header
public struct TraceContext: Hashable, Sendable {
    /// The trace.
    public let trace: TraceID
    /// The span that the message comes from.
    public let span: SpanID
    /// The flags; bit 0: the trace is sampled.
    public let flags: UInt8

    /// True when the trace is sampled, so that its spans are recorded.
    public var isSampled: Bool { self.flags & 1 == 1 }

    /// Parses `00-<32 digits>-<16 digits>-<2 digits>`, digits in lower case; of a later version the first four fields.
    ///
    /// Returns nil for any other form, for a zero id, and for the version ff.
    public init?(traceparent text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count >= Self.bytes, bytes[2] == 0x2d, bytes[35] == 0x2d, bytes[52] == 0x2d,
            let version = Self.number(bytes[0..<2]), version != 0xff,
            version == 0 ? bytes.count == Self.bytes : bytes.count == Self.bytes || bytes[Self.bytes] == 0x2d,
            let high = Self.number(bytes[3..<19]), let low = Self.number(bytes[19..<35]), high | low != 0,
            let span = Self.number(bytes[36..<52]), span != 0,
            let flags = Self.number(bytes[53..<55])
        else { return nil }
        self.trace = TraceID(high: high, low: low)
        self.span = SpanID(value: span)
        self.flags = UInt8(flags)
    }

    private init(trace: TraceID, span: SpanID, flags: UInt8) {
        self.trace = trace
        self.span = span
        self.flags = flags
    }

    /// The context in the form of version 00.
    public var traceparent: String {
        let flags = hexadecimal(UInt64(self.flags)).suffix(2)
        return "00-\(self.trace)-\(self.span)-\(flags)"
    }

    /// Creates the span of a following step. Its id is computed from the previous span and the subject, not at random:
    /// a step that is repeated after a crash is the same span, and its messages are the same bytes.
    public func child(_ step: String, of subject: String) -> TraceContext {
        // FNV-1a, and SplitMix64's last mix over it.
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325 ^ self.span.value
        for byte in Array(step.utf8) + [0] + Array(subject.utf8) { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        hash = (hash ^ hash >> 30) &* 0xbf58_476d_1ce4_e5b9
        hash = (hash ^ hash >> 27) &* 0x94d0_49bb_1331_11eb
        hash ^= hash >> 31
        return TraceContext(trace: self.trace, span: SpanID(value: max(1, hash)), flags: self.flags)
    }

    /// The bytes of version 00.
    private static let bytes = 55

    /// Parses lower-case hexadecimal digits; nil for anything else.
    private static func number(_ digits: ArraySlice<UInt8>) -> UInt64? {
        var number: UInt64 = 0
        for digit in digits {
            switch digit {
            case 0x30...0x39: number = number << 4 | UInt64(digit - 0x30)
            case 0x61...0x66: number = number << 4 | UInt64(digit - 0x61 + 10)
            default: return nil
            }
        }
        return number
    }
}

/// Returns 16 hexadecimal digits.
private func hexadecimal(_ value: UInt64) -> String {
    let digits = String(value, radix: 16)
    return String(repeating: "0", count: 16 - digits.utf8.count) + digits
}
