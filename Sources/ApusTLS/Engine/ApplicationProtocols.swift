/// A list of application protocols in ALPN's form (RFC 7301 §3.1): each name behind its length, in one byte.
///
/// It has a fixed address, because OpenSSL's callback points into it.
@safe final class ApplicationProtocols: Sendable {
    /// The maximum bytes of a name.
    static let nameBytesMax = 255
    /// The maximum bytes of the list.
    static let bytesMax = 65_535

    nonisolated(unsafe) let wire: UnsafeBufferPointer<UInt8>

    /// Creates a list. Traps on an empty name or one that is too long: the program chooses the protocols.
    init(_ names: [String]) {
        var bytes: [UInt8] = []
        for name in names {
            precondition(1...Self.nameBytesMax ~= name.utf8.count, "a protocol's name has 1 to 255 bytes")
            bytes.append(UInt8(name.utf8.count))
            bytes += name.utf8
        }
        precondition(bytes.count <= Self.bytesMax, "the list of protocols is too long")
        let buffer = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: bytes.count)
        _ = unsafe buffer.initialize(from: bytes)
        unsafe self.wire = UnsafeBufferPointer(buffer)
    }

    deinit { unsafe self.wire.deallocate() }

    var isEmpty: Bool { unsafe self.wire.isEmpty }

    /// Returns true when the list has the name.
    func contains(_ name: String) -> Bool {
        var rest = unsafe self.wire[...]
        while let count = unsafe rest.popFirst() {
            if unsafe rest.prefix(Int(count)).elementsEqual(name.utf8) { return true }
            unsafe rest = rest.dropFirst(Int(count))
        }
        return false
    }
}
