internal import ApusCore
package import ApusMessages
package import NIOCore

/// Tests whether a provider accepts a credential, with one request that reaches no device.
///
/// The request is for a token that no device has, or is validate-only. Any answer about the token shows that the credential was accepted.
package enum CredentialProbe {
    /// The results of a probe.
    package enum Verdict: Hashable, Sendable {
        /// The provider accepts the credential.
        case taken
        /// The provider refuses the credential, for the given reason.
        case refused(String)
        /// The answer was missing or says nothing about the credential.
        case unanswered(String)
        /// The provider can only be asked with a device's token, so it was not asked. The credential can be used.
        case unasked
    }

    /// The notification of the probe: no device shows it, and it is within every provider's limits.
    package static let notification: Notification = {
        var notification = Notification()
        notification.kind = .background
        return notification
    }()

    /// Sends the probe over a gateway that has not been started. Call it on the gateway's event loop.
    ///
    /// - Parameter token: a token that no device has.
    package static func run(
        _ message: PreparedMessage,
        token: [UInt8],
        over gateway: ProviderGateway,
    ) -> EventLoopFuture<Verdict> {
        SingleRequest.send(message, token: token, over: gateway).map { answer in Self.verdict(on: answer) }
    }

    /// Returns what an answer says about the credential.
    static func verdict(on answer: SingleRequest.Answer) -> Verdict {
        switch answer.outcome {
        case .accepted, .unregistered, .suspect: .taken
        // These are a wrong project, a front end that refuses everybody, or a 403 without a reason: in a campaign a
        // single such answer may be chance.
        case .rejected(.credentials): .refused(answer.reason)
        // It is uncertain what an unknown reason refers to.
        case .rejected: [401, 403].contains(answer.status) ? .unanswered(answer.reason) : .taken
        // The provider knows the credential, and has seen too many of its tokens.
        case .misconfigured(.renewedTooOften): .unanswered(answer.reason)
        case .misconfigured: .refused(answer.reason)
        case .deferred, .lost: .unanswered(answer.reason)
        }
    }
}
