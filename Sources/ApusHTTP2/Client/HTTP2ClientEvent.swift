/// An event on a client's connection.
///
/// Every submitted tag gets exactly one of `answered`, `refused`, `reset` and `timedOut`; `closed` is the last of all.
package enum HTTP2ClientEvent: Sendable {
    /// The peer answered, whatever the status.
    case answered(HTTP2Answer)
    /// Certainly not processed (REFUSED_STREAM, above GOAWAY's last stream, or never sent): safe to send again.
    case refused(tag: UInt64)
    /// Ended without an answer: the outcome is unknown. nil: the connection ended.
    case reset(tag: UInt64, code: HTTP2ErrorCode?)
    /// The deadline passed without an answer: the outcome is unknown.
    case timedOut(tag: UInt64)
    /// The peer takes no more requests. Those at or below `lastStreamID` may still be answered.
    case goAway(code: HTTP2ErrorCode, lastStreamID: Int32, debug: [UInt8])
    /// The peer changed how many requests it allows at a time. At 0 nothing can be sent: see
    /// ``HTTP2ClientSession/streamsForbiddenSince``.
    case settingsChanged(maxConcurrentStreams: UInt32)
    /// The peer answered our PING after that many nanoseconds.
    case pingAcknowledged(roundTripNanoseconds: UInt64)
    /// The connection is over; nothing comes after.
    case closed(HTTP2CloseReason)
}

/// The result of submitting a request.
package enum HTTP2Submission: Hashable, Sendable {
    /// It has a stream, and its tag will get an event.
    case submitted
    /// No room now: wait.
    case full
    /// The connection takes no more requests: use another.
    case closed
    /// The token must not stand where the template puts it; nothing was sent.
    case invalidToken
}

/// The configuration of a client's connection.
package struct HTTP2ClientConfiguration: Hashable, Sendable {
    /// Requests at a time, whatever the peer allows; slots for so many are kept.
    package var streamsMax: Int
    /// The limit until the peer's SETTINGS arrive. RFC 9113 §6.5.2 advises peers not to go below 100.
    package var streamsMaxBeforeSettings: Int
    /// Bytes that a peer may send on one stream ahead of us.
    package var streamWindow: Int
    /// Bytes that a peer may send on the connection ahead of us.
    package var connectionWindow: Int
    /// Bytes of an answer's body that are kept; the stream of a longer one is cancelled.
    package var answerBodyBytesMax: Int
    /// Bytes of all answers' bodies that are kept at a time; beyond, bodies are cut short.
    package var answerBytesTotalMax: Int
    /// Bytes of an answer's header list (RFC 9113 §6.5.2); a longer one ends the connection.
    package var headerListBytesMax: Int

    /// A configuration; a value out of range traps.
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
