/// The sixteen bytes of a request's UUID, sent as a header.
package struct RequestID: Hashable, Sendable, CustomStringConvertible {
    /// The first eight bytes, big endian.
    package let high: UInt64
    /// The last eight bytes, big endian.
    package let low: UInt64

    /// The name of the header.
    static let headerName = "apns-id"
    /// The number of characters of the canonical form.
    package static let textBytes = 36

    /// Creates an id of both halves.
    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// The canonical lower-case form, 8-4-4-4-12, as providers require
    /// (https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns).
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
        let target = UnsafeMutableRawPointer(target)
        let second = hexadecimalDigits(UInt32(truncatingIfNeeded: self.high))
        let third = hexadecimalDigits(UInt32(truncatingIfNeeded: self.low >> 32))
        let dash: UInt8 = 0x2d
        unsafe target.storeBytes(of: hexadecimalDigits(UInt32(truncatingIfNeeded: self.high >> 32)), as: UInt64.self)
        unsafe target.storeBytes(of: dash, toByteOffset: 8, as: UInt8.self)
        unsafe target.storeBytes(of: UInt32(truncatingIfNeeded: second), toByteOffset: 9, as: UInt32.self)
        unsafe target.storeBytes(of: dash, toByteOffset: 13, as: UInt8.self)
        unsafe target.storeBytes(of: UInt32(truncatingIfNeeded: second >> 32), toByteOffset: 14, as: UInt32.self)
        unsafe target.storeBytes(of: dash, toByteOffset: 18, as: UInt8.self)
        unsafe target.storeBytes(of: UInt32(truncatingIfNeeded: third), toByteOffset: 19, as: UInt32.self)
        unsafe target.storeBytes(of: dash, toByteOffset: 23, as: UInt8.self)
        unsafe target.storeBytes(of: UInt32(truncatingIfNeeded: third >> 32), toByteOffset: 24, as: UInt32.self)
        let last = hexadecimalDigits(UInt32(truncatingIfNeeded: self.low))
        unsafe target.storeBytes(of: last, toByteOffset: 28, as: UInt64.self)
    }
}

/// Returns the lower-case digit of 0...15, without a branch or a table.
@inline(__always)
func hexadecimalDigit(_ value: UInt8) -> UInt8 {
    // 9 - value wraps to 0xfa...0xff for letters: their top bit adds the distance from ':' to 'a'.
    value &+ 0x30 &+ ((9 &- value) >> 7) &* 0x27
}

/// Returns the eight lower-case digits of a number in memory order, the highest first.
@inline(__always)
func hexadecimalDigits(_ value: UInt32) -> UInt64 {
    // Each half byte moves into a byte of its own, the highest into the highest.
    var digits = UInt64(value)
    digits = (digits | digits << 16) & 0x0000_ffff_0000_ffff
    digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff
    digits = (digits | digits << 4) & 0x0f0f_0f0f_0f0f_0f0f
    // Values from ten carry into the upper half of their byte, and are letters.
    let letters = (digits &+ 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
    return (digits &+ 0x3030_3030_3030_3030 &+ letters &* 0x27).bigEndian
}
