import Testing

/// Lists the files of more than 500 lines or less than 20, with the reason why each is one file.
private let unusualSizes: [String: String] = [
    "ApusBuiltInProviders/BuiltInProviders.swift": "all of its target",
    "ApusConsole/Server/ConsoleResponder.swift": "the routes of the console, one after the other",
    "ApusCore/SeededGenerator.swift": "one type that others look for by its name",
    "ApusCore/SystemClock.swift": "the one place that reads the clock",
    "ApusDispatcher/Send/RecipientRun.swift": "one state machine",
    "ApusDispatcher/Send/Worker.swift": "one owner of state on an event loop",
    "ApusFCM/PathSegment.swift": "topics and groups share it, and nothing else",
    "ApusProviders/Gateway/OriginGateways.swift": "one owner of state on an event loop",
    "ApusStore/DeviceStore+Register.swift": "the steps of a registration, in their order",
    "ApusStore/StoreCalls.swift": "the calls of the store's functions, by their names",
    "ApusStore/StoreFunctionCalls.swift": "the arguments of the store's functions, by their names",
    "ApusStreams/Consumer/ShardConsumer.swift": "one state machine with its driver",
    "ApusStreams/ReplayLog.swift": "one log with its state",
    "ApusTestKit/SendKey+Literal.swift": "an extension for tests of a type that is not theirs",
    "apus-dispatcher/main.swift": "a program",
    "apus-feedback/main.swift": "a program",
    "apus-lab/ApusLab.swift": "a program",
    "apus-registration/main.swift": "a program",
]

@Suite struct TasteTests {
    @Test func `A file has 20 to 500 lines, unless there is a reason`() throws {
        var used: Set<String> = []
        for file in try SourceTree.swiftFiles() {
            // The last one is empty.
            let count = file.lines.count - 1
            guard !(20...500).contains(count) else { continue }
            used.insert(file.path)
            #expect(unusualSizes[file.path] != nil, "\(file.path) has \(count) lines: join or split it by idea")
        }
        for path in unusualSizes.keys.sorted() where !used.contains(path) {
            Issue.record("\(path) has a usual size: take it out of the list")
        }
    }

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
