package import ApusCore
package import ApusProviders

/// Parses an answer of APNs. Parsing never fails: unreadable parts are ignored.
///
/// Source: https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns
package struct APNsAnswer: Hashable, Sendable {
    /// The HTTP status.
    package let status: Int
    /// Apple's reason, also an unknown one; nil when the answer held none.
    package let word: String?
    /// The time at which Apple knew that the token was dead, in milliseconds; only with status 410.
    package let timestamp: UnixMilliseconds?

    /// The maximum bytes of a body that are read.
    package static let bodyBytesMax = 4_096

    /// Creates an answer of known parts.
    package init(status: Int, word: String? = nil, timestamp: UnixMilliseconds? = nil) {
        self.status = status
        self.word = word
        self.timestamp = timestamp
    }

    /// Parses an answer. A 200 has no body and costs nothing.
    package init(status: Int, body: [UInt8]) {
        guard status != 200, let json = try? JSONValue(parsing: body, bytesMax: Self.bodyBytesMax) else {
            self.init(status: status)
            return
        }
        let milliseconds = json["timestamp"]?.int64.flatMap { $0 > 0 ? $0 : nil }
        self.init(
            status: status,
            word: json["reason"]?.string.map { ProviderText.cleaned($0) },
            timestamp: status == 410 ? milliseconds.map { UnixMilliseconds($0) } : nil,
        )
    }

    /// Returns the meaning of the answer: the reason decides when it is known and comes with its class of status,
    /// otherwise the status does. A token is never given up without certainty.
    ///
    /// - Parameter retryAfterMilliseconds: the header's value, parsed by `RetryAfter`.
    package func outcome(retryAfterMilliseconds: Int64? = nil) -> DeliveryOutcome {
        if self.status == 200 { return .accepted }
        if let reason = self.word.flatMap({ APNsReason(word: $0) }), self.isPlausible(reason) {
            return reason.outcome(asOf: self.timestamp, retryAfterMilliseconds: retryAfterMilliseconds)
        }
        return Self.outcome(ofUnknown: self.status, isSilent: self.word == nil, retryAfterMilliseconds)
    }

    /// Returns true when the reason comes with a matching status: a dead token is believed only under its own.
    private func isPlausible(_ reason: APNsReason) -> Bool {
        reason.status == 410 ? self.status == 410 : reason.status / 100 == self.status / 100
    }

    private static func outcome(ofUnknown status: Int, isSilent: Bool, _ retryAfter: Int64?) -> DeliveryOutcome {
        switch status {
        case 408: .deferred(Deferral(.timeout, retryAfterMilliseconds: retryAfter))
        case 429: .deferred(Deferral(.rateLimited, retryAfterMilliseconds: retryAfter))
        // Without a reason it is uncertain that our credentials are wrong: the route pauses when this persists.
        case 401, 403: isSilent ? .misconfigured(.unclear) : .rejected(.other)
        case 413: .rejected(.payload)
        case 500...599: .deferred(Deferral(.providerUnavailable, retryAfterMilliseconds: retryAfter))
        default: .rejected(.other)
        }
    }

    /// Parses the debug data of a GOAWAY: JSON with a `reason` from the same vocabulary, when Apple gives one.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
    package static func goAway(debug: [UInt8]) -> GoAwayMeaning {
        let json = try? JSONValue(parsing: debug, bytesMax: Self.bodyBytesMax)
        guard let word = json?["reason"]?.string.map({ ProviderText.cleaned($0) }) else { return .reconnect(word: nil) }
        guard case .misconfigured(let what)? = APNsReason(word: word)?.outcome(asOf: nil, retryAfterMilliseconds: nil)
        else { return .reconnect(word: word) }
        return what == .wrongConnection ? .reconnect(word: word) : .misconfigured(what, word: word)
    }
}
