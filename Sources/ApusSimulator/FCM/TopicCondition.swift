internal import ApusCore

/// A condition over topics: `'name' in topics`, `&&`, `||`, `!` and parentheses, at most five topics.
///
/// Source: https://firebase.google.com/docs/cloud-messaging/send-topic-messages
package struct TopicCondition: Hashable, Sendable {
    /// The maximum number of topics in one condition.
    package static let topicsMax = 5

    /// The topics in the order of the text.
    package private(set) var topics: [String] = []

    private var rest: Substring

    /// Parses a condition; nil if it is malformed or has too many topics.
    package init?(_ text: String) {
        guard text.utf8.count <= Limits.expressionBytesMax else { return nil }
        self.rest = Substring(text)
        guard self.expression(), self.rest.allSatisfy({ $0 == " " }) else { return nil }
        guard self.topics.count <= Self.topicsMax else { return nil }
    }

    private mutating func accept(_ text: String) -> Bool {
        self.rest = self.rest.drop { $0 == " " }
        guard self.rest.hasPrefix(text) else { return false }
        self.rest = self.rest.dropFirst(text.count)
        return true
    }

    /// Parses the operators iteratively; the text's length bounds the recursion of parentheses.
    private mutating func expression() -> Bool {
        repeat {
            while self.accept("!") {}
            guard self.term() else { return false }
        } while self.accept("&&") || self.accept("||")
        return true
    }

    private mutating func term() -> Bool {
        if self.accept("(") { return self.expression() && self.accept(")") }
        guard self.accept("'") else { return false }
        let name = self.rest.prefix { $0 != "'" }
        self.rest = self.rest.dropFirst(name.count)
        guard self.accept("'"), FCMSchema.isTopic(String(name)), self.accept("in"), self.accept("topics") else {
            return false
        }
        self.topics.append(String(name))
        return true
    }
}
