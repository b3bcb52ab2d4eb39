/// The sixteen bytes of a request's UUID, sent as the header `apns-id`.
package struct RequestID: Hashable, Sendable, CustomStringConvertible {
    /// The first eight bytes, big endian.
    package let high: UInt64
    /// The last eight bytes, big endian.
    package let low: UInt64

    /// Characters of the canonical form.
    package static let textBytes = 36

    /// Both halves.
    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// The canonical lower-case form, 8-4-4-4-12, as Apple wants it.
    package var description: String {
        var text: [UInt8] = []
        for position in 0..<16 {
            if position == 4 || position == 6 || position == 8 || position == 10 { text.append(0x2d) }
            let byte = UInt8(
                truncatingIfNeeded: (position < 8 ? self.high : self.low) >> UInt64((7 - position % 8) * 8)
            )
            text.append(hexadecimalDigit(byte >> 4))
            text.append(hexadecimalDigit(byte & 0x0f))
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Writes the same text to memory of at least ``textBytes``.
    @unsafe @inline(__always)
    func write(to target: UnsafeMutablePointer<UInt8>) {
        var cursor = unsafe target
        @inline(__always)
        func group(_ value: UInt64, bytes: Int) {
            for position in stride(from: bytes - 1, through: 0, by: -1) {
                let byte = UInt8(truncatingIfNeeded: value >> UInt64(position * 8))
                unsafe cursor[0] = hexadecimalDigit(byte >> 4)
                unsafe cursor[1] = hexadecimalDigit(byte & 0x0f)
                unsafe cursor += 2
            }
        }
        @inline(__always)
        func dash() {
            unsafe cursor[0] = 0x2d
            unsafe cursor += 1
        }
        group(self.high >> 32, bytes: 4)
        dash()
        group(self.high >> 16, bytes: 2)
        dash()
        group(self.high, bytes: 2)
        dash()
        group(self.low >> 48, bytes: 2)
        dash()
        group(self.low, bytes: 6)
    }
}

/// The lower-case digit of 0...15, without a branch or a table.
@inline(__always)
func hexadecimalDigit(_ value: UInt8) -> UInt8 {
    // 9 - value wraps to 0xfa...0xff for letters: their top bit adds the distance from ':' to 'a'.
    value &+ 0x30 &+ ((9 &- value) >> 7) &* 0x27
}
