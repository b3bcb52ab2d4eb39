/// The limits that client and server keep to, whatever the peer does.
package enum HTTP2Limits {
    /// Constant headers of a request, without the four pseudo headers.
    package static let headersMax = 24
    /// Bytes of a header's name.
    package static let headerNameBytesMax = 64
    /// Bytes of a header's value.
    package static let headerValueBytesMax = 8 * 1_024
    /// Bytes of a path, the token's part included.
    package static let pathBytesMax = 8 * 1_024
    /// Bytes of a token given with a request. (`Limits.tokenBytesMax` of ApusCore says the same of a registration.)
    package static let tokenBytesMax = 4_096
    /// Bytes of a request's body. Web Push, the largest, allows 4,096; Instance ID batches take the most.
    package static let requestBodyBytesMax = 256 * 1_024
    /// Bytes of the header values that are kept of one answer.
    package static let answerFieldBytesMax = 4 * 1_024
    /// Bytes of GOAWAY's debug data that are kept.
    package static let goAwayDebugBytesMax = 1_024
    /// GOAWAY frames on one connection. A graceful peer sends two.
    package static let goAwaysMax = 8
    /// SETTINGS entries in one frame. RFC 9113 and its extensions know fewer than ten.
    package static let settingsEntriesMax = 32
    /// CONTINUATION frames of one header block.
    package static let continuationsMax = 8
    /// Acknowledgements of PING and SETTINGS that wait to be sent.
    package static let acknowledgementsMax = 256
    /// Frames in a row that bring no request forward.
    package static let controlFramesMax = 10_000
    /// Bytes of nghttp2's message kept in a close reason.
    package static let messageBytesMax = 200

    /// The largest piece that nghttp2 hands out at once: a frame of 16 KiB, its header, and its own slack.
    static let chunkBytesMax = 16_384 + 64
    /// A DATA frame that we write ourselves.
    static let dataFrameBytesMax = 16_384 + 9
    /// Above this the buffers of a connection's rare frames are given back when they are empty.
    static let pendingBytesKept = 32 * 1_024
    /// Above this a slot's buffer is given back when its request is over.
    static let slotBytesKept = 4 * 1_024
}
