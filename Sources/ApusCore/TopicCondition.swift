/// A condition over topics: `'a' in topics && ('b' in topics || !('c' in topics))`.
///
/// Parentheses are evaluated first, then everything **from left to right**: `&&` does not bind tighter than `||`, so
/// that a condition means the same wherever it is sent.
/// Source: https://firebase.google.com/docs/cloud-messaging/send-message#send_messages_to_topics
package indirect enum TopicCondition: Hashable, Sendable {
    /// `'name' in topics`.
    case topic(TopicName)
    /// `!`: the device does not match the condition.
    case not(TopicCondition)
    /// `&&`: the device matches both conditions.
    case and(TopicCondition, TopicCondition)
    /// `||`: the device matches one or both conditions.
    case or(TopicCondition, TopicCondition)

    /// The maximum number of topics in one condition.
    package static let topicsMax = 64
    /// The maximum nesting of parentheses and negations.
    package static let depthMax = 16

    /// Parses a condition.
    ///
    /// - Parameters:
    ///   - text: at most `Limits.expressionBytesMax` bytes.
    ///   - topicsMax: the maximum number of terms; a topic named twice counts twice.
    package init(parsing text: String, topicsMax: Int = Self.topicsMax) throws(TopicConditionError) {
        guard text.utf8.count <= Limits.expressionBytesMax else {
            throw TopicConditionError(
                "must be at most \(Limits.expressionBytesMax) bytes",
                at: Limits.expressionBytesMax
            )
        }
        var parser = TopicConditionParser(text: text, topicsMax: topicsMax)
        self = try parser.document()
    }

    /// Returns true when a device matches, given its subscriptions.
    package func matches(_ isSubscribed: (TopicName) -> Bool) -> Bool {
        switch self {
        case .topic(let name): isSubscribed(name)
        case .not(let operand): !operand.matches(isSubscribed)
        case .and(let one, let other): one.matches(isSubscribed) && other.matches(isSubscribed)
        case .or(let one, let other): one.matches(isSubscribed) || other.matches(isSubscribed)
        }
    }

    /// The topics in the order of their terms, each once.
    package var topics: [TopicName] {
        var seen: Set<TopicName> = []
        return self.terms.filter { seen.insert($0).inserted }
    }

    private var terms: [TopicName] {
        switch self {
        case .topic(let name): [name]
        case .not(let operand): operand.terms
        case .and(let one, let other), .or(let one, let other): one.terms + other.terms
        }
    }

    /// The condition's text, with the fewest parentheses that keep its meaning from left to right.
    package var text: String {
        switch self {
        case .topic(let name): "'\(name)' in topics"
        case .not(let operand): "!(\(operand.text))"
        case .and(let one, let other): "\(one.text) && \(other.operandText)"
        case .or(let one, let other): "\(one.text) || \(other.operandText)"
        }
    }

    private var operandText: String {
        switch self {
        case .topic, .not: self.text
        case .and, .or: "(\(self.text))"
        }
    }
}

/// Reports why and where a condition was refused.
package struct TopicConditionError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The broken rule.
    package let rule: String
    /// The number of bytes before the place.
    package let offset: Int

    /// Creates an error.
    package init(_ rule: String, at offset: Int) {
        self.rule = rule
        self.offset = offset
    }

    /// The sentence for a refusal.
    package var description: String { "\(self.rule), at byte \(self.offset)" }
}

/// Parses by recursive descent; the recursion is bounded by `TopicCondition.depthMax`.
private struct TopicConditionParser {
    private let bytes: [UInt8]
    private let topicsMax: Int
    private var offset = 0
    private var depth = 0
    private var topicsCount = 0

    init(text: String, topicsMax: Int) {
        self.bytes = Array(text.utf8)
        self.topicsMax = topicsMax
    }

    mutating func document() throws(TopicConditionError) -> TopicCondition {
        let condition = try self.chain()
        guard self.offset == self.bytes.count else { throw self.error("expected && or ||") }
        return condition
    }

    /// Parses terms joined from left to right, up to a closing parenthesis or the end.
    private mutating func chain() throws(TopicConditionError) -> TopicCondition {
        var condition = try self.operand()
        while true {
            if self.take("&&") {
                condition = .and(condition, try self.operand())
            } else if self.take("||") {
                condition = .or(condition, try self.operand())
            } else {
                return condition
            }
        }
    }

    private mutating func operand() throws(TopicConditionError) -> TopicCondition {
        self.skipSpace()
        guard self.depth < TopicCondition.depthMax else { throw self.error("nested too deep") }
        self.depth += 1
        defer { self.depth -= 1 }
        if self.take("!") { return .not(try self.operand()) }
        if self.take("(") {
            let condition = try self.chain()
            guard self.take(")") else { throw self.error("expected a closing parenthesis") }
            return condition
        }
        return .topic(try self.term())
    }

    private mutating func term() throws(TopicConditionError) -> TopicName {
        let start = self.offset
        guard self.topicsCount < self.topicsMax else { throw self.error("must be at most \(self.topicsMax) topics") }
        guard self.take("'") else { throw self.error("expected a topic in single quotes, ! or a parenthesis") }
        guard let end = self.bytes[self.offset...].firstIndex(of: 0x27) else {
            throw TopicConditionError("the quote is never closed", at: start)
        }
        let name = String(decoding: self.bytes[self.offset..<end], as: UTF8.self)
        self.offset = end + 1
        guard self.takeWord("in"), self.takeWord("topics") else { throw self.error("expected in topics") }
        self.topicsCount += 1
        do throws(IdentifierError) {
            return try TopicName(name)
        } catch {
            throw TopicConditionError(error.description, at: start)
        }
    }

    private mutating func take(_ symbol: String) -> Bool {
        self.skipSpace()
        guard self.bytes[self.offset...].starts(with: symbol.utf8) else { return false }
        self.offset += symbol.utf8.count
        return true
    }

    /// Takes a whole word: `topics`, not the beginning of `topicsX`.
    private mutating func takeWord(_ word: String) -> Bool {
        self.skipSpace()
        let start = self.offset
        guard self.take(word) else { return false }
        if self.offset < self.bytes.count, (0x61...0x7a).contains(self.bytes[self.offset] | 0x20) {
            self.offset = start
            return false
        }
        return true
    }

    private mutating func skipSpace() {
        while self.offset < self.bytes.count, self.bytes[self.offset] == 0x20 || self.bytes[self.offset] == 0x09 {
            self.offset += 1
        }
    }

    private func error(_ rule: String) -> TopicConditionError { TopicConditionError(rule, at: self.offset) }
}
