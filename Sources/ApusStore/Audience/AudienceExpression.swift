package import ApusCore

/// Whom a send is for, in the grammar of topic conditions with attributes besides:
/// `'news' in topics && (platform == 'ios' || app_version >= '3.2') && locale in ['en', 'fr'] && seen_at > now-30d`.
///
/// As with conditions, what stands in parentheses comes first and then all goes **from left to right**: `&&` does not bind
/// tighter than `||`. So a condition over topics means the same as a target of either kind.
/// Source: https://firebase.google.com/docs/cloud-messaging/send-message#send_messages_to_topics
package indirect enum AudienceExpression: Hashable, Sendable {
    /// `'name' in topics`.
    case topic(TopicName)
    /// What one attribute must be.
    case test(AudienceTest)
    /// `!`: the device does not match.
    case not(AudienceExpression)
    /// `&&`: it matches both.
    case and(AudienceExpression, AudienceExpression)
    /// `||`: it matches one or both.
    case or(AudienceExpression, AudienceExpression)

    /// Topics and comparisons in one expression.
    package static let termsMax = 64
    /// Parentheses and negations within each other.
    package static let depthMax = 16
    /// Values in one list.
    package static let listMax = 64

    /// Reads an expression of at most `Limits.expressionBytesMax` bytes.
    package init(parsing text: String) throws(AudienceError) {
        guard text.utf8.count <= Limits.expressionBytesMax else {
            throw AudienceError("must be at most \(Limits.expressionBytesMax) bytes", at: Limits.expressionBytesMax)
        }
        var parser = AudienceParser(text)
        self = try parser.document()
    }

    /// The topics in the order of their terms, each once.
    package var topics: [TopicName] {
        var seen: Set<TopicName> = []
        return self.terms.filter { seen.insert($0).inserted }
    }

    private var terms: [TopicName] {
        switch self {
        case .topic(let name): [name]
        case .test: []
        case .not(let operand): operand.terms
        case .and(let one, let other), .or(let one, let other): one.terms + other.terms
        }
    }

    /// The expression again, in the fewest parentheses that keep its meaning from left to right.
    package var text: String {
        switch self {
        case .topic(let name): "\(AudienceTest.quoted(name.text)) in topics"
        case .test(let test): test.text
        case .not(let operand): "!(\(operand.text))"
        case .and(let one, let other): "\(one.text) && \(other.operandText)"
        case .or(let one, let other): "\(one.text) || \(other.operandText)"
        }
    }

    private var operandText: String {
        switch self {
        case .topic, .test, .not: self.text
        case .and, .or: "(\(self.text))"
        }
    }
}

/// Why an expression was refused, and where.
package struct AudienceError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The rule it breaks.
    package let rule: String
    /// Bytes before the place.
    package let offset: Int

    init(_ rule: String, at offset: Int) {
        self.rule = rule
        self.offset = offset
    }

    /// The sentence for a refusal.
    package var description: String { "\(self.rule), at byte \(self.offset)" }
}
