internal import ApusCore
package import NIOCore

/// Asks a provider whether it takes a credential, with one request that reaches no device.
///
/// Apple is asked with a token that nobody has, Google with a request that only validates. Whatever is said of the token, the
/// credential was taken.
package enum CredentialProbe {
    /// What the provider says.
    package enum Verdict: Hashable, Sendable {
        /// It takes the credential.
        case taken
        /// It does not, in its own word.
        case refused(String)
        /// There was no answer in time, or one that says nothing about the credential.
        case unanswered(String)
    }

    /// A token that no device has, for APNs.
    static let appleToken = [UInt8](repeating: 0, count: 32)
    /// A token that no device has, for FCM.
    static let googleToken = Array("apus-credential-probe".utf8)

    /// Asks over a gateway that has not been started. To be called on its event loop.
    package static func run(_ message: PreparedMessage, over gateway: ProviderGateway) -> EventLoopFuture<Verdict> {
        let token = gateway.configuration.provider == .apns ? Self.appleToken : Self.googleToken
        return SingleRequest.send(message, token: token, over: gateway).map { answer in
            switch answer.outcome {
            case .accepted, .unregistered, .suspect, .rejected: .taken
            case .misconfigured: .refused(answer.reason)
            case .deferred, .lost: .unanswered(answer.reason)
            }
        }
    }
}
