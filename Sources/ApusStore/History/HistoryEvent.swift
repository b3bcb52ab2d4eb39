package import ApusCore

/// Holds an event in the history of a device.
package struct HistoryEvent: Hashable, Sendable {
    /// The kind of event.
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        /// The app registered it, for the first time or again.
        case registered
        /// The app gave it another token.
        case tokenReplaced = "token_replaced"
        /// The device passed to another user, or to nobody.
        case userChanged = "user_changed"
        /// The provider accepted a notification for the device.
        case accepted
        /// A notification for it ended otherwise: the outcome and the reason say how.
        case ended
        /// The provider called its token dead, and it was removed.
        case pruned
        /// The provider called the token dead, and the device was kept: registered again since, or with another token.
        case kept
        /// The provider called the token bad: nothing is sent to it until that is settled.
        case suspected
        /// The suspicion ended after its wait: notifications are sent to the device again.
        case cleared
        /// The device was moved to the environment that accepts its token.
        case environmentLearned = "environment_learned"
        /// The device was removed, because nobody had registered it for so long that its provider forgot its token.
        case stale

        /// True when it may be the reason why a notification did not come.
        var isTrouble: Bool {
            switch self {
            case .ended, .pruned, .kept, .suspected, .stale: true
            case .registered, .tokenReplaced, .userChanged, .accepted, .cleared, .environmentLearned: false
            }
        }
    }

    /// The time of the event.
    package var at: UnixMilliseconds
    /// The kind of event.
    package var kind: Kind
    /// The provider.
    package var provider: Provider?
    /// The outcome of a notification.
    package var outcome: Outcome?
    /// The reason of the outcome.
    package var reason: Reason?
    /// The provider's own reason.
    package var providerReason = ""
    /// The provider's id of the notification.
    package var providerID = ""
    /// The send; empty when the event belongs to none.
    package var send = ""

    /// Creates an event.
    package init(_ kind: Kind, at: UnixMilliseconds, provider: Provider? = nil) {
        self.kind = kind
        self.at = at
        self.provider = provider
    }

    /// The text in Redis, and in the output of commands. The same event always has the same bytes.
    package var json: JSONObject {
        var json: JSONObject = ["at_ms": .integer(self.at.value), "event": .string(self.kind.rawValue)]
        if let provider { json["provider"] = .string(provider.name) }
        if let outcome { json["outcome"] = .string(outcome.name) }
        if let reason { json["reason"] = .string(reason.name) }
        let bytesMax = StoreLimits.historyTextBytesMax
        for (name, text, bytesMax) in [
            ("provider_reason", self.providerReason, bytesMax),
            ("provider_id", self.providerID, Limits.providerIDBytesMax),
            ("send", self.send, bytesMax),
        ] where !text.isEmpty { json[name] = .string(text.clipped(toBytes: bytesMax)) }
        return json
    }

    /// The maximum of bytes of one event: three texts, each character of which may be escaped, and the words around them.
    static let bytesMax = 6 * (2 * StoreLimits.historyTextBytesMax + Limits.providerIDBytesMax) + 512

    var bytes: [UInt8] { JSONValue.object(self.json).bytes }

    /// Reads the text from Redis; nil when a later version wrote it.
    init?(_ bytes: [UInt8]) {
        guard let json = try? JSONValue(parsing: bytes, bytesMax: Self.bytesMax), let at = json["at_ms"]?.int64,
            let kind = json["event"]?.string.flatMap({ Kind(rawValue: $0) })
        else { return nil }
        self.init(kind, at: UnixMilliseconds(at), provider: json["provider"]?.string.flatMap { Provider(name: $0) })
        let (outcome, reason) = (json["outcome"]?.string, json["reason"]?.string)
        self.outcome = Outcome.allCases.first { $0.name == outcome }
        self.reason = Reason.allCases.first { $0.name == reason }
        self.providerReason = json["provider_reason"]?.string ?? ""
        self.providerID = json["provider_id"]?.string ?? ""
        self.send = json["send"]?.string ?? ""
    }
}
