/// Converts 64 hexadecimal digits to four words in memory order, eight digits at a time.
enum HexWords {
    static func decode(_ text: Span<UInt8>, from start: Int) -> (UInt64, UInt64, UInt64, UInt64)? {
        guard let a = Self.word(text, start), let b = Self.word(text, start + 16), let c = Self.word(text, start + 32),
            let d = Self.word(text, start + 48)
        else { return nil }
        return (a, b, c, d)
    }

    /// Converts sixteen digits to eight bytes.
    @inline(__always)
    private static func word(_ text: Span<UInt8>, _ start: Int) -> UInt64? {
        guard let low = Self.half(text, start), let high = Self.half(text, start + 8) else { return nil }
        return UInt64(low) | UInt64(high) << 32
    }

    /// Converts eight digits to four bytes, the first in the lowest place.
    @inline(__always)
    private static func half(_ text: Span<UInt8>, _ start: Int) -> UInt32? {
        let raw = unsafe text.withUnsafeBytes {
            unsafe UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: start, as: UInt64.self))
        }
        // A letter has bit 6: its value is its lower four bits plus nine.
        let letters = raw >> 6 & 0x0101_0101_0101_0101
        let digits = (raw & 0x0f0f_0f0f_0f0f_0f0f) &+ letters &* 9
        // The result is checked: the text must be what these values spell, in either case.
        let lower = raw | letters &* 0x20
        let spelled = digits &+ 0x3030_3030_3030_3030 &+ letters &* 0x27
        guard lower == spelled, digits & 0xf0f0_f0f0_f0f0_f0f0 == 0 else { return nil }
        let pairs = (digits << 4 | digits >> 8) & 0x00ff_00ff_00ff_00ff
        let packed = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff
        return UInt32(truncatingIfNeeded: packed | packed >> 16)
    }

    static func bytes(_ words: (UInt64, UInt64, UInt64, UInt64)) -> [UInt8] {
        [words.0, words.1, words.2, words.3].flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64($0 * 8)) }
        }
    }
}
