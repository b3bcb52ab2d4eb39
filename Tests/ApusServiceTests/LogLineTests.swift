import ApusService
import Logging
import Testing

private func line(
    _ message: String,
    level: Logger.Level = .info,
    error: (any Error)? = nil,
    _ metadata: Logger.Metadata = [:],
) -> LogLine {
    LogLine(
        nanosecondsSince1970: 1_709_164_799_999_000_000,
        level: level,
        label: "apus-test",
        message: message,
        error: error,
        metadata: metadata,
    )
}

private func json(_ message: String, _ metadata: Logger.Metadata = [:]) -> String {
    String(decoding: line(message, metadata).json(), as: UTF8.self)
}

private struct SampleError: Error, CustomStringConvertible {
    let description = "it \"broke\""
}

@Suite struct LogLineTests {
    private static let head =
        "{\"ts\":\"2024-02-28T23:59:59.999Z\",\"level\":\"info\",\"logger\":\"apus-test\",\"msg\":"

    @Test func theOrderOfKeysIsFixed() {
        let text = String(
            decoding: line("sent", error: SampleError(), ["b": "2", "a": "1"]).json(),
            as: UTF8.self,
        )
        #expect(text == Self.head + "\"sent\",\"error\":\"it \\\"broke\\\"\",\"a\":\"1\",\"b\":\"2\"}\n")
    }

    @Test func numbersAndTruthsStandWithoutQuotes() {
        let metadata: Logger.Metadata = [
            "count": .stringConvertible(12), "ok": .stringConvertible(true), "ratio": .stringConvertible(0.5),
            "nan": .stringConvertible(Double.nan), "list": ["a", "b"], "inner": ["x": "1", "y": ["z": "2"]],
        ]
        #expect(
            json("m", metadata)
                == Self.head + "\"m\",\"count\":12,\"inner.x\":\"1\",\"inner.y.z\":\"2\",\"list\":[\"a\",\"b\"],"
                + "\"nan\":\"nan\",\"ok\":true,\"ratio\":0.5}\n"
        )
    }

    @Test(arguments: [
        ("a\nb\r\t", #""a\nb\r\t""#),
        ("\"},{\"level\":\"critical\"", #""\"},{\"level\":\"critical\"""#),
        ("\u{0}\u{1b}[31m\u{7f}\u{9b}", #""\u0000\u001b[31m\u007f\u009b""#),
        ("a\u{2028}b\u{2029}c\u{202e}d", #""a\u2028b\u2029c\u202ed""#),
        ("naïve 🕊 \\", #""naïve 🕊 \\""#),
    ])
    func hostileTextStaysInsideItsQuotes(message: String, written: String) {
        #expect(json(message) == Self.head + written + "}\n")
        #expect(json("m", ["k": "\(message)"]) == Self.head + "\"m\",\"k\":" + written + "}\n")
    }

    @Test func aHostileKeyIsEscapedAndCannotStandForOurs() {
        #expect(json("m", ["a\"b": "1", "msg": "2"]) == Self.head + "\"m\",\"a\\\"b\":\"1\",\"_msg\":\"2\"}\n")
    }

    @Test func whatIsTooLongIsCut() {
        let long = String(repeating: "é", count: LogLine.textBytesMax)
        let message = String(repeating: "é", count: LogLine.textBytesMax / 2)
        #expect(json(long) == Self.head + "\"\(message)\"}\n")
        let many = Logger.Metadata(uniqueKeysWithValues: (0...LogLine.valuesMax).map { ("k\($0)", "v") })
        #expect(json("m", many).split(separator: ":\"v\"").count == LogLine.valuesMax + 1)
    }

    @Test func textIsForPeopleAndHarmlessForTerminals() {
        let text = String(
            decoding: line(
                "gone\u{1b}[2J away\n",
                level: .warning,
                ["app": "shop", "why": "a b", "n": .stringConvertible(1)]
            )
            .text(),
            as: UTF8.self,
        )
        #expect(
            text == "2024-02-28T23:59:59.999Z warning  apus-test: gone\\u001b[2J away\\n app=shop n=1 why=\"a b\"\n"
        )
    }

    @Test(arguments: [
        (0, "1970-01-01T00:00:00.000Z"), (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (4_107_542_399_001, "2100-02-28T23:59:59.001Z"), (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
    ])
    func timesAreRFC3339(milliseconds: Int64, written: String) {
        let line = LogLine(
            nanosecondsSince1970: milliseconds * 1_000_000,
            level: .info,
            label: "",
            message: "",
            error: nil,
            metadata: [:],
        )
        #expect(String(decoding: line.json(), as: UTF8.self).hasPrefix("{\"ts\":\"\(written)\","))
    }

    // MARK: Secrets

    private static let canary = "3f0a5b7c9d1e2f4a6b8c0d2e4f6a8b0c"

    @Test(
        arguments: [
            ["device": "\(Self.canary, redaction: .hidden)"],
            ["device": "prefix \(Self.canary, redaction: .hidden) suffix"],
            ["device": .attributed(Self.canary, attributes: [Redaction.hidden])],
            ["devices": ["\(Self.canary, redaction: .hidden)", "b"]],
            ["inner": ["device": "\(Self.canary, redaction: .hidden)"]],
            ["token": "\(Self.canary)"],
            ["inner": ["Password": "\(Self.canary)"]],
            ["authorization": ["\(Self.canary)"]],
            ["a": ["b": ["c": ["token": ["d": "\(Self.canary)"]]]]],
        ] as [Logger.Metadata]
    )
    func aCanaryIsNeverWritten(metadata: Logger.Metadata) {
        let line = line("m", metadata)
        #expect(!String(decoding: line.json(), as: UTF8.self).contains(Self.canary))
        #expect(!String(decoding: line.text(), as: UTF8.self).contains(Self.canary))
    }

    @Test func openValuesAreWritten() {
        #expect(json("m", ["app": "\("shop", redaction: .shown)"]) == Self.head + "\"m\",\"app\":\"shop\"}\n")
    }

    /// `printf %s 3f0a5b7c9d1e2f4a6b8c0d2e4f6a8b0c | sha256sum | cut -c1-12`
    @Test func aRedactedTokenShowsOnlyTheBeginningOfItsDigest() {
        let token = RedactedToken(Self.canary)
        #expect("\(token)" == "token:b35e1648a773")
        #expect(
            json("m", ["token": .stringConvertible(token)]) == Self.head + "\"m\",\"token\":\"token:b35e1648a773\"}\n"
        )
    }
}
