package import ApusHTTP2

/// What a provider's GOAWAY says of the reason; more is in the log.
package enum GoAwayCode: Int, CaseIterable, Sendable, Hashable {
    /// Nothing is wrong: it wants another connection.
    case noError
    /// We ask for too much (RFC 9113 §7).
    case enhanceYourCalm
    /// Anything else.
    case other

    /// Of a code of the protocol.
    package init(_ code: HTTP2ErrorCode) {
        self =
            switch code {
            case .noError: .noError
            case .enhanceYourCalm: .enhanceYourCalm
            default: .other
            }
    }
}
