import ApusRedis
import Testing

@testable import ApusStreams

/// Tests that an answer of another form is an error: read as empty, it would say that a ledger or an entry is gone.
@Suite struct ForeignAnswerTests {
    private static func node(_ bytes: String) throws -> RESPNode {
        var parser = RESPParser()
        try parser.receive(Array(bytes.utf8).span)
        let reply = parser.nextReply()
        return try #require(reply).root
    }

    @Test func `Texts and pairs are read from their position on, and none from null`() throws {
        let answer = try Self.node("*3\r\n:1\r\n$1\r\na\r\n$2\r\nbc\r\n")
        #expect(try answer.texts(from: 1) == ["a", "bc"])
        #expect(try Self.node("*2\r\n$1\r\na\r\n$1\r\n\u{31}\r\n").pairs().map { "\($0.0)=\($0.1)" } == ["a=1"])
        #expect(try Self.node("*-1\r\n").texts() == [])
        #expect(try Self.node("$-1\r\n").pairs().isEmpty)
    }

    @Test func `A rate limit takes no number that would be too large to calculate with`() throws {
        func answer(_ numbers: [Int64]) throws -> RESPNode {
            try Self.node("*\(numbers.count)\r\n" + numbers.map { ":\($0)\r\n" }.joined())
        }
        let grant = try RateLimits.grant(try answer([5, 0, 250, -1, 1_000_000, 20]))
        #expect(grant.permits == 5 && grant.pauseMilliseconds == 250 && grant.ratePerSecond == nil && grant.level == 1)
        for index in 0..<6 {
            for number in [Int64.max, Int64.min, -2] {
                var numbers: [Int64] = [5, 0, 250, -1, 1_000_000, 20]
                numbers[index] = number
                let wrong = try answer(numbers)
                #expect { try RateLimits.grant(wrong) } throws: { ($0 as? RedisError)?.code == .unexpectedReply }
            }
        }
        let short = try answer([5, 0, 250])
        #expect(throws: RedisError.self) { try RateLimits.grant(short) }
    }

    @Test(arguments: [":1\r\n", "$2\r\nok\r\n", "+OK\r\n", "*1\r\n:1\r\n", "*1\r\n*0\r\n"])
    func `Answers of another form are errors`(_ bytes: String) throws {
        let node = try Self.node(bytes)
        #expect { try node.texts() } throws: { ($0 as? RedisError)?.code == .unexpectedReply }
        #expect { try node.pairs() } throws: { ($0 as? RedisError)?.code == .unexpectedReply }
    }
}
