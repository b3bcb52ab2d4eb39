package import ApusHTTP2

/// The error codes of a provider's GOAWAY, as metrics show them; the log has more.
package enum GoAwayCode: Int, CaseIterable, Sendable, Hashable {
    /// Nothing is wrong: the provider wants another connection.
    case noError
    /// The client asks for too much (RFC 9113 §7).
    case enhanceYourCalm
    /// Anything else.
    case other

    /// Classifies a code of the protocol.
    package init(_ code: HTTP2ErrorCode) {
        self =
            switch code {
            case .noError: .noError
            case .enhanceYourCalm: .enhanceYourCalm
            default: .other
            }
    }
}
