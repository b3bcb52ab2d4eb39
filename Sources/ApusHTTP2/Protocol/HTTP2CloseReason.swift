/// The reason why a connection ended.
package enum HTTP2CloseReason: Hashable, Sendable, CustomStringConvertible {
    /// We drained the connection, and every request had its answer.
    case drained
    /// We closed the connection without waiting.
    case closed
    /// The peer sent GOAWAY, and no answer is awaited any more.
    case goAway(HTTP2ErrorCode)
    /// The peer does not speak HTTP/2.
    case notHTTP2
    /// The peer violated the protocol.
    case protocolViolation(String)
    /// The peer exceeded a limit of ours.
    case limitExceeded(HTTP2Limit)
    /// A PING was not answered.
    case pingTimeout
    /// The transport ended or failed, with its message.
    case transport(String)
    /// nghttp2 could not allocate memory.
    case outOfMemory

    /// The reason for a log line.
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

/// The limits that a peer can exceed.
package enum HTTP2Limit: String, Hashable, Sendable {
    /// The header fields of one block, counted as in RFC 9113 §6.5.2.
    case headerList
    /// SETTINGS or PING frames whose acknowledgements accumulate.
    case acknowledgements
    /// Frames that advance no request.
    case controlFrames
    /// SETTINGS entries in one frame.
    case settingsEntries
    /// CONTINUATION frames of one header block.
    case continuations
    /// GOAWAY frames.
    case goAways
}
