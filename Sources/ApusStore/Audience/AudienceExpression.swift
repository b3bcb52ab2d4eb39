package import ApusCore

/// An audience in the grammar of topic conditions, with attributes besides:
/// `'news' in topics && (platform == 'ios' || app_version >= '3.2') && locale in ['en', 'fr'] && seen_at > now-30d`.
///
/// Parentheses come first, as in conditions, and then all goes **from left to right**: `&&` does not bind tighter than `||`. So a condition
/// over topics means the same as a target of either kind.
/// Source: https://firebase.google.com/docs/cloud-messaging/send-message#send_messages_to_topics
package indirect enum AudienceExpression: Hashable, Sendable {
    /// `'name' in topics`.
    case topic(TopicName)
    /// A test of one attribute.
    case test(AudienceTest)
    /// `!`: the device does not match the operand.
    case not(AudienceExpression)
    /// `&&`: the device matches both operands.
    case and(AudienceExpression, AudienceExpression)
    /// `||`: the device matches one operand or both.
    case or(AudienceExpression, AudienceExpression)

    /// The maximum of topics and comparisons in one expression.
    package static let termsMax = 64
    /// The maximum depth of parentheses and negations.
    package static let depthMax = 16
    /// The maximum of values in one list.
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

    /// Returns true when a term of the expression compares the user of the device with that one, whatever follows from it.
    package func tests(for user: UserID) -> Bool {
        switch self {
        case .topic: false
        case .test(.text(.user, let users)): users.contains(Array(user.text.utf8))
        case .test: false
        case .not(let operand): operand.tests(for: user)
        case .and(let one, let other), .or(let one, let other): one.tests(for: user) || other.tests(for: user)
        }
    }

    private var terms: [TopicName] {
        switch self {
        case .topic(let name): [name]
        case .test: []
        case .not(let operand): operand.terms
        case .and(let one, let other), .or(let one, let other): one.terms + other.terms
        }
    }

    /// The text of the expression, with the fewest parentheses that keep its meaning from left to right.
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

/// Describes why and where an expression was refused.
package struct AudienceError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The rule that the expression breaks.
    package let rule: String
    /// The bytes before the place.
    package let offset: Int

    init(_ rule: String, at offset: Int) {
        self.rule = rule
        self.offset = offset
    }

    /// The sentence for a refusal.
    package var description: String { "\(self.rule), at byte \(self.offset)" }
}
