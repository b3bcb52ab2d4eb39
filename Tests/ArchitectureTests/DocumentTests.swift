import Foundation
import Testing

/// The README and the articles compared with the sources.
@Suite struct DocumentTests {
    /// An article of a target's catalogue.
    private struct Article {
        let name: String
        let path: String
        let text: String

        /// The rows of all tables: their cells, without the row of dashes.
        var rows: [[String]] {
            self.text.split(separator: "\n").filter { $0.hasPrefix("| ") && !$0.hasPrefix("| ---") }.map { line in
                line.dropFirst().dropLast().split(separator: "|", omittingEmptySubsequences: false)
                    .map { $0.trimmingCharacters(in: .whitespaces) }
            }
        }

        /// The texts in code voice, outside of blocks.
        var codes: [String] {
            let prose = self.text.replacing(/(?s)```.*?```/, with: "")
            return prose.matches(of: /`([^`\n]+)`/).map { String($0.1) }
        }

        /// The part under a heading of the second level.
        func section(_ heading: String) -> Article? {
            guard let start = self.text.range(of: "\n## \(heading)\n") else { return nil }
            let rest = self.text[start.upperBound...]
            let end = rest.range(of: "\n## ")?.lowerBound ?? rest.endIndex
            return Article(name: self.name, path: self.path, text: String(rest[..<end]))
        }
    }

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: SourceTree.root.appending(path: path), encoding: .utf8)
    }

    /// Paths below a folder, sorted.
    private static func files(in folder: String) throws -> [String] {
        let root = SourceTree.root.appending(path: folder)
        let enumerator = try #require(FileManager.default.enumerator(atPath: root.path()))
        var paths: [String] = []
        while let path = enumerator.nextObject() as? String { paths.append("\(folder)/\(path)") }
        return paths.sorted()
    }

    private static func articles() throws -> [Article] {
        try Self.files(in: "Sources").filter { $0.contains(".docc/") && $0.hasSuffix(".md") }.map { path in
            let name = String(path.split(separator: "/").last?.replacing(".md", with: "") ?? "")
            return Article(name: name, path: path, text: try Self.text(path))
        }
    }

    private static func article(_ name: String) throws -> Article {
        try #require(try Self.articles().first { $0.name == name }, "there is no article \(name)")
    }

    private static func readme() throws -> Article {
        Article(name: "README", path: "README.md", text: try Self.text("README.md"))
    }

    private static func exists(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: SourceTree.root.appending(path: path).path())
    }

    // MARK: The README

    @Test func `The README has at most 150 lines and its parts in their order`() throws {
        let readme = try Self.readme()
        #expect(readme.text.split(separator: "\n", omittingEmptySubsequences: false).count <= 150)
        let headings = readme.text.matches(of: /(?m)^## (.*)$/).map { String($0.1) }
        let order = [
            "Requirements and limits", "Try it", "A first send", "How it works", "What is promised", "How fast",
            "Read on", "Contributing",
        ]
        #expect(headings == order)
        #expect(try #require(readme.section("What is promised")).rows.count == 1 + 5)
        #expect(try #require(readme.section("How fast")).rows.count == 1 + 4)
    }

    @Test func `The README links to every article, and every link has its target`() throws {
        let readme = try Self.readme()
        let targets = readme.text.matches(of: /\]\(([A-Za-z][^)#:]*)\)/).map { String($0.1) }
        for target in targets { #expect(Self.exists(target), "\(target)") }
        let articles = try Self.articles()
        #expect(Set(articles.map(\.path)).isSubset(of: targets))
    }

    @Test func `The landing page lists every other article once`() throws {
        let topics = try #require(try Self.article("Apus").section("Topics"))
        let listed = topics.text.matches(of: /<doc:([A-Za-z]+)>/).map { String($0.1) }
        let others = try Self.articles().map(\.name).filter { $0 != "Apus" }
        #expect(listed.sorted() == others.sorted())
    }

    /// The figures of a text, with their spread: "1.21", "1.14-1.27". The number of a percentile is none.
    private static func figures(_ text: String) -> [String] {
        text.replacing(/p[0-9]+/, with: "").matches(of: /[0-9][0-9.,]*(?:-[0-9.,]*[0-9])?/).map { String($0.0) }
    }

    @Test func `The README's figures are those of the article on benchmarks`() throws {
        let article = try Self.article("Benchmarks")
        let compared = Self.figures(try #require(article.section("Compared with others")).text)
        var bars: [String: String] = [:]
        var runs: [String: [String]] = [:]
        var benchmark = ""
        for row in try #require(article.section("The figures")).rows {
            // A row without a name goes on with the benchmark before it.
            if !row[0].isEmpty { (benchmark, bars[row[0]]) = (row[0], row[2]) }
            runs[benchmark, default: []] += Self.figures(row[3])
        }
        for row in try #require(try Self.readme().section("How fast")).rows where row[0] != "benchmark" {
            #expect(bars[row[0]] == row[2], "\(row[0])")
            let figures = Self.figures(row[3])
            #expect(figures.first == runs[row[0]]?.first, "\(row[0])")
            #expect(Set(figures).isSubset(of: (runs[row[0]] ?? []) + compared), "\(row[0]): \(row[3])")
        }
    }

    // MARK: Names in the articles

    @Test func `Every path that is named exists`() throws {
        let folders = ["Sources/", "Tests/", "Scripts/", "Protos", "Dashboards"]
        for article in try Self.articles() + [try Self.readme()] {
            for code in article.codes where folders.contains(where: { code.hasPrefix($0) }) {
                guard let path = code.split(separator: " ").first, !path.contains("*") else { continue }
                #expect(Self.exists(String(path)), "\(article.path) names \(path)")
            }
        }
    }

    @Test func `Every type, message and provider's reason that is named is in the sources`() throws {
        var words: Set<String> = []
        func add(_ text: String) {
            for word in text.utf8.split(whereSeparator: { !(0x61...0x7a).contains($0 | 0x20) }) where word.count > 4 {
                words.insert(String(decoding: word, as: UTF8.self))
            }
        }
        for folder in ["Sources", "Protos", "Tests", "Dashboards/runbooks", "Scripts/python"] {
            for path in try Self.files(in: folder) where !path.contains(".docc/") {
                add(path)
                if [".swift", ".proto", ".py"].contains(where: { path.hasSuffix($0) }) { add(try Self.text(path)) }
            }
        }
        for article in try Self.articles() + [try Self.readme()] {
            for code in article.codes where code.wholeMatch(of: /[A-Z][a-z]+[A-Z][A-Za-z]+/) != nil {
                let isThere = words.contains(code)
                #expect(isThere, "\(article.path) names \(code)")
            }
        }
    }

    @Test func `Nothing cites a document that is not in the repository`() throws {
        let documents = /\b(DESIGN|PROTOCOLS|OPERATIONS|RELIABILITY|PEERS|ATTACK|GLOSSARY|STYLE\.md|SCALE\.md)\b/
        for folder in ["Sources", "Tests", "Protos", "Dashboards", "Scripts"] {
            let suffixes = [".swift", ".lua", ".md", ".proto", ".h", ".c", ".yml", ".yaml"]
            for path in try Self.files(in: folder) {
                let isText = suffixes.contains { path.hasSuffix($0) } || path.hasPrefix("Scripts/")
                guard isText, !path.hasSuffix("DocumentTests.swift"), let text = try? Self.text(path) else { continue }
                if let match = text.firstMatch(of: documents) { Issue.record("\(path) cites \(match.0)") }
            }
        }
    }

    @Test func `Every runbook has a symptom, and every page that a symptom names exists`() throws {
        let operations = try #require(try Self.article("Operations").section("Symptoms"))
        let named = Set(operations.codes.filter { $0.wholeMatch(of: /Apus[A-Z][A-Za-z]+/) != nil })
        let pages = try Self.files(in: "Dashboards/runbooks").compactMap { path in
            path.split(separator: "/").last.map { String($0.replacing(".md", with: "")) }
        }
        #expect(named == Set(pages))
    }

    /// The rows of the providers' cases by their numbers, in the order of the articles.
    private static func caseRows() throws -> [(number: Int, row: [String])] {
        try Self.articles().flatMap(\.rows).compactMap { row in
            row[0].wholeMatch(of: /D([0-9]+)/).flatMap { Int($0.1) }.map { ($0, row) }
        }
    }

    /// The numbers of the cases that the articles list.
    static func cases() throws -> [Int] { try Self.caseRows().map(\.number) }

    @Test func `Every case of a provider is listed once, with its rule, its source and its handling`() throws {
        let rows = try Self.caseRows()
        for (number, row) in rows { #expect(row.count == 4 && row.allSatisfy { !$0.isEmpty }, "D\(number)") }
        #expect(!rows.isEmpty && rows.map(\.number) == Array(1...max(1, rows.count)))
    }

    // MARK: Architecture

    @Test func `The layers name every target and no other`() throws {
        let package = try Self.text("Package.swift")
        let declaration = /(?:library|program|\.target|\.systemLibrary)\(\s*(?:name: )?"([A-Za-z0-9-]+)"/
        let declared = package.matches(of: declaration).map { String($0.1) }
        let layers = try #require(try Self.article("Architecture").section("Layers"))
        let table = layers.rows.prefix { $0[0] != "job" }.map { $0[1] }.joined(separator: " ")
        let named = table.matches(of: /`([A-Za-z0-9-]+)`/).map { String($0.1) }
        #expect(Set(named) == Set(declared))
    }

    @Test func `The functions are those that Redis is loaded with`() throws {
        var registered: Set<String> = []
        var libraries: Set<String> = []
        for path in try Self.files(in: "Sources") where path.hasSuffix(".lua") {
            for match in try Self.text(path).matches(of: /(?:name = |register_function\()'(apus[0-9]+)_([a-z_]+)'/) {
                libraries.insert(String(match.1))
                registered.insert(String(match.2))
            }
        }
        #expect(registered.count > 50)
        let functions = try #require(try Self.article("Architecture").section("Functions"))
        #expect(libraries.count == 1 && libraries.allSatisfy { functions.text.contains("One library, `\($0)`") })
        let rows = functions.rows.filter { $0[0] != "function" }
        #expect(Set(rows.map { $0[0].trimmingCharacters(in: ["`"]) }) == registered)
        #expect(rows.allSatisfy { $0.count == 3 && !$0[1].isEmpty })
    }

    @Test func `Every function says whether it runs at a full Redis, and why`() throws {
        var flags: [String: String] = [:]
        for path in try Self.files(in: "Sources") where path.hasSuffix(".lua") {
            for declaration in try Self.text(path).split(separator: "register_function{").dropFirst() {
                let head = declaration.firstRange(of: "run =").map { declaration[..<$0.lowerBound] } ?? declaration
                guard let name = head.firstMatch(of: /name = 'apus[0-9]+_([a-z_]+)'/) else { continue }
                flags[String(name.1)] = head.firstMatch(of: /flags = \{'([a-z-]+)'/).map { String($0.1) } ?? ""
            }
        }
        let functions = try #require(try Self.article("Architecture").section("Functions"))
        for row in functions.rows where row[0] != "function" {
            let words = ["allow-oom": "runs: ", "no-writes": "reads", "": "refused: "]
            let flag = try #require(flags[row[0].trimmingCharacters(in: ["`"])])
            let expected = try #require(words[flag])
            #expect(row[2].hasPrefix(expected), "\(row[0])")
        }
    }

    /// The first word of every key: what stands before a colon.
    private static func words(_ keys: some Sequence<String>) -> Set<String> {
        Set(keys.map { String($0.prefix { $0 != ":" && $0 != "<" }) })
    }

    @Test func `The keys of a queue shard are those of the sources`() throws {
        var used: [String] = []
        for path in try Self.files(in: "Sources/ApusStreams") {
            if path.hasSuffix(".swift") {
                used += try Self.text(path).matches(of: /(?:\.key\(|func workName.+ \{ )"([a-z_]+)/).map {
                    String($0.1)
                }
            } else if path.hasSuffix(".lua") {
                used += try Self.text(path).matches(of: /tag(?:_of\([a-z]+\))? \.\. '([a-z_]+)/).map { String($0.1) }
            }
        }
        #expect(used.count > 30)
        let keys = try #require(try Self.article("Architecture").section("Keys"))
        let named = keys.rows.compactMap { row in row[0].wholeMatch(of: /`\{q\}(.+)`/).map { String($0.1) } }
        #expect(Self.words(named) == Self.words(used))
    }

    @Test func `The keys of a device partition are those of the store`() throws {
        let comment = try Self.text("Sources/ApusStore/StoreKeys.swift")
        let used = comment.matches(of: /\/\/\/ \| `(\{t\}[^`]+)`/).map { String($0.1) }
        #expect(used.count > 10)
        let keys = try #require(try Self.article("Architecture").section("Keys"))
        let named = keys.rows.compactMap { row in row[0].wholeMatch(of: /`(\{t\}.+)`/).map { String($0.1) } }
        #expect(Set(named) == Set(used))
    }
}
