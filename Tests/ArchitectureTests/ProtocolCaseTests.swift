import Foundation
import Testing

/// The numbered cases of what providers demand and answer, each of which is a test named by its number: `D17 …`.
@Suite struct ProtocolCaseTests {
    @Test func `Every case of a provider has a test named by its number`() throws {
        let tests = SourceTree.root.appending(path: "Tests")
        let enumerator = FileManager.default.enumerator(atPath: tests.path())
        var found: Set<Int> = []
        while let path = enumerator?.nextObject() as? String {
            guard path.hasSuffix(".swift"), !path.hasPrefix("ArchitectureTests/") else { continue }
            let text = try String(contentsOf: tests.appending(path: path), encoding: .utf8)
            // A name begins with its numbers: "D50 D51 any other violation …", or between backticks.
            for match in text.matches(of: /["`]((?:D[0-9]+ )+)/) {
                for number in match.1.split(separator: " ") { found.insert(Int(number.dropFirst()) ?? 0) }
            }
        }
        #expect(try Set(DocumentTests.cases()).symmetricDifference(found).isEmpty)
    }
}
