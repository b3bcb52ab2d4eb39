internal import ApusAPNs
package import ApusCore
internal import ApusProviders

extension FCMAnswer {
    /// Returns the meaning of the answer: by FcmError's code first, then by Google's general status, then by the HTTP status.
    ///
    /// A wait may stand in the header, in the detail RetryInfo, or in both: the longer one counts.
    ///
    /// - Parameter retryAfterMilliseconds: the header's value, parsed by `RetryAfter`.
    package func outcome(retryAfterMilliseconds header: Int64? = nil) -> DeliveryOutcome {
        if self.status == 200 { return .accepted }
        let retryAfterMilliseconds = [header, self.retryDelayMilliseconds].compactMap(\.self).max()
        if let code = self.errorCode.flatMap({ FCMErrorCode(rawValue: $0) }) {
            return self.outcome(of: code, retryAfterMilliseconds)
        }
        if let apnsError { return self.outcome(of: apnsError, retryAfterMilliseconds) }
        switch self.generalStatus {
        case "INVALID_ARGUMENT": return self.invalidArgument(retryAfterMilliseconds)
        case "UNAUTHENTICATED": return .misconfigured(.staleCredential)
        case "PERMISSION_DENIED": return .misconfigured(.credential)
        case "RESOURCE_EXHAUSTED": return self.quotaExceeded(retryAfterMilliseconds)
        case "UNAVAILABLE": return Self.unavailable(.route, retryAfterMilliseconds)
        case "INTERNAL": return Self.unavailable(.message, retryAfterMilliseconds)
        default: return self.outcomeOfStatus(retryAfterMilliseconds)
        }
    }

    /// True when the token can be tested with a minimal `validate_only` message: FCM called something invalid without naming it.
    package var wantsTokenProbe: Bool {
        let isInvalid = (self.errorCode ?? self.generalStatus) == FCMErrorCode.invalidArgument.rawValue
        return isInvalid && self.invalidArgument(nil) == .rejected(.other)
    }

    /// The field of the message that FCM rejects; nil when it names none, when it means the token, or when the error is Apple's.
    package var rejectedField: String? {
        let isInvalid = (self.errorCode ?? self.generalStatus) == FCMErrorCode.invalidArgument.rawValue
        guard isInvalid, self.apnsError == nil, self.invalidArgument(nil) == .rejected(.payload) else { return nil }
        if let field = self.badFields?.first { return ProviderText.cleaned(field) }
        return self.tooBigPlatform.map { "message.\($0)" } ?? "message"
    }

    /// True when the message is too big for one platform: the others' recipients may get it.
    package var rejectsOnePlatform: Bool { self.badFields?.first == nil && self.tooBigPlatform != nil }

    /// True when FCM calls the whole message too big. It says so in the sentence alone, "Android message is too big", without naming a field
    /// (https://github.com/firebase/firebase-admin-go/issues/580).
    private var saysTooBig: Bool { self.message.lowercased().contains("message is too big") }

    /// The block of the platform for which FCM calls the message too big; nil when it names none.
    private var tooBigPlatform: String? {
        guard self.saysTooBig else { return nil }
        let sentence = self.message.lowercased()
        let platforms = [("android", "android"), ("web", "webpush"), ("apns", "apns"), ("ios", "apns")]
        return platforms.first { sentence.contains($0.0) }?.1
    }

    private func outcome(of code: FCMErrorCode, _ retryAfter: Int64?) -> DeliveryOutcome {
        switch code {
        case .unregistered: .unregistered(.unregistered, asOf: nil)
        case .senderIDMismatch: .suspect(.wrongSender)
        case .thirdPartyAuthError, .apnsAuthError: .misconfigured(.thirdPartyAuth)
        case .quotaExceeded: self.quotaExceeded(retryAfter)
        case .unavailable: Self.unavailable(.route, retryAfter)
        case .internalError: Self.unavailable(.message, retryAfter)
        case .invalidArgument: self.invalidArgument(retryAfter)
        case .unspecified: .rejected(.other)
        }
    }

