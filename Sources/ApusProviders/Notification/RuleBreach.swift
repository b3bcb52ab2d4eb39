package import ApusMessages

/// The ways in which a notification breaks a rule: the codes that publishers see in a refusal.
package enum RuleBreach: String, CaseIterable, Sendable {
    /// Something required is missing.
    case missing = "missing_value"
    /// A value is outside its grammar or range.
    case invalid = "invalid_value"
    /// A text exceeds its limit.
    case tooLong = "too_long"
    /// A list exceeds its limit.
    case tooMany = "too_many"
    /// Two values exclude each other.
    case contradiction = "contradiction"
    /// A name is reserved by the provider.
    case reserved = "reserved_name"
    /// A raw JSON text is not a JSON object.
    case malformedJSON = "malformed_json"
    /// The finished payload exceeds the provider's limit.
    case payloadTooLarge = "payload_too_large"
    /// The provider does not support it.
    case unsupported = "unsupported_by_provider"
    /// The app's key or certificate is for other topics.
    case topicNotServed = "topic_not_served"
}

extension Problem {
    /// Creates the problem of a broken rule at a path.
    package init(_ breach: RuleBreach, _ field: String, _ detail: String) {
        self.init(code: breach.rawValue, field: field, detail: detail)
    }
}
