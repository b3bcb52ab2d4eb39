internal import NIOCore

/// Writes a server's frames (RFC 9113 §4, §6). Headers are literals or entries of HPACK's static table, so that there is no state.
///
/// It is independent of the product's codec, so that tests find mistakes there.
enum FastFrames {
    enum Kind {
        static let data: UInt8 = 0
        static let headers: UInt8 = 1
        static let priority: UInt8 = 2
        static let reset: UInt8 = 3
        static let settings: UInt8 = 4
        static let push: UInt8 = 5
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

    /// The bytes of a frame's header.
    static let headerBytes = 9
    /// The maximum bytes of a frame of either side (RFC 9113 §6.5.2, unless SETTINGS change it).
    static let payloadBytesMax = 16_384

    private static func header(
        _ length: Int,
        _ kind: UInt8,
        _ flags: UInt8,
        _ streamID: UInt32,
        _ out: inout ByteBuffer
    ) {
        out.writeInteger(UInt64(length) << 40 | UInt64(kind) << 32 | UInt64(flags) << 24 | UInt64(streamID >> 8))
        out.writeInteger(UInt8(truncatingIfNeeded: streamID))
    }

    /// Writes 200 without a body, and the end of the stream: ten bytes.
    @inline(__always)
    static func accepted(_ streamID: UInt32, _ out: inout ByteBuffer) {
        // The frame has length 1, HEADERS, END_STREAM and END_HEADERS; ":status: 200" is entry 8 of the static table.
        out.writeInteger(0x0000_0101_0500_0000 | UInt64(streamID >> 8))
        out.writeInteger(UInt16(truncatingIfNeeded: streamID << 8 | 0x88))
    }

    /// Writes HEADERS, and the end of the stream if no body follows.
    static func headers(_ answer: ProviderAnswer, _ streamID: UInt32, _ out: inout ByteBuffer) {
        var block: [UInt8] = []
        if answer.status == 200 {
            block.append(0x88)
        } else {
            // This is a literal without indexing, with the name from entry 8.
            block.append(0x08)
            self.string(String(answer.status), &block)
        }
        for header in answer.headers {
            block.append(0x00)
            self.string(header.name, &block)
            self.string(header.value, &block)
        }
        precondition(block.count <= Self.payloadBytesMax, "an answer's headers fit in a frame")
        let end = answer.body.isEmpty ? Flags.endStream : 0
        self.header(block.count, Kind.headers, Flags.endHeaders | end, streamID, &out)
        out.writeBytes(block)
    }

    private static func string(_ text: String, _ block: inout [UInt8]) {
        var rest = text.utf8.count
        if rest < 127 {
            block.append(UInt8(rest))
        } else {
            block.append(127)
            rest -= 127
            while rest >= 128 {
                block.append(UInt8(rest & 0x7f) | 0x80)
                rest >>= 7
            }
            block.append(UInt8(rest))
        }
        block.append(contentsOf: text.utf8)
    }

    /// Writes a whole body in one frame, and the end of the stream.
    static func data(_ body: [UInt8], _ streamID: UInt32, _ out: inout ByteBuffer) {
        precondition(body.count <= Self.payloadBytesMax, "an answer's body fits in a frame")
        self.header(body.count, Kind.data, Flags.endStream, streamID, &out)
        out.writeBytes(body)
    }

    static func settings(maxConcurrentStreams: UInt32, _ out: inout ByteBuffer) {
        self.header(6, Kind.settings, 0, 0, &out)
        out.writeInteger(UInt16(3))
        out.writeInteger(maxConcurrentStreams)
    }

    static func settingsAcknowledgement(_ out: inout ByteBuffer) {
        self.header(0, Kind.settings, Flags.acknowledgement, 0, &out)
    }

    static func pingAcknowledgement(_ payload: UInt64, _ out: inout ByteBuffer) {
        self.header(8, Kind.ping, Flags.acknowledgement, 0, &out)
        out.writeInteger(payload)
    }

    static func windowUpdate(_ increment: UInt32, _ out: inout ByteBuffer) {
        self.header(4, Kind.windowUpdate, 0, 0, &out)
        out.writeInteger(increment)
    }

    static func reset(_ streamID: UInt32, code: UInt32, _ out: inout ByteBuffer) {
        self.header(4, Kind.reset, 0, streamID, &out)
        out.writeInteger(code)
    }

    static func goAway(lastStreamID: UInt32, code: UInt32, debug: String, _ out: inout ByteBuffer) {
        self.header(8 + debug.utf8.count, Kind.goAway, 0, 0, &out)
        out.writeInteger(lastStreamID)
        out.writeInteger(code)
        out.writeBytes(debug.utf8)
    }
}
