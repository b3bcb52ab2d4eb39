/// The header of an HTTP/2 frame (RFC 9113 §4.1), and the constants of frames.
package struct HTTP2Frame {
    /// The types of frames (RFC 9113 §6).
    package enum Kind {
        package static let data: UInt8 = 0
        package static let headers: UInt8 = 1
        package static let priority: UInt8 = 2
        package static let reset: UInt8 = 3
        package static let settings: UInt8 = 4
        package static let pushPromise: UInt8 = 5
        package static let ping: UInt8 = 6
        package static let goAway: UInt8 = 7
        package static let windowUpdate: UInt8 = 8
        package static let continuation: UInt8 = 9
    }

    /// The flags of frames (RFC 9113 §6).
    package enum Flags {
        package static let endStream: UInt8 = 0x1
        package static let acknowledgement: UInt8 = 0x1
        package static let endHeaders: UInt8 = 0x4
        package static let padded: UInt8 = 0x8
        package static let priority: UInt8 = 0x20
    }

    /// The identifiers of SETTINGS (RFC 9113 §6.5.2).
    package enum Setting {
        package static let headerTableSize: UInt16 = 1
        package static let enablePush: UInt16 = 2
        package static let maxConcurrentStreams: UInt16 = 3
        package static let initialWindowSize: UInt16 = 4
        package static let maxFrameSize: UInt16 = 5
        package static let maxHeaderListSize: UInt16 = 6
    }

    /// The bytes that a client's connection begins with (RFC 9113 §3.4).
    package static let clientPreface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    /// The bytes of the header.
    package static let headerBytes = 9
    /// The maximum payload of either side unless SETTINGS say otherwise; ours do not, and we send no larger ones even
    /// where the peer allows them.
    package static let payloadBytesMax = 16_384
    /// The largest window (RFC 9113 §6.9.1).
    package static let windowMax = 0x7fff_ffff
    /// The window before SETTINGS or WINDOW_UPDATE change it (RFC 9113 §6.9.2).
    package static let windowBefore = 65_535

    /// The bytes of the payload.
    package let length: Int
    /// The type, see ``Kind``.
    package let kind: UInt8
    /// The flags, see ``Flags``.
    package let flags: UInt8
    /// The stream; 0 is the connection.
    package let streamID: UInt32

    /// Parses the ``headerBytes`` that begin at an index.
    package init(_ bytes: Span<UInt8>, at index: Int) {
        self.length = Int(bytes[index]) << 16 | Int(bytes[index + 1]) << 8 | Int(bytes[index + 2])
        self.kind = bytes[index + 3]
        self.flags = bytes[index + 4]
        self.streamID =
            UInt32(bytes[index + 5] & 0x7f) << 24 | UInt32(bytes[index + 6]) << 16 | UInt32(bytes[index + 7]) << 8
            | UInt32(bytes[index + 8])
    }

    /// Parses ``headerBytes``.
    @unsafe @inline(__always)
    init(_ bytes: UnsafePointer<UInt8>) {
        unsafe self.length = Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
        unsafe self.kind = bytes[3]
        unsafe self.flags = bytes[4]
        unsafe self.streamID = bytes.bigEndian32(at: 5) & 0x7fff_ffff
    }

    /// Returns true when the flag is set.
    @inlinable
    package func has(_ flag: UInt8) -> Bool { self.flags & flag != 0 }

    /// Writes a header of ``headerBytes``.
    @unsafe @inline(__always)
    static func write(
        length: Int,
        kind: UInt8,
        flags: UInt8,
        streamID: UInt32,
        to bytes: UnsafeMutablePointer<UInt8>
    ) {
        let front = UInt64(length) << 40 | UInt64(kind) << 32 | UInt64(flags) << 24 | UInt64(streamID >> 8)
        unsafe UnsafeMutableRawPointer(bytes).storeBytes(of: front.bigEndian, as: UInt64.self)
        unsafe bytes[8] = UInt8(truncatingIfNeeded: streamID)
    }
}

extension UnsafePointer<UInt8> {
    @inline(__always)
    func bigEndian32(at offset: Int) -> UInt32 {
        unsafe UInt32(bigEndian: UnsafeRawPointer(self + offset).loadUnaligned(as: UInt32.self))
    }
}

extension GrowingBytes {
    mutating func append(bigEndian value: UInt32) {
        for shift: UInt32 in [24, 16, 8, 0] { self.append(UInt8(truncatingIfNeeded: value >> shift)) }
    }

    /// Appends a frame's header.
    mutating func appendFrame(length: Int, kind: UInt8, flags: UInt8 = 0, streamID: UInt32 = 0) {
        let start = unsafe self.reserve(self.count + HTTP2Frame.headerBytes) + self.count
        unsafe HTTP2Frame.write(length: length, kind: kind, flags: flags, streamID: streamID, to: start)
        self.setCount(self.count + HTTP2Frame.headerBytes)
    }
}
