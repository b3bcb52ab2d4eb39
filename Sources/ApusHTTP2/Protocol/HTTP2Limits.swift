/// The limits of client and server, whatever the peer does.
package enum HTTP2Limits {
    /// The maximum number of constant headers of a request, without the four pseudo headers.
    package static let headersMax = 24
    /// The maximum bytes of a header's name.
    package static let headerNameBytesMax = 64
    /// The maximum bytes of a header's value.
    package static let headerValueBytesMax = 8 * 1_024
    /// The maximum bytes of a path, the token's part included.
    package static let pathBytesMax = 8 * 1_024
    /// The maximum bytes of a token given with a request. (`Limits.tokenBytesMax` of ApusCore limits registrations.)
    package static let tokenBytesMax = 4_096
    /// Bytes of a request's body. A notification has at most 5,120; batches of tokens take the most.
    package static let requestBodyBytesMax = 256 * 1_024
    /// The maximum bytes of the header values that are kept of one answer.
    package static let answerFieldBytesMax = 4 * 1_024
    /// The maximum bytes of GOAWAY's debug data that are kept.
    package static let goAwayDebugBytesMax = 1_024
    /// The maximum number of GOAWAY frames on one connection. A graceful peer sends two.
    package static let goAwaysMax = 8
    /// The maximum number of SETTINGS entries in one frame. RFC 9113 and its extensions define fewer than ten.
    package static let settingsEntriesMax = 32
    /// The maximum number of CONTINUATION frames of one header block.
    package static let continuationsMax = 8
    /// The maximum number of acknowledgements of PING and SETTINGS that wait to be sent.
    package static let acknowledgementsMax = 256
    /// The maximum number of consecutive frames that advance no request.
    package static let controlFramesMax = 10_000
    /// The maximum bytes of nghttp2's message kept in a close reason.
    package static let messageBytesMax = 200

    /// The largest chunk that nghttp2 returns at once: a frame of 16 KiB, its header, and its own slack.
    static let chunkBytesMax = 16_384 + 64
    /// The maximum bytes of a DATA frame that we write ourselves.
    static let dataFrameBytesMax = 16_384 + 9
    /// The size above which the buffers of a connection's rare frames are freed when they are empty.
    static let pendingBytesKept = 32 * 1_024
    /// The size above which a slot's buffer is freed when its request has ended.
    static let slotBytesKept = 4 * 1_024
}
