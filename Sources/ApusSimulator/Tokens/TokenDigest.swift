public import ApusCore

/// 128 bits that stand for a token: for tables and for drawing lots, not for secrets.
///
/// Of an APNs token it is taken over the raw bytes, so that upper and lower case hexadecimal agree; of all others over
/// the text. Two of a hundred million tokens collide with a probability of about 10⁻²³.
public struct TokenDigest: Hashable, Sendable {
    let high: UInt64
    let low: UInt64

    /// Of raw bytes.
    init(_ bytes: Span<UInt8>) {
        // Folded multiplication, after Wang Yi's wyhash; two lanes with own constants.
        var high: UInt64 = 0xa076_1d64_78bd_642f ^ UInt64(truncatingIfNeeded: bytes.count)
        var low: UInt64 = 0xe703_7ed1_a0b4_28db ^ UInt64(truncatingIfNeeded: bytes.count)
        unsafe bytes.withUnsafeBytes { raw in
            var offset = 0
            while offset + 8 <= raw.count {
                let word = unsafe raw.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
                high = Self.fold(high ^ word, 0x8ebc_6af0_9c88_c6e3)
                low = Self.fold(low ^ word, 0x5899_65cc_7537_4cc3)
                offset += 8
            }
            guard offset < raw.count else { return }
            var rest: UInt64 = 0
            while offset < raw.count {
                rest = rest << 8 | UInt64(unsafe raw[offset])
                offset += 1
            }
            high = Self.fold(high ^ rest, 0x1d8e_4e27_c47d_124f)
            low = Self.fold(low ^ rest, 0xeb44_acca_b455_d165)
        }
        self.high = Self.fold(high, 0x9e37_79b9_7f4a_7c15)
        self.low = Self.fold(low, 0xd6e8_feb8_6659_fd93)
    }

    /// Of 32 raw bytes, in memory order.
    init(words: (UInt64, UInt64, UInt64, UInt64)) {
        self = unsafe withUnsafeBytes(of: words) { raw in
            unsafe raw.withMemoryRebound(to: UInt8.self) { unsafe TokenDigest(Span(_unsafeElements: $0)) }
        }
    }

    /// Of a token as an app hands it over.
    public init(_ token: String, provider: Provider) {
        if provider == .apns, let bytes = Hexadecimal.decode(token) {
            self.init(bytes.span)
        } else {
            self.init(Array(token.utf8).span)
        }
    }

    @inline(__always)
    static func fold(_ one: UInt64, _ other: UInt64) -> UInt64 {
        let product = one.multipliedFullWidth(by: other)
        return product.high ^ product.low
    }

    /// Feeds half of it: it is a hash already.
    public func hash(into hasher: inout Hasher) { hasher.combine(self.low) }
}
