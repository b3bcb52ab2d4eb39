internal import ApusHTTP2
internal import NIOCore

/// Writes a server's frames (RFC 9113 §4, §6). Headers are literals or entries of HPACK's static table, so that there is no state.
enum FastFrames {
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
        precondition(block.count <= HTTP2Frame.payloadBytesMax, "an answer's headers fit in a frame")
        let end = answer.body.isEmpty ? HTTP2Frame.Flags.endStream : 0
        self.header(block.count, HTTP2Frame.Kind.headers, HTTP2Frame.Flags.endHeaders | end, streamID, &out)
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
        precondition(body.count <= HTTP2Frame.payloadBytesMax, "an answer's body fits in a frame")
        self.header(body.count, HTTP2Frame.Kind.data, HTTP2Frame.Flags.endStream, streamID, &out)
        out.writeBytes(body)
    }

    static func settings(maxConcurrentStreams: UInt32, _ out: inout ByteBuffer) {
        self.header(6, HTTP2Frame.Kind.settings, 0, 0, &out)
        out.writeInteger(HTTP2Frame.Setting.maxConcurrentStreams)
        out.writeInteger(maxConcurrentStreams)
    }

    static func settingsAcknowledgement(_ out: inout ByteBuffer) {
        self.header(0, HTTP2Frame.Kind.settings, HTTP2Frame.Flags.acknowledgement, 0, &out)
    }

    static func pingAcknowledgement(_ payload: UInt64, _ out: inout ByteBuffer) {
        self.header(8, HTTP2Frame.Kind.ping, HTTP2Frame.Flags.acknowledgement, 0, &out)
        out.writeInteger(payload)
    }

    static func windowUpdate(_ increment: UInt32, _ out: inout ByteBuffer) {
        self.header(4, HTTP2Frame.Kind.windowUpdate, 0, 0, &out)
        out.writeInteger(increment)
    }

    static func reset(_ streamID: UInt32, code: HTTP2ErrorCode, _ out: inout ByteBuffer) {
        self.header(4, HTTP2Frame.Kind.reset, 0, streamID, &out)
        out.writeInteger(code.rawValue)
    }

    static func goAway(lastStreamID: UInt32, code: HTTP2ErrorCode, debug: String, _ out: inout ByteBuffer) {
        self.header(8 + debug.utf8.count, HTTP2Frame.Kind.goAway, 0, 0, &out)
        out.writeInteger(lastStreamID)
        out.writeInteger(code.rawValue)
        out.writeBytes(debug.utf8)
    }
}
