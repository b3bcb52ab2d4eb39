/// Finds values in a JSON body without parsing it, for the ledger.
///
/// A quoted text that looks like a key inside another string has its quotes escaped there, so it is not found by mistake.
package enum PayloadReader {
    /// Returns the range of the value behind the first `name`, a key in its quotes, if it is a string without escapes;
    /// otherwise an empty range.
    package static func text(of name: StaticString, in body: Span<UInt8>) -> Range<Int> {
        guard let found = Self.place(of: name, in: body) else { return 0..<0 }
        var index = found + name.utf8CodeUnitCount
        guard Self.skip(0x3a, in: body, &index), Self.skip(0x22, in: body, &index) else { return 0..<0 }
        let start = index
        while index < body.count, body[index] != 0x22 {
            guard body[index] != 0x5c else { return 0..<0 }
            index += 1
        }
        return index < body.count ? start..<index : 0..<0
    }

    /// Returns the index of `name`. Eight bytes are compared at once; a key with a value is at least that long.
    private static func place(of name: StaticString, in body: Span<UInt8>) -> Int? {
        precondition(name.utf8CodeUnitCount >= 5, "a name in quotes")
        let first = min(name.utf8CodeUnitCount, 8)
        let mask = UInt64.max >> UInt64(64 - 8 * first)
        let name = unsafe UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        var wanted: UInt64 = 0
        for index in (0..<first).reversed() { wanted = wanted << 8 | UInt64(unsafe name[index]) }
        return unsafe body.withUnsafeBytes { bytes -> Int? in
            var offset = 0
            while offset + max(8, name.count) <= bytes.count {
                let word = unsafe UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
                if word & mask == wanted {
                    var matched = first
                    while matched < name.count, unsafe bytes[offset + matched] == name[matched] { matched += 1 }
                    if matched == name.count { return offset }
                }
                offset += 1
            }
            return nil
        }
    }

    /// Skips a byte and white space before it; returns false when another byte follows.
    private static func skip(_ byte: UInt8, in body: Span<UInt8>, _ index: inout Int) -> Bool {
        while index < body.count, body[index] == 0x20 || (0x09...0x0d).contains(body[index]) { index += 1 }
        guard index < body.count, body[index] == byte else { return false }
        index += 1
        return true
    }
}

extension [UInt8] {
    /// Appends the bytes of a span.
    @inline(__always)
    mutating func append(span bytes: Span<UInt8>) {
        unsafe bytes.withUnsafeBufferPointer { unsafe self.append(contentsOf: $0) }
    }
}

extension Span<UInt8> {
    /// Returns true when the bytes contain a text.
    func contains(_ part: String) -> Bool {
        let part = Array(part.utf8)
        guard !part.isEmpty else { return true }
        guard self.count >= part.count else { return false }
        for start in 0...(self.count - part.count) {
            var matched = 0
            while matched < part.count, self[start + matched] == part[matched] { matched += 1 }
            if matched == part.count { return true }
        }
        return false
    }
}
