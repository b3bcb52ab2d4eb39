/// Finds in a body, without reading it as JSON, what the ledger needs.
///
/// Apus writes the send's id as `"apus.send"` beside `aps`, and as `"apus_send"` among FCM's data. A text in quotes that
/// looks like such a name inside another string has its quotes escaped there, so it is not found by mistake.
package enum PayloadReader {
    private static let sendNames: (apns: StaticString, fcm: StaticString) = (#""apus.send""#, #""apus_send""#)

    /// Where the send's id stands; empty if it does not.
    package static func send(in body: Span<UInt8>, route: FaultRoute) -> Range<Int> {
        Self.text(of: route == .apns ? Self.sendNames.apns : Self.sendNames.fcm, in: body)
    }

    /// Where the token of an FCM message stands; empty if it does not.
    package static func token(in body: Span<UInt8>) -> Range<Int> {
        let token = Self.text(of: #""token""#, in: body)
        return token.isEmpty ? Self.text(of: #""fid""#, in: body) : token
    }

    /// The value behind the first `name`, between its quotes, if it is a string without escapes.
    private static func text(of name: StaticString, in body: Span<UInt8>) -> Range<Int> {
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

    /// Where `name` begins. Eight bytes are compared at once; whatever has a value is at least that long.
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

    /// Goes past that byte and white space before it.
    private static func skip(_ byte: UInt8, in body: Span<UInt8>, _ index: inout Int) -> Bool {
        while index < body.count, body[index] == 0x20 || (0x09...0x0d).contains(body[index]) { index += 1 }
        guard index < body.count, body[index] == byte else { return false }
        index += 1
        return true
    }
}
