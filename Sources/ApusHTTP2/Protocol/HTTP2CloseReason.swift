/// The reason why a connection ended.
package enum HTTP2CloseReason: Hashable, Sendable, CustomStringConvertible {
    /// We asked for it, and every request had its answer.
    case drained
    /// We closed without waiting.
    case closed
    /// The peer sent GOAWAY, and nothing is awaited any more.
    case goAway(HTTP2ErrorCode)
    /// The peer does not speak HTTP/2.
    case notHTTP2
    /// The peer broke the protocol, with a message.
    case protocolViolation(String)
    /// The peer went beyond a limit of ours.
    case limitExceeded(HTTP2Limit)
    /// A PING stayed without answer.
    case pingTimeout
    /// The transport ended or failed, with its message.
    case transport(String)
    /// nghttp2 could not allocate.
    case outOfMemory

    /// For a log line.
    package var description: String {
        switch self {
        case .drained: "drained"
        case .closed: "closed"
        case .goAway(let code): "GOAWAY \(code)"
        case .notHTTP2: "not HTTP/2"
        case .protocolViolation(let message): "protocol violation: \(message)"
        case .limitExceeded(let limit): "limit exceeded: \(limit.rawValue)"
        case .pingTimeout: "PING timeout"
        case .transport(let message): "transport: \(message)"
        case .outOfMemory: "out of memory"
        }
    }
}

/// A limit that a peer can run into.
package enum HTTP2Limit: String, Hashable, Sendable {
    /// Header fields of one block, counted as RFC 9113 §6.5.2 does.
    case headerList
    /// SETTINGS or PING whose acknowledgements pile up.
    case acknowledgements
    /// Frames that bring no request forward.
    case controlFrames
    /// SETTINGS entries in one frame.
    case settingsEntries
    /// CONTINUATION frames of one header block.
    case continuations
    /// GOAWAY frames.
    case goAways
}
