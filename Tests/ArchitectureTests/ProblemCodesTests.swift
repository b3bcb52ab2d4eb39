import Testing

/// Tests that the schema lists the codes of problems that the sources give, and no others.
@Suite struct ProblemCodesTests {
    /// The codes that stand in for a problem where none can be read: nobody writes them.
    private static let placeholders: Set<String> = ["unknown", "unreadable"]
    /// The errors of the store after which a command of the register stream comes again.
    private static let passing: Set<String> = ["contended", "full", "sealed", "redis"]
    /// The errors of the store that only requests over HTTP can cause: they have conditions, users who ask, and addresses beside the token.
    private static let ofRequests: Set<String> = ["precondition_failed", "foreign", "too_many_addresses"]

    private static func text(_ path: String) throws -> String {
        let parts = path.split(separator: "/", maxSplits: 1).map(String.init)
        let file = try #require(
            try SourceTree.files(under: parts[0], suffixes: [".swift", ".proto"]).first { $0.path == parts[1] }
        )
        return file.lines.joined(separator: "\n")
    }

    /// The codes of the comment above the field, which has them behind a colon in each of its sentences.
    private static func listed() throws -> [String] {
        let proto = try Self.text("Protos/apus/v1/receipt.proto")
        let comment = try #require(proto.firstMatch(of: /message Problem \{\n((?: +\/\/ .*\n)+) +string code = 1;/)).1
        let lines = comment.split(separator: "\n").map { $0.drop { $0 == " " || $0 == "/" } }
        let lists = lines.map { line in line.firstIndex(of: ":").map { line[line.index(after: $0)...] } ?? line }
        return lists.joined(separator: " ").matches(of: /[a-z_]+/).map { String($0.0) }
    }

    private static func given() throws -> Set<String> {
        var given: Set<String> = []
        for file in try SourceTree.swiftFiles() where file.target != "ApusFuzzing" {
            for match in file.lines.joined(separator: "\n").matches(of: /Problem\(\s*code: "([a-z_]+)"/) {
                given.insert(String(match.1))
            }
        }
        let rules = try Self.text("Sources/ApusProviders/Notification/RuleBreach.swift")
        given.formUnion(rules.matches(of: /case [a-zA-Z]+ = "([a-z_]+)"/).map { String($0.1) })
        let publisher = try Self.text("Sources/ApusDispatcher/Intake/PublisherRules.swift")
        given.formUnion(publisher.matches(of: /let code = "([a-z_]+)"/).map { String($0.1) })
        let store = try Self.text("Sources/ApusStore/StoreError.swift")
        let kinds = try #require(store.firstMatch(of: /enum Value: String \{\n([^}]*)\}/)).1
        let errors = Set(kinds.matches(of: /case (?:[a-zA-Z]+ = ")?([a-z_]+)/).map { String($0.1) })
        #expect(errors.count > 10 && errors.isSuperset(of: Self.passing.union(Self.ofRequests)))
        return given.union(errors).subtracting(Self.passing).subtracting(Self.ofRequests)
            .subtracting(Self.placeholders)
    }

    @Test func `The schema lists every code that a problem may have, and no other`() throws {
        let (listed, given) = (try Self.listed(), try Self.given())
        #expect(given.count > 40)
        #expect(Set(listed).subtracting(given).sorted() == [], "listed, and given by no source")
        #expect(given.subtracting(listed).sorted() == [], "given, and not listed")
    }
}
