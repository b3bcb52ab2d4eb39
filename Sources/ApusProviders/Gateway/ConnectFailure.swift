package import ApusCore
internal import ApusTLS
internal import Glibc
internal import NIOCore
internal import NIOPosix

/// Tells since when a gateway has been trying in vain to connect while no connection is open, or to get a credential while it has none. A
/// connection that ended before it was of use does not count.
package struct GatewayFault: Hashable, Sendable {
    /// The time of the first failed attempt since a connection was of use, or since there was a credential, in nanoseconds of the monotonic
    /// clock.
    package var since: UInt64
    /// The reason of the last one in words.
    package var detail: String
}

/// The reasons for a failed connection: the first step that did not succeed.
package enum ConnectFailure: Int, CaseIterable, Sendable, Hashable {
    /// The host's name has no address.
    case dns
    /// No address accepts a connection.
    case tcp
    /// The handshake failed, or the connection ended with it, or later before it had answered a request.
    case tls
    /// The peer agrees to no protocol that we offer: HTTP/2, and HTTP/1.1 where the provider may speak it.
    case alpn
    /// Connecting or the handshake took too long, or nothing at all was answered on the connection, not even a PING.
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

    /// Describes why an attempt failed.
    package static func words(of error: any Error, to address: WebAddress) -> String {
        Self.words(of: error, to: "\(address.host):\(address.port)")
    }

    /// Describes why an attempt failed.
    ///
    /// - Parameter address: the host and the port.
    static func words(of error: any Error, to address: String) -> String {
        switch Self(error) {
        case .dns:
            let error = error as? NIOConnectionError
            if let reason = error?.dnsAError as? PublicNames.NotPublic ?? error?.dnsAAAAError as? PublicNames.NotPublic
            {
                return reason.description
            }
            return "the name of \(address) is not found"
        case .tcp:
            let errors = (error as? NIOConnectionError)?.connectionErrors.map(\.error) ?? []
            let code = errors.lazy.compactMap { ($0 as? IOError)?.errnoCode }.first
            let reason = code.map { unsafe String(cString: strerror($0)) } ?? "no connection"
            return "cannot connect to \(address): \(reason)"
        case .tls:
            guard let error = error as? TLSError else { return "no TLS with \(address): the connection ended" }
            return error.code == .certificateVerificationFailed
                ? "the certificate of \(address) is refused: \(error.refusal)"
                : "no TLS with \(address): \(error.explanation)"
        case .alpn: return "\(address) agrees to no protocol that we offer, such as HTTP/2"
        case .timeout: return "\(address) does not answer an attempt to connect"
        }
    }
}
