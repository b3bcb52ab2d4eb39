package import ApusCore
package import ApusHTTP2
package import ApusProviders

/// Parses the answer of a push service and says what it means. Parsing never fails: unreadable parts are ignored.
///
/// RFC 8030 defines statuses only; each service adds words of its own, and the status beside the same word varies. So
/// the word decides where it is known, and otherwise the status. Nothing that speaks of our key costs a subscription.
package struct WebPushAnswer: Hashable, Sendable {
    /// The HTTP status.
    package let status: Int
    /// The service's own word for the reason; nil when there is none.
    package let word: String?
    /// The `errno` of Mozilla's service; nil when there is none.
    package let number: Int64?
    /// Microsoft's word for what became of the notification, in lower case; nil from other services.
    package let state: String?
    /// True when the text says that the subscription was made with another key than ours.
    let saysOtherKey: Bool

    /// The maximum bytes of a body that are read.
    package static let bodyBytesMax = 4_096

    /// Parses an answer.
    ///
    /// - Parameters:
    ///   - description: the header `x-wns-error-description`, in which one service names the reason.
    ///   - state: the header `x-wns-notificationstatus` or `x-wns-status` of the same service, which is the reason without that one.
    package init(status: Int, body: [UInt8], description: String? = nil, state: String? = nil) {
        self.status = status
        self.state = state?.lowercased()
        let description = description ?? self.state
        let text = String(decoding: body.prefix(Self.bodyBytesMax), as: UTF8.self)
        let json = try? JSONValue(parsing: body, bytesMax: Self.bodyBytesMax)
        self.number = json?["errno"]?.int64
        let reason = json?["reason"]?.string ?? json?["message"]?.string ?? json?["error"]?.string ?? description
        self.word = reason.map { ProviderText.cleaned($0) } ?? (json == nil ? Self.firstLine(text) : nil)
        let lowercased = text.lowercased()
        // Google's sentences, and its older word for the same; Mozilla's sentence.
        // Source: threads of FCM's web endpoints, such as https://github.com/web-push-libs/web-push/issues/600;
        // https://github.com/mozilla-services/autopush-rs
        self.saysOtherKey =
            lowercased.contains("do not correspond to the credentials")
            || lowercased.contains("not correspond to the sender id") || text.contains("UnauthorizedRegistration")
            || lowercased.contains("public key mismatch")
    }

    private static func firstLine(_ text: String) -> String? {
        let line = text.split(whereSeparator: \.isNewline).first.map { ProviderText.cleaned(String($0)) } ?? ""
        return line.isEmpty || line.hasPrefix("<") ? nil : line
    }

    /// Returns the meaning of the answer.
    ///
    /// - Parameter retryAfterMilliseconds: the wait that the header `retry-after` asks for; nil without the header.
    package func outcome(retryAfterMilliseconds: Int64? = nil) -> DeliveryOutcome {
        if (200..<300).contains(self.status) { return self.outcomeOfState(retryAfterMilliseconds) }
        if self.status >= 400 {
            if self.saysOtherKey { return .suspect(.wrongSender) }
            if let outcome = self.outcomeOfWord(retryAfterMilliseconds) { return outcome }
            if let outcome = self.outcomeOfNumber(retryAfterMilliseconds) { return outcome }
        }
        return self.outcomeOfStatus(retryAfterMilliseconds)
    }

    /// True when the service may mean the subscription, not the message: such refusals are noted, and one that only ever gets them is
    /// retired. A word or an `errno` that names a fault of the message is the same for every subscription.
    package var mayMeanSubscription: Bool {
        self.status == 400 && !self.namesMessage && self.outcome() == .rejected(.payload)
    }

    /// True when the word or the `errno` names a fault that is the message's: its headers or its size. Apple's `BadWebPushRequest` and
    /// Mozilla's 101 and 110 do not: they may be about the keys of the subscription.
    private var namesMessage: Bool {
        switch self.word {
        case "BadTtl", "BadUrgency", "BadWebPushTopic", "PayloadTooLarge": return true
        default: break
        }
        return switch self.number {
        case 104, 111, 112, 113: true
        default: false
        }
    }

    /// Returns the meaning of a success by what the service says of the notification: it may have dropped what it took.
    ///
    /// Source: https://learn.microsoft.com/en-us/windows/apps/design/shell/tiles-and-notifications/push-request-response-headers
    private func outcomeOfState(_ retryAfter: Int64?) -> DeliveryOutcome {
        switch self.state {
        case "dropped": .rejected(.other)
        case "appthrottled", "channelthrottled": Self.rateLimited(retryAfter)
        default: .accepted
        }
    }

    /// Source: https://developer.apple.com/documentation/usernotifications/sending-web-push-notifications-in-web-apps-and-browsers
    private func outcomeOfWord(_ retryAfter: Int64?) -> DeliveryOutcome? {
        switch self.word {
        case "BadTtl", "BadUrgency", "BadWebPushRequest", "BadWebPushTopic", "PayloadTooLarge": .rejected(.payload)
        case "VapidPkHashMismatch": .suspect(.wrongSender)
        case "BadJwtToken", "BadVapidPublicKey", "BadAuthorizationHeader": .misconfigured(.staleCredential)
        case "IdleTimeout": .deferred(Deferral(.connection, needsNewConnection: true))
        // The words of Microsoft's service (SherClockHolmes/webpush-go#48).
        case "TooManyRequests", "appthrottled", "channelthrottled": Self.rateLimited(retryAfter)
        case "InternalServerError", "ServiceUnavailable", "Shutdown": Self.unavailable(retryAfter)
        default: nil
        }
    }

    /// Source: https://mozilla-services.github.io/autopush-rs/errors.html
    private func outcomeOfNumber(_ retryAfter: Int64?) -> DeliveryOutcome? {
        switch self.number {
        case 101, 104, 110, 111, 112, 113: .rejected(.payload)
        case 109: .misconfigured(.staleCredential)
        case 201, 202, 900, 901, 902, 903: Self.unavailable(retryAfter)
        default: nil
        }
    }

    private func outcomeOfStatus(_ retryAfter: Int64?) -> DeliveryOutcome {
        switch self.status {
        // Without a word: the token is signed anew once, then our key counts as refused.
        case 401, 403: .misconfigured(.staleCredential)
        case 404, 410: .unregistered(.unregistered, asOf: nil)
        case 406, 429: Self.rateLimited(retryAfter)
        case 408: .deferred(Deferral(.timeout, retryAfterMilliseconds: retryAfter))
        case 400, 413: .rejected(.payload)
        case 500...599: Self.unavailable(retryAfter)
        // A redirect is never followed: it would lead to a server that nobody has checked.
        default: .rejected(.other)
        }
    }

    /// Classifies an exceeded limit, which may be the subscription's or the service's: other services and the app's other routes go on.
    private static func rateLimited(_ retryAfter: Int64?) -> DeliveryOutcome {
        .deferred(Deferral(.rateLimited, scope: .device, retryAfterMilliseconds: retryAfter))
    }

    private static func unavailable(_ retryAfter: Int64?) -> DeliveryOutcome {
        .deferred(Deferral(.providerUnavailable, scope: .device, retryAfterMilliseconds: retryAfter))
    }
}

