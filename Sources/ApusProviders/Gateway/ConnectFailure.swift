internal import ApusTLS
internal import NIOCore
internal import NIOPosix

/// The reasons for a failed connection: the first step that did not succeed.
package enum ConnectFailure: Int, CaseIterable, Sendable, Hashable {
    /// The host's name has no address.
    case dns
    /// No address accepts a connection.
    case tcp
    /// The handshake failed, or the connection ended with it.
    case tls
    /// The peer does not speak HTTP/2.
    case alpn
    /// Connecting or the handshake took too long.
    case timeout

    /// Classifies the error of an attempt.
    package init(_ error: any Error) {
        if let error = error as? NIOConnectionError {
            // There was no address to connect to: the name look-ups failed.
            guard !error.connectionErrors.isEmpty else {
                self = .dns
                return
            }
            self = error.connectionErrors.allSatisfy { Self.isTimeout($0.error) } ? .timeout : .tcp
        } else if let error = error as? TLSError {
            self =
                switch error.code {
                case .handshakeTimedOut: .timeout
                case .noCommonApplicationProtocol: .alpn
                default: .tls
                }
        } else if Self.isTimeout(error) {
            self = .timeout
        } else {
            // Failures to connect are handled above: this connection existed, and ended.
            self = .tls
        }
    }

    private static func isTimeout(_ error: any Error) -> Bool {
        if case .connectTimeout? = error as? ChannelError { return true }
        return false
    }
}
