import ApusCore
import Testing

@Suite("Topic conditions")
struct TopicConditionTests {
    private func matches(_ text: String, _ subscribed: Set<String>) throws -> Bool {
        try TopicCondition(parsing: text).matches { subscribed.contains($0.text) }
    }

    @Test("operators are applied from left to right, parentheses first")
    func order() throws {
        // By precedence a || (b && c) this would match; from left to right it is (a || b) && c.
        let flat = "'a' in topics || 'b' in topics && 'c' in topics"
        #expect(try !self.matches(flat, ["a"]))
        #expect(try self.matches(flat, ["a", "c"]))
        #expect(try self.matches("'a' in topics || ('b' in topics && 'c' in topics)", ["a"]))
        #expect(try self.matches("'a' in topics && 'b' in topics || 'c' in topics", ["c"]))
    }

    @Test("negation binds to what follows it")
    func negation() throws {
        #expect(try self.matches("!('a' in topics)", []))
        #expect(try !self.matches("!('a' in topics)", ["a"]))
        #expect(try self.matches("!'a' in topics && 'b' in topics", ["b"]))
        #expect(try !self.matches("!('a' in topics || 'b' in topics)", ["b"]))
        #expect(try self.matches("!!'a' in topics", ["a"]))
    }

    @Test("spaces are free, names follow the grammar of topics")
    func spaces() throws {
        #expect(try self.matches("  ( 'a'  in\ttopics )&&'b' in topics ", ["a", "b"]))
        #expect(try TopicCondition(parsing: "'/topics/news' in topics") == .topic(TopicName("news")))
    }

    @Test(
        "what is not a condition is refused with its place",
        arguments: [
            ("", 0), ("'a'", 3), ("'a' in", 6), ("'a' in topic", 7), ("'a' in topicsX", 7), ("a in topics", 0),
            ("\"a\" in topics", 0), ("'a in topics", 0), ("'n!' in topics", 0), ("'' in topics", 0),
            ("('a' in topics", 14), ("'a' in topics)", 13), ("'a' in topics &&", 16), ("&& 'a' in topics", 0),
            ("'a' in topics & 'b' in topics", 14), ("'a' in topics 'b' in topics", 14), ("()", 1), ("!", 1),
            ("'a' in topics and 'b' in topics", 14),
        ]
    )
    func refusals(text: String, offset: Int) {
        #expect { try TopicCondition(parsing: text) } throws: { ($0 as? TopicConditionError)?.offset == offset }
    }

    @Test("topics, nesting and length are bounded")
    func limits() {
        func terms(_ count: Int) -> String { (0..<count).map { "'t\($0)' in topics" }.joined(separator: " || ") }
        func isTaken(_ text: String) -> Bool { (try? TopicCondition(parsing: text)) != nil }
        #expect(isTaken(terms(64)))
        #expect(!isTaken(terms(65)))
        func nested(_ depth: Int) -> String {
            String(repeating: "(", count: depth) + "'a' in topics" + String(repeating: ")", count: depth)
        }
        #expect(isTaken(nested(15)))
        #expect(!isTaken(nested(16)))
        #expect(!isTaken(String(repeating: "!", count: 4_000) + "'a' in topics"))
        #expect(isTaken(String(repeating: " ", count: Limits.expressionBytesMax - 13) + "'a' in topics"))
        #expect(!isTaken(String(repeating: " ", count: Limits.expressionBytesMax - 12) + "'a' in topics"))
    }

    @Test("written again, a condition means the same")
    func text() throws {
        var generator = SeededGenerator(seed: 74)
        func random(_ depth: Int) throws -> TopicCondition {
            switch depth == 0 ? 0 : Int.random(in: 0..<4, using: &generator) {
            case 0: .topic(try TopicName(["a", "b", "c"][Int.random(in: 0..<3, using: &generator)]))
            case 1: .not(try random(depth - 1))
            case 2: .and(try random(depth - 1), try random(depth - 1))
            default: .or(try random(depth - 1), try random(depth - 1))
            }
        }
        for _ in 0..<200 {
            let condition = try random(4)
            #expect(try TopicCondition(parsing: condition.text) == condition, "\(condition.text)")
        }
        #expect(
            try TopicCondition(parsing: "'b' in topics && 'a' in topics || 'b' in topics").topics.map(\.text) == [
                "b", "a",
            ]
        )
    }
}