/// Interprets answers of push services.
package struct WebPushAnswerReader: AnswerReader {
    /// Creates the reader.
    package init() {}

    package var acceptedStatuses: Range<Int> { 200..<300 }
    package var qualifyingFields: [HTTP2AnswerField] { [.wnsNotificationStatus, .wnsStatus] }

    package func meaning(of answer: PlainAnswer, retryAfterMilliseconds: Int64?) -> AnswerMeaning {
        let parsed = WebPushAnswer(
            status: answer.status,
            body: answer.body,
            description: answer.headers[.wnsErrorDescription],
            state: answer.headers[.wnsNotificationStatus] ?? answer.headers[.wnsStatus],
        )
        return AnswerMeaning(
            parsed.outcome(retryAfterMilliseconds: retryAfterMilliseconds),
            word: parsed.word ?? "status \(answer.status)",
            wantsTokenProbe: parsed.mayMeanSubscription,
        )
    }

    /// Returns the address of the stored message, by which it can be recalled; empty when the service gives none.
    package func id(in answer: PlainAnswer) -> String {
        let location = answer.headers[.location] ?? ""
        let isAddress = location.utf8.allSatisfy { (0x21...0x7e).contains($0) }
        // A part of an address is of no use.
        return isAddress && location.utf8.count <= Limits.providerIDBytesMax ? location : ""
    }
}
