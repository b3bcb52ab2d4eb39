internal import ApusCore
package import ApusMessages
package import NIOCore

/// Asks a provider whether it takes a credential, with one request that reaches no device.
///
/// The request is for a token that nobody has, or is one that only validates. Whatever is said of the token, the credential was
/// taken.
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

    /// What is asked with: shown to nobody, and within everybody's limits.
    package static let notification: Notification = {
        var notification = Notification()
        notification.kind = .background
        return notification
    }()

    /// Asks over a gateway that has not been started. To be called on its event loop.
    ///
    /// - Parameter token: one that no device has.
    package static func run(
        _ message: PreparedMessage,
        token: [UInt8],
        over gateway: ProviderGateway,
    ) -> EventLoopFuture<Verdict> {
        SingleRequest.send(message, token: token, over: gateway).map { answer in Self.verdict(on: answer) }
    }

    /// What an answer says of the credential.
    static func verdict(on answer: SingleRequest.Answer) -> Verdict {
        switch answer.outcome {
        case .accepted, .unregistered, .suspect: .taken
        // A wrong project, a front end that lets nobody in, a 403 without a word: to a campaign one such answer may be chance.
        case .rejected(.credentials): .refused(answer.reason)
        // Of a word that is not known it is not certain what it is about.
        case .rejected: [401, 403].contains(answer.status) ? .unanswered(answer.reason) : .taken
        // The provider knows the credential, and has seen too many of its tokens.
        case .misconfigured(.renewedTooOften): .unanswered(answer.reason)
        case .misconfigured: .refused(answer.reason)
        case .deferred, .lost: .unanswered(answer.reason)
        }
    }
}
