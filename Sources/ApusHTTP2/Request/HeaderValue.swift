internal import Synchronization

/// A checked, immutable header value, shared by every request that carries it and never copied per request.
///
/// A checked value cannot smuggle a second header anywhere.
@safe package final class HeaderValue: Sendable {
    /// The bytes; valid as long as self.
    nonisolated(unsafe) let start: UnsafeMutablePointer<UInt8>
    /// The number of bytes.
    package let count: Int
    /// A number that no other value has.
    let serial = Serial.next()

    /// Checks and copies a text.
    ///
    /// The text may hold visible ASCII, with spaces and tabs inside but not at an end, at most
    /// ``HTTP2Limits/headerValueBytesMax`` bytes. (RFC 9110 §5.5, without its obsolete bytes beyond ASCII.)
    package init(_ text: some StringProtocol) throws(HTTP2Error) {
        let bytes = Array(text.utf8)
        guard bytes.count <= HTTP2Limits.headerValueBytesMax else {
            throw HTTP2Error(.invalidHeaderValue, "longer than \(HTTP2Limits.headerValueBytesMax) bytes")
        }
        guard bytes.allSatisfy({ (0x20...0x7e).contains($0) || $0 == 0x09 }) else {
            throw HTTP2Error(.invalidHeaderValue, "only visible ASCII, spaces and tabs are allowed")
        }
        if let first = bytes.first, let last = bytes.last, first <= 0x20 || last <= 0x20 {
            throw HTTP2Error(.invalidHeaderValue, "white space at an end")
        }
        self.count = bytes.count
        unsafe self.start = .allocate(capacity: max(bytes.count, 1))
        for (index, byte) in bytes.enumerated() { unsafe self.start[index] = byte }
    }

    deinit { unsafe self.start.deallocate() }

    /// The text.
    package var text: String {
        unsafe String(decoding: UnsafeBufferPointer(start: self.start, count: self.count), as: UTF8.self)
    }
}

/// A header: a checked name and a checked value.
package struct HeaderField: Sendable {
    /// The name, in lower case.
    package let name: String
    /// The value.
    package let value: HeaderValue
    /// The header as a table of headers has it.
    let field: HPACKTable.Field

    /// Checks the name.
    ///
    /// Refused are all but lower-case tokens (RFC 9113 §8.2.1) and the names of connection-specific headers (§8.2.2).
    package init(_ name: String, _ value: HeaderValue) throws(HTTP2Error) {
        guard (1...HTTP2Limits.headerNameBytesMax).contains(name.utf8.count), name.utf8.allSatisfy(isNameByte) else {
            throw HTTP2Error(.invalidHeaderName, "only lower-case tokens are allowed")
        }
        guard !Self.connectionSpecific.contains(name) else {
            throw HTTP2Error(.invalidHeaderName, "\(name) is not allowed in HTTP/2")
        }
        self.name = name
        self.value = value
        self.field = unsafe HPACKTable.Field(
            Array(name.utf8),
            Array(UnsafeBufferPointer(start: value.start, count: value.count)),
        )
    }

    /// Checks the name and the value.
    package init(_ name: String, _ value: some StringProtocol) throws(HTTP2Error) {
        try self.init(name, HeaderValue(value))
    }

    private static let connectionSpecific: [String] = [
        "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "host", "te",
    ]
}

private func isNameByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x61...0x7a, 0x30...0x39: true
    case 0x21, 0x23...0x27, 0x2a, 0x2b, 0x2d, 0x2e, 0x5e...0x60, 0x7c, 0x7e: true
    default: false
    }
}

/// Creates numbers that distinguish objects that had the same address one after the other.
enum Serial {
    private static let last = Atomic<UInt64>(0)

    /// Returns a number that was never returned before; never 0.
    static func next() -> UInt64 { self.last.wrappingAdd(1, ordering: .relaxed).newValue }
}
