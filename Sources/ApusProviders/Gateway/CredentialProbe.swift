internal import ApusCore
package import ApusMessages
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

    /// What is asked with: shown to nobody, and within everybody's limits.
    package static let notification: Notification = Self.notification(of: .background)

    /// What Apple is asked with: of a kind whose topic the credential serves, for a certificate may serve calls alone.
    package static func notification(for scope: APNsTopicScope, of bundleID: String) -> Notification {
        let kind = Self.kinds.first { kind in
            do throws(Problem) {
                try scope.check(kind, of: bundleID)
                return true
            } catch {
                return false
            }
        }
        return Self.notification(of: kind ?? .background)
    }

    /// Those with a topic of their own. Background stands for alerts and device management, too.
    private static let kinds: [Notification.Kind] = [
        .background, .voip, .complication, .fileProvider, .pushToTalk, .location, .widgets, .controls, .liveActivity,
    ]

    private static func notification(of kind: Notification.Kind) -> Notification {
        var notification = Notification()
        notification.kind = kind
        if kind == .liveActivity {
            var change = Notification.LiveActivity(event: .update)
            change.contentStateJSON = "{}"
            notification.liveActivity = change
        }
        return notification
    }

    /// Asks over a gateway that has not been started. To be called on its event loop.
    package static func run(_ message: PreparedMessage, over gateway: ProviderGateway) -> EventLoopFuture<Verdict> {
        let token = gateway.configuration.provider == .apns ? Self.appleToken : Self.googleToken
        return SingleRequest.send(message, token: token, over: gateway).map { answer in
            Self.verdict(on: answer)
        }
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
