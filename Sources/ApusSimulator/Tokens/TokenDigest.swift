public import ApusCore

/// A hash of 128 bits that identifies a token in tables and random draws; it protects no secret.
///
/// It covers raw bytes where a token is hexadecimal, so that upper and lower case agree, otherwise the text. Two of a
/// hundred million tokens collide with a probability of about 10⁻²³.
public struct TokenDigest: Hashable, Sendable {
    let high: UInt64
    let low: UInt64

    /// Hashes raw bytes.
    init(_ bytes: Span<UInt8>) {
        // This is folded multiplication, after Wang Yi's wyhash, with two lanes and constants of our own.
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

    /// Hashes 32 raw bytes, in memory order.
    init(words: (UInt64, UInt64, UInt64, UInt64)) {
        self = unsafe withUnsafeBytes(of: words) { raw in
            unsafe raw.withMemoryRebound(to: UInt8.self) { unsafe TokenDigest(Span(_unsafeElements: $0)) }
        }
    }

    /// Hashes a token in the app's form.
    public init(_ token: String, provider: Provider) {
        let bytes = SimulatedProviders.type(of: provider)?.tokenBytes(token) ?? Array(token.utf8)
        self.init(bytes.span)
    }

    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    @inline(__always)
    static func fold(_ one: UInt64, _ other: UInt64) -> UInt64 {
        let product = one.multipliedFullWidth(by: other)
        return product.high ^ product.low
    }

    /// Hashes half of the digest, which is a hash already.
    public func hash(into hasher: inout Hasher) { hasher.combine(self.low) }
}

extension TokenDigest: CustomStringConvertible {
    /// The digest in 32 hexadecimal digits.
    public var description: String {
        var bytes: [UInt8] = []
        for word in [self.high, self.low] {
            for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(word >> UInt64(shift) & 0xff)) }
        }
        return Hexadecimal.encode(bytes)
    }
}
