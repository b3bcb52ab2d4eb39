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
