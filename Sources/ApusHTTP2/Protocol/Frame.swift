/// A frame's header (RFC 9113 §4.1) and its constants.
struct Frame {
    enum Kind {
        static let data: UInt8 = 0
        static let headers: UInt8 = 1
        static let priority: UInt8 = 2
        static let reset: UInt8 = 3
        static let settings: UInt8 = 4
        static let pushPromise: UInt8 = 5
        static let ping: UInt8 = 6
        static let goAway: UInt8 = 7
        static let windowUpdate: UInt8 = 8
        static let continuation: UInt8 = 9
    }

    enum Flags {
        static let endStream: UInt8 = 0x1
        static let acknowledgement: UInt8 = 0x1
        static let endHeaders: UInt8 = 0x4
        static let padded: UInt8 = 0x8
        static let priority: UInt8 = 0x20
    }

    /// SETTINGS (RFC 9113 §6.5.2).
    enum Setting {
        static let headerTableSize: UInt16 = 1
        static let enablePush: UInt16 = 2
        static let maxConcurrentStreams: UInt16 = 3
        static let initialWindowSize: UInt16 = 4
        static let maxFrameSize: UInt16 = 5
        static let maxHeaderListSize: UInt16 = 6
    }

    /// The bytes of the header.
    static let headerBytes = 9
    /// The maximum payload of either side unless SETTINGS say otherwise; ours do not, and we send no larger ones even
    /// where the peer allows them.
    static let payloadBytesMax = 16_384
    /// The largest window (RFC 9113 §6.9.1).
    static let windowMax = 0x7fff_ffff
    /// The initial window.
    static let windowBefore = 65_535

    let length: Int
    let kind: UInt8
    let flags: UInt8
    let streamID: UInt32

    /// Parses ``headerBytes``.
    @unsafe @inline(__always)
    init(_ bytes: UnsafePointer<UInt8>) {
        unsafe self.length = Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
        unsafe self.kind = bytes[3]
        unsafe self.flags = bytes[4]
        unsafe self.streamID = bytes.bigEndian32(at: 5) & 0x7fff_ffff
    }

    @inline(__always)
    func has(_ flag: UInt8) -> Bool { self.flags & flag != 0 }

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
        let start = unsafe self.reserve(self.count + Frame.headerBytes) + self.count
        unsafe Frame.write(length: length, kind: kind, flags: flags, streamID: streamID, to: start)
        self.setCount(self.count + Frame.headerBytes)
    }
}
