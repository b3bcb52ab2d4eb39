internal import ApusCore
internal import ApusMessages

/// Decides whether a notification is sent to a device of the store, by what its record says.
///
/// One rule for both ways of a send: a unit's run, which reads records where Redis' reply has them, and a direct send, which has them decoded.
/// Both state the same facts about a record, so that a device that one of them skips is skipped by the other for the same reason.
enum RecipientEligibility {
    /// The token that the notification would be sent to.
    enum Token: Hashable, Sendable {
        /// The device's own token. `isOfRoute` is true when the provider accepts tokens of its kind under the notification's topic: it would
        /// reject another one as bad, and the token would be deleted.
        case own(isOfRoute: Bool)
        /// The token of a Live Activity. `isOfOtherEnvironment` is true if it is known to be accepted in the other environment.
        case activity(isOfOtherEnvironment: Bool)
        /// The device has no token of the activity, or it has expired.
        case missing
        /// The activity's token is quarantined.
        case quarantined
    }

    /// The facts about a recipient for whom the route encrypts its notifications.
    struct Subscription: Hashable, Sendable {
        /// True when the record has the recipient's keys.
        var hasKeys: Bool
        /// The end of the subscription in seconds since 1970; 0 for none.
        var expiresAtSeconds: Int64
    }

    /// The decision about a device.
    enum Decision: Hashable, Sendable {
        /// It is sent to. `wasRefused` is true when the provider has refused a message for its token and has accepted none since;
        /// `isEnvironmentKnown` when its token is known to be accepted in the environment that it is sent in.
        case send(wasRefused: Bool, isEnvironmentKnown: Bool)
        /// It is skipped for that reason.
        case skip(Reason)
    }

    /// Returns the decision about a device.
    ///
    /// - Parameters:
    ///   - suspicion: the reason why the device's own token is suspect; nil when it is not.
    ///   - isStoredElsewhere: true when the device is sent to in another environment than the one that the store has it in.
    ///   - isInAudience: true when the record, as it is now, belongs to the send's audience.
    ///   - token: the token that the notification would be sent to.
    ///   - subscription: the facts about the recipient's encryption; nil when the route does not encrypt for its recipients.
    @inline(__always)
    static func decide(
        suspicion: Reason?,
        isStoredElsewhere: Bool,
        isInAudience: @autoclosure () -> Bool,
        token: @autoclosure () -> Token,
        subscription: @autoclosure () -> Subscription?,
        now: UnixMilliseconds,
    ) -> Decision {
        var wasRefused = false
        switch suspicion {
        case nil: break
        // One refused message keeps no other from it.
        case DeviceRecord.Suspicion.refusedMessage?: wasRefused = true
        case .wrongEnvironment?: guard isStoredElsewhere else { return .skip(.wrongEnvironment) }
        default: return .skip(.badToken)
        }
        guard isInAudience() else { return .skip(.notMatching) }
        var isEnvironmentKnown = false
        switch token() {
        case .own(let isOfRoute): guard isOfRoute else { return .skip(.notMatching) }
        case .activity(let isOfOtherEnvironment):
            guard isStoredElsewhere || !isOfOtherEnvironment else { return .skip(.wrongEnvironment) }
            isEnvironmentKnown = isOfOtherEnvironment
        case .missing: return .skip(.notMatching)
        case .quarantined: return .skip(.badToken)
        }
        if let subscription = subscription() {
            let hasEnded = subscription.expiresAtSeconds > 0 && now.seconds >= subscription.expiresAtSeconds
            guard !hasEnded else { return .skip(.notMatching) }
            guard subscription.hasKeys else { return .skip(.malformed) }
        }
        return .send(wasRefused: wasRefused, isEnvironmentKnown: isEnvironmentKnown)
    }
}

extension RecipientEligibility.Token {
    /// States what a search for an activity's token in a record's bytes has found.
    init(_ finding: ActivityAddress.Finding) {
        self =
            switch finding {
            case .token(_, let isOfOtherEnvironment): .activity(isOfOtherEnvironment: isOfOtherEnvironment)
            case .none: .missing
            case .suspect: .quarantined
            }
    }

    /// States what a search for an activity's token in a decoded record has found.
    init(_ address: DeviceRecord.SecondaryAddress?) {
        self =
            switch address {
            case nil: .missing
            case let address? where address.isSuspect: .quarantined
            case let address?: .activity(isOfOtherEnvironment: address.isOfOtherEnvironment)
            }
    }
}
