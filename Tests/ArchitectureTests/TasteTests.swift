import Testing

@Suite struct TasteTests {
    @Test func `Pure engines read no clock and no random numbers`() throws {
        let words = [
            "ContinuousClock.now", "Date()", ".random(in:", "clock_gettime(", "NIODeadline.now()", "gettimeofday(",
        ]
        for file in try SourceTree.swiftFiles()
        where file.path.contains("/Engine/") || file.target == "ApusCore" && !file.path.hasSuffix("SystemClock.swift")
            || file.target == "ApusHTTP2" && !file.path.contains("/Channel/")
        {
            for (number, line) in file.lines.enumerated() {
                for word in words {
                    #expect(!line.contains(word), "\(file.path):\(number + 1) uses \(word)")
                }
            }
        }
    }

    /// The words with which a relative clause or a question begins. A comment's first sentence has a subject and a verb instead.
    private static let riddles: Set<Substring> = [
        "How", "Nobody", "What", "When", "Where", "Whether", "Which", "Who", "Whoever", "Whom", "Whose", "Why", "Those",
    ]

    /// The subset that may not begin a comment inside code either, where "When" or "Nobody" may begin a sentence.
    private static let fragments: Set<Substring> = [
        "How", "What", "Whether", "Which", "Who", "Whoever", "Whom", "Whose", "Why",
    ]

    @Test(arguments: ["Sources", "Tests"])
    func `A comment begins with a subject and a verb, and a mark names the part`(_ folder: String) throws {
        for file in try SourceTree.files(under: folder, suffixes: [".swift", ".lua"]) {
            let sign = file.path.hasSuffix(".lua") ? "-- " : "/// "
            var before: Substring = ""
            for (number, line) in file.lines.enumerated() {
                let text = line.drop { $0 == " " }
                defer { before = text }
                let begins = text.hasPrefix(sign) && !before.hasPrefix(sign.dropLast())
                let isMark = text.hasPrefix("// MARK: ")
                if begins || isMark {
                    let word = text.dropFirst(begins ? sign.count : 9).prefix { $0 != " " }
                    #expect(!Self.riddles.contains(word), "\(folder)/\(file.path):\(number + 1): \(text)")
                } else if text.hasPrefix("// "), !before.hasPrefix("//") {
                    let word = text.dropFirst(3).prefix { $0 != " " }
                    #expect(!Self.fragments.contains(word), "\(folder)/\(file.path):\(number + 1): \(text)")
                }
            }
        }
    }

    /// Swift shows an error that does not describe itself by the names of its fields.
    @Test func `Every error describes itself in words`() throws {
        let tools = ["ApusLab", "ApusSimulator", "ApusTestKit"]
        var count = 0
        for file in try SourceTree.swiftFiles() where !tools.contains(file.target) {
            for (number, line) in file.lines.enumerated() {
                let code = line.drop { $0 == " " }.split(separator: "//").first ?? ""
                guard !code.hasPrefix("extension"),
                    let match = code.firstMatch(of: /^[a-z ]*(?:struct|enum|class) \w+[^:]*: ([^{]*)\{/),
                    match.1.contains(/\bError\b/)
                else { continue }
                count += 1
                #expect(match.1.contains("CustomStringConvertible"), "\(file.path):\(number + 1)")
            }
        }
        #expect(count > 20)
    }

    @Test func `No to-do notes are left in the code`() throws {
        for file in try SourceTree.swiftFiles() {
            for (number, line) in file.lines.enumerated() {
                for word in ["TODO", "FIXME", "XXX:", "HACK"] {
                    #expect(!line.contains(word), "\(file.path):\(number + 1) has \(word)")
                }
            }
        }
    }
}
