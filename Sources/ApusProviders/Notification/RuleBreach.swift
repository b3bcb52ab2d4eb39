package import ApusMessages

/// In which way a notification breaks a rule: the codes that publishers see in a refusal.
package enum RuleBreach: String, CaseIterable, Sendable {
    /// Something required is not there.
    case missing = "missing_value"
    /// A value outside its grammar or range.
    case invalid = "invalid_value"
    /// A text above its limit.
    case tooLong = "too_long"
    /// A list above its limit.
    case tooMany = "too_many"
    /// Two values that exclude each other.
    case contradiction = "contradiction"
    /// A name that the provider keeps for itself.
    case reserved = "reserved_name"
    /// A raw JSON text that is not a JSON object.
    case malformedJSON = "malformed_json"
    /// The finished payload is above the provider's limit.
    case payloadTooLarge = "payload_too_large"
    /// The provider has nothing like it.
    case unsupported = "unsupported_by_provider"
    /// The app's key or certificate is for other topics.
    case topicNotServed = "topic_not_served"
}

extension Problem {
    /// A broken rule at that path.
    package init(_ breach: RuleBreach, _ field: String, _ detail: String) {
        self.init(code: breach.rawValue, field: field, detail: detail)
    }
}
