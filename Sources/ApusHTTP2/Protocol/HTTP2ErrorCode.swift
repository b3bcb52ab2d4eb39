/// An error code of RST_STREAM and GOAWAY. Unknown ones are kept as they are.
///
/// RFC 9113 §7: https://www.rfc-editor.org/rfc/rfc9113#section-7
package struct HTTP2ErrorCode: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The number on the wire.
    package let rawValue: UInt32

    /// Creates a code.
    package init(rawValue: UInt32) { self.rawValue = rawValue }

    /// The end is graceful.
    package static let noError = HTTP2ErrorCode(rawValue: 0x0)
    /// The peer saw a breach of protocol.
    package static let protocolError = HTTP2ErrorCode(rawValue: 0x1)
    /// The peer failed internally.
    package static let internalError = HTTP2ErrorCode(rawValue: 0x2)
    /// A window was exceeded.
    package static let flowControlError = HTTP2ErrorCode(rawValue: 0x3)
    /// SETTINGS were not acknowledged in time.
    package static let settingsTimeout = HTTP2ErrorCode(rawValue: 0x4)
    /// A frame for a stream that is half closed.
    package static let streamClosed = HTTP2ErrorCode(rawValue: 0x5)
    /// A frame has an impossible size.
    package static let frameSizeError = HTTP2ErrorCode(rawValue: 0x6)
    /// The request was refused unprocessed: it may be sent again.
    package static let refusedStream = HTTP2ErrorCode(rawValue: 0x7)
    /// The stream is no longer needed.
    package static let cancel = HTTP2ErrorCode(rawValue: 0x8)
    /// The header compression state is lost.
    package static let compressionError = HTTP2ErrorCode(rawValue: 0x9)
    /// A CONNECT failed.
    package static let connectError = HTTP2ErrorCode(rawValue: 0xa)
    /// The peer considers itself overloaded by us.
    package static let enhanceYourCalm = HTTP2ErrorCode(rawValue: 0xb)
    /// The transport is too weak.
    package static let inadequateSecurity = HTTP2ErrorCode(rawValue: 0xc)
    /// HTTP/1.1 is required instead.
    package static let http11Required = HTTP2ErrorCode(rawValue: 0xd)

    private static let names = [
        "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
        "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
    ]

    /// The RFC's name of the code; its number when it has none.
    package var description: String {
        Int(self.rawValue) < Self.names.count ? Self.names[Int(self.rawValue)] : "0x\(String(self.rawValue, radix: 16))"
    }
}