    /// Interprets INVALID_ARGUMENT, which means a bad payload or a bad token: only details tell which. "Delete only if
    /// you are certain the payload is valid" (https://firebase.google.com/docs/cloud-messaging/manage-tokens), so an
    /// error that only concerns the token makes it suspect, and only a token that Apple calls dead is dead.
    private func invalidArgument(_ retryAfter: Int64?) -> DeliveryOutcome {
        if let apnsError { return self.outcome(of: apnsError, retryAfter) }
        if let badFields, badFields.contains(where: { $0 == "message.token" || $0 == "message.fid" }) {
            return .suspect(.badToken)
        }
        if let badFields, !badFields.isEmpty { return .rejected(.payload) }
        if self.saysTooBig { return .rejected(.payload) }
        if self.badFields == nil, self.errorCode != nil, self.message.contains("not a valid FCM registration token") {
            return .suspect(.badToken)
        }
        return .rejected(.other)
    }

    /// Interprets Apple's answer to FCM: Apple's complaints about credentials concern the iOS part only.
    private func outcome(of apnsError: APNsError, _ retryAfter: Int64?) -> DeliveryOutcome {
        guard let reason = APNsReason(word: apnsError.reason) else {
            return self.outcomeOfUnknown(apnsError, retryAfter)
        }
        switch reason.outcome(asOf: nil, retryAfterMilliseconds: retryAfter) {
        case .misconfigured: return .misconfigured(.thirdPartyAuth)
        case .rejected: return .rejected(.payload)
        // The connection that Apple is shutting down is FCM's, not ours.
        case .deferred(let deferral):
            return .deferred(Deferral(deferral.reason, scope: deferral.scope, retryAfterMilliseconds: retryAfter))
        case let outcome: return outcome
        }
    }

    private func outcomeOfUnknown(_ apnsError: APNsError, _ retryAfter: Int64?) -> DeliveryOutcome {
        switch apnsError.statusCode {
        case 403: .misconfigured(.thirdPartyAuth)
        case 429: .deferred(Deferral(.rateLimited, scope: .device, retryAfterMilliseconds: retryAfter))
        case 500...599: Self.unavailable(.message, retryAfter)
        default: .rejected(.payload)
        }
    }

    /// Interprets an exceeded quota. It is Apple's if Apple tells to wait, which counts by device; else a QuotaFailure says "device message
    /// rate" or "topic message rate" (https://firebase.google.com/docs/cloud-messaging/error-codes), and without these words it is the
    /// project's.
    private func quotaExceeded(_ retryAfter: Int64?) -> DeliveryOutcome {
        if let apnsError, case .deferred(let deferral) = self.outcome(of: apnsError, retryAfter) {
            return .deferred(deferral)
        }
        let scope: Deferral.Scope =
            if self.exceededQuotaWords.contains("device") {
                .device
            } else if self.exceededQuotaWords.contains("topic") {
                .message
            } else {
                .route
            }
        return .deferred(Deferral(.rateLimited, scope: scope, retryAfterMilliseconds: retryAfter))
    }

    private static func unavailable(_ scope: Deferral.Scope, _ retryAfter: Int64?) -> DeliveryOutcome {
        .deferred(Deferral(.providerUnavailable, scope: scope, retryAfterMilliseconds: retryAfter))
    }

    private func outcomeOfStatus(_ retryAfter: Int64?) -> DeliveryOutcome {
        switch self.status {
        case 401: .misconfigured(.staleCredential)
        // This is a wrong project, or a front end's answer: it says nothing about the token. The route pauses when this persists.
        case 403, 404: .misconfigured(.unclear)
        case 408: .deferred(Deferral(.timeout, retryAfterMilliseconds: retryAfter))
        case 413: .rejected(.payload)
        case 429: self.quotaExceeded(retryAfter)
        case 500: Self.unavailable(.message, retryAfter)
        case 501...599: Self.unavailable(.route, retryAfter)
        default: .rejected(.other)
        }
    }
}
