package import ApusCore
package import ApusProviders

/// An answer of APNs, taken apart. Whatever the body is, reading it never fails: what cannot be read counts as not said.
///
/// Source: https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns
package struct APNsAnswer: Hashable, Sendable {
    /// The HTTP status.
    package let status: Int
    /// Apple's word, unknown ones too; nil when there was none.
    package let word: String?
    /// When Apple knew that the token was dead: milliseconds, only with status 410.
    package let timestamp: UnixMilliseconds?

    /// Bytes of a body that are read.
    package static let bodyBytesMax = 4_096

    /// The parts, already known.
    package init(status: Int, word: String? = nil, timestamp: UnixMilliseconds? = nil) {
        self.status = status
        self.word = word
        self.timestamp = timestamp
    }

    /// Takes an answer apart. A 200 has no body and costs nothing.
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

    /// What it means: the reason decides when it is known and comes with the class of status it belongs to, else the status
    /// does. Without certainty no token is ever given up.
    ///
    /// - Parameter retryAfterMilliseconds: of the header, read by `RetryAfter`.
    package func outcome(retryAfterMilliseconds: Int64? = nil) -> DeliveryOutcome {
        if self.status == 200 { return .accepted }
        if let reason = self.word.flatMap({ APNsReason(word: $0) }), self.isPlausible(reason) {
            return reason.outcome(asOf: self.timestamp, retryAfterMilliseconds: retryAfterMilliseconds)
        }
        return Self.outcome(ofUnknown: self.status, isSilent: self.word == nil, retryAfterMilliseconds)
    }

    /// A dead token is believed only under its own status.
    private func isPlausible(_ reason: APNsReason) -> Bool {
        reason.status == 410 ? self.status == 410 : reason.status / 100 == self.status / 100
    }

    private static func outcome(ofUnknown status: Int, isSilent: Bool, _ retryAfter: Int64?) -> DeliveryOutcome {
        switch status {
        case 408: .deferred(Deferral(.timeout, retryAfterMilliseconds: retryAfter))
        case 429: .deferred(Deferral(.rateLimited, retryAfterMilliseconds: retryAfter))
        // Without a word it is not certain that our credentials are wrong: a route pauses when it goes on.
        case 401, 403: isSilent ? .misconfigured(.unclear) : .rejected(.other)
        case 413: .rejected(.payload)
        case 500...599: .deferred(Deferral(.providerUnavailable, retryAfterMilliseconds: retryAfter))
        default: .rejected(.other)
        }
    }

    /// Reads the debug data of a GOAWAY: JSON with a `reason` from the same vocabulary, when Apple has one to give.
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
