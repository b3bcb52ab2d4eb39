import ApusYAML
import Testing

@Suite struct YAMLNodeTests {
    private func scalar(_ text: String) throws -> YAMLScalar {
        try #require(try YAMLNode.parse(text)?.scalar)
    }

    @Test func `Mappings keep the order and the lines of their keys`() throws {
        let root = try #require(try YAMLNode.parse("b: 1\n\na: [x, 'y']\nc:\n  d: {e: f}\n"))
        guard case .mapping(let pairs) = root.content else { throw YAMLNodeTests.Failure() }
        #expect(pairs.map(\.key.scalar?.text) == ["b", "a", "c"])
        #expect(pairs.map(\.key.line) == [1, 3, 4])
        guard case .sequence(let list) = pairs[1].value.content else { throw YAMLNodeTests.Failure() }
        #expect(list.map(\.scalar?.text) == ["x", "y"] && list.map(\.scalar?.isText) == [false, true])
        guard case .mapping(let inner) = pairs[2].value.content,
            case .mapping(let innermost) = inner[0].value.content
        else { throw YAMLNodeTests.Failure() }
        #expect(innermost[0].key.scalar?.text == "e" && innermost[0].key.line == 5)
    }

    @Test(arguments: ["", "# nothing\n"]) func `A text without a document has no root`(_ text: String) throws {
        #expect(try YAMLNode.parse(text) == nil)
    }

    @Test(arguments: ["~", "null", "a: &x 1"]) func `Null is what YAML says it is`(_ text: String) throws {
        #expect(try YAMLNode.parse(text)?.scalar?.isNull == (text.hasPrefix("a") ? nil : true))
        #expect(try self.scalar("'~'").isNull == false)
    }

    @Test(arguments: [("42", 42), ("-7", -7), ("+3", 3), ("0x1F", 31), ("0o17", 15), ("-0b101", -5), ("1_000", 1_000)])
    func `Whole numbers are read`(_ text: String, _ value: Int) throws {
        #expect(try self.scalar(text).integer == value)
        #expect(try self.scalar("\"\(text)\"").integer == nil)
    }

    @Test(arguments: ["1.5", "x1", "--1", "0x", "99999999999999999999"])
    func `Texts that are not whole numbers are refused`(_ text: String) throws {
        #expect(try self.scalar(text).integer == nil)
    }

    @Test(arguments: [("0.25", 0.25), ("-1e3", -1_000), ("7", 7)]) func `Numbers are read`(
        _ text: String,
        _ value: Double
    ) throws {
        #expect(try self.scalar(text).number == value)
    }

    @Test(arguments: ["nan", "inf", ".inf", "infinity", "0x1p4", "1e999", "!!str 5"])
    func `Texts that are not numbers are refused`(_ text: String) throws {
        #expect(try self.scalar(text).number == nil)
    }

    @Test(arguments: [("true", true), ("Yes", true), ("ON", true), ("false", false), ("no", false), ("Off", false)])
    func `Truth values are read`(_ text: String, _ value: Bool) throws {
        #expect(try self.scalar(text).bool == value)
        #expect(try self.scalar("tRue").bool == nil && self.scalar("'\(text)'").bool == nil)
    }

    @Test func `An alias stands for what its anchor names`() throws {
        let root = try #require(try YAMLNode.parse("a: &x [1]\nb: *x"))
        guard case .mapping(let pairs) = root.content else { throw YAMLNodeTests.Failure() }
        #expect(pairs[0].value == pairs[1].value)
    }

    @Test(arguments: [
        ("a: [1", "did not find expected ',' or ']'", 2), ("a: 1\nb: 2\na: 3", "the key a is repeated", 1),
        ("a: *x", "an alias has no anchor", 1), ("a: 1\n---\nb: 2", "found another document", 2),
        (String(repeating: "[", count: 100), "it is nested too deeply", 1),
    ])
    func `An error names its line`(_ text: String, _ problem: String, _ line: Int) {
        let error = #expect(throws: YAMLError.self) { try YAMLNode.parse(text) }
        #expect(error?.problem == problem && (error?.line ?? 0) == line, "\(String(describing: error))")
    }

    private struct Failure: Error {}
}
