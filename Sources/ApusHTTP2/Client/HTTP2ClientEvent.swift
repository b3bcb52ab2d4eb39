/// An event on a client's connection.
///
/// Every submitted tag gets exactly one of `answered`, `refused`, `unsent`, `reset` and `timedOut`; `closed` is the last of all.
package enum HTTP2ClientEvent: Sendable {
    /// The peer answered, whatever the status.
    case answered(HTTP2Answer)
    /// The request was certainly not processed (REFUSED_STREAM, above GOAWAY's last stream, or never sent): it may be sent again.
    case refused(tag: UInt64)
    /// The request was certainly not sent: it waited until its deadline, or until it was valid no longer.
    case unsent(tag: UInt64, isOverdue: Bool)
    /// The request ended without an answer: the outcome is unknown. The code is nil when the connection ended.
    case reset(tag: UInt64, code: HTTP2ErrorCode?)
    /// The deadline of a request that was sent passed without an answer: the outcome is unknown.
    case timedOut(tag: UInt64)
    /// The peer accepts no more requests. Those at or below `lastStreamID` may still be answered.
    case goAway(code: HTTP2ErrorCode, lastStreamID: Int32, debug: [UInt8])
    /// The peer changed the number of concurrent requests. At 0 nothing can be sent: see ``HTTP2ClientSession/streamsForbiddenSince``.
    case settingsChanged(maxConcurrentStreams: UInt32)
    /// The peer answered our PING after the given time.
    case pingAcknowledged(roundTripNanoseconds: UInt64)
    /// The connection has ended; no event follows.
    case closed(HTTP2CloseReason)
}

/// The result of submitting a request.
package enum HTTP2Submission: Hashable, Sendable {
    /// The request has a stream, and its tag will get an event.
    case submitted
    /// There is no room now: wait.
    case full
    /// The connection accepts no more requests: use another.
    case closed
    /// The token is not allowed at its place in the template; nothing was sent.
    case invalidToken
}

/// The configuration of a client's connection.
package struct HTTP2ClientConfiguration: Hashable, Sendable {
    /// The maximum number of concurrent requests, whatever the peer allows; as many slots are allocated.
    package var streamsMax: Int
    /// The limit until the peer's SETTINGS arrive. RFC 9113 §6.5.2 advises peers not to go below 100.
    package var streamsMaxBeforeSettings: Int
    /// The window of one stream: the bytes that a peer may send ahead of us.
    package var streamWindow: Int
    /// The window of the connection: the bytes that a peer may send ahead of us.
    package var connectionWindow: Int
    /// The maximum bytes of an answer's body that are kept; the stream of a longer one is cancelled.
    package var answerBodyBytesMax: Int
    /// The maximum bytes of all answers' bodies that are kept at the same time; beyond it bodies are truncated.
    package var answerBytesTotalMax: Int
    /// The maximum bytes of an answer's header list (RFC 9113 §6.5.2); a longer one ends the connection.
    package var headerListBytesMax: Int

    /// Creates a configuration; a value out of range traps.
    package init(
        streamsMax: Int = 1_000,
        streamsMaxBeforeSettings: Int = 100,
        streamWindow: Int = 128 * 1_024,
        connectionWindow: Int = 16 * 1_024 * 1_024,
        answerBodyBytesMax: Int = 64 * 1_024,
        answerBytesTotalMax: Int = 4 * 1_024 * 1_024,
        headerListBytesMax: Int = 16 * 1_024,
    ) {
        precondition((1...100_000).contains(streamsMax) && streamsMaxBeforeSettings >= 1)
        precondition((1...0x7fff_ffff).contains(streamWindow) && (65_535...0x7fff_ffff).contains(connectionWindow))
        precondition(answerBodyBytesMax >= 0 && answerBytesTotalMax >= answerBodyBytesMax && headerListBytesMax > 0)
        self.streamsMax = streamsMax
        self.streamsMaxBeforeSettings = streamsMaxBeforeSettings
        self.streamWindow = streamWindow
        self.connectionWindow = connectionWindow
        self.answerBodyBytesMax = answerBodyBytesMax
        self.answerBytesTotalMax = answerBytesTotalMax
        self.headerListBytesMax = headerListBytesMax
    }
}
