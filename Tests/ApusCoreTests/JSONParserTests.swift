import ApusCore
import Testing

@Suite("JSON: reading")
struct JSONParserTests {
    private func parse(_ text: String) throws(JSONError) -> JSONValue {
        try JSONValue(parsing: text, bytesMax: 1_024)
    }

    @Test("values of every kind are read")
    func values() throws {
        #expect(try self.parse(" null ") == .null)
        #expect(try self.parse("true") == true)
        #expect(try self.parse("false") == false)
        #expect(try self.parse("-12") == -12)
        #expect(try self.parse("\"a\\u00e9\\ud83d\\ude00\\n\\/\"") == "aé😀\n/")
        #expect(try self.parse("[1, [], {}]") == [1, [], [:]])
        #expect(try self.parse("{\"b\": 1, \"a\": {\"c\": null}}") == ["b": 1, "a": ["c": nil]])
    }

    @Test("members keep their order and numbers their digits")
    func order() throws {
        let text = #"{"z":12345678901234567890123,"a":1.50,"m":-0,"e":1E+2}"#
        #expect(try self.parse(text).text == text)
        #expect(try self.parse(text)["a"]?.double == 1.5)
        #expect(try self.parse(text)["z"]?.int64 == nil)
        #expect(try self.parse("9223372036854775807").int64 == .max)
        #expect(try self.parse("1e999").double == nil)
    }

    @Test(
        "what is not JSON is refused with its place",
        arguments: [
            ("", .unexpectedEnd, 0), ("  ", .unexpectedEnd, 2), ("{", .unexpectedEnd, 1), ("[1", .unexpectedEnd, 2),
            ("\"a", .unexpectedEnd, 2), ("tru", .unexpectedEnd, 3), ("trub", .unexpectedByte, 3),
            ("nil", .unexpectedByte, 1), ("{a:1}", .unexpectedByte, 1), ("{\"a\" 1}", .unexpectedByte, 5),
            ("[1,]", .unexpectedByte, 3), ("{\"a\":1,}", .unexpectedByte, 7), ("[1 2]", .unexpectedByte, 3),
            ("[,1]", .unexpectedByte, 1), ("1 2", .trailingBytes, 2), ("{}x", .trailingBytes, 2),
            ("01", .malformedNumber, 0), ("1.", .malformedNumber, 0), ("-", .malformedNumber, 0),
            ("1e", .malformedNumber, 0), ("1.2.3", .malformedNumber, 0), (".5", .unexpectedByte, 0),
            ("+1", .unexpectedByte, 0), ("NaN", .unexpectedByte, 0), ("\"\\x\"", .malformedEscape, 1),
            ("\"\\ud800\"", .malformedEscape, 1), ("\"\\udc00\"", .malformedEscape, 1),
            ("\"\\ud800\\u0041\"", .malformedEscape, 1), ("\"\\u00g0\"", .malformedEscape, 1),
            ("\"a\nb\"", .controlCharacter, 2), ("\u{feff}1", .unexpectedByte, 0), ("'a'", .unexpectedByte, 0),
            ("{\"a\":1,\"a\":1}", .duplicateName, 7), ("{\"a\":1,\"\\u0061\":1}", .duplicateName, 7),
        ] as [(String, JSONError.Code, Int)]
    )
    func refusals(text: String, code: JSONError.Code, offset: Int) {
        #expect(throws: JSONError(code, at: offset)) { try self.parse(text) }
    }

    @Test("bytes that are not UTF-8 are refused", arguments: [[0xff], [0xc3], [0xc0, 0x80], [0xed, 0xa0, 0x80]])
    func encoding(bytes: [UInt8]) {
        #expect(throws: JSONError(.malformedUTF8, at: 0)) {
            try JSONValue(parsing: [0x22] + bytes + [0x22], bytesMax: 64)
        }
    }

    @Test func `A text has a maximum of values, since each takes memory of its own`() throws {
        let most = "[" + Array(repeating: "1", count: Limits.jsonValuesMax - 1).joined(separator: ",")
        #expect(try JSONValue(parsing: most + "]", bytesMax: 1_000_000).array?.count == Limits.jsonValuesMax - 1)
        #expect(throws: JSONError(.tooManyValues, at: most.utf8.count + 1)) {
            try JSONValue(parsing: most + ",1]", bytesMax: 1_000_000)
        }
        #expect(throws: JSONError(.tooManyValues, at: 8)) {
            try JSONValue(parsing: Array(#"{"a":[1,2,3]}"#.utf8), bytesMax: 100, valuesMax: 3)
        }
    }

    @Test("sixteen levels are read, the seventeenth is refused")
    func depth() throws {
        let deepest = String(repeating: "[", count: 16) + String(repeating: "]", count: 16)
        #expect(try self.parse(deepest).text == deepest)
        #expect(throws: JSONError(.tooDeep, at: 16)) { try self.parse("[" + deepest + "]") }
        #expect(throws: JSONError(.tooDeep, at: 16)) {
            try JSONValue(parsing: String(repeating: "[", count: 1_000_000), bytesMax: 1_000_000)
        }
    }

    @Test("the longest text is read, one byte more is refused")
    func length() throws {
        #expect(try JSONValue(parsing: "12345", bytesMax: 5).int64 == 12_345)
        #expect(throws: JSONError(.tooLong, at: 4)) { try JSONValue(parsing: "12345", bytesMax: 4) }
    }

    @Test("names that look alike but have other bytes are different members")
    func canonicalEquivalence() throws {
        let value = try self.parse("{\"\u{e9}\":1,\"e\u{301}\":2}")
        #expect(value.object?.count == 2)
        #expect(value["e\u{301}"] == 2)
    }

    @Test("random bytes never trap, and what is read is written and read again as the same")
    func fuzz() throws {
        var generator = SeededGenerator(seed: 8_259)
        let alphabet = Array("{}[]\",:\\u00e9tfn-1.e \u{e9}".utf8)
        var read = 0
        for _ in 0..<20_000 {
            let bytes = (0..<Int.random(in: 1...12, using: &generator)).map { _ in
                alphabet[Int.random(in: 0..<alphabet.count, using: &generator)]
            }
            guard let value = try? JSONValue(parsing: bytes, bytesMax: 64) else { continue }
            read += 1
            #expect(try JSONValue(parsing: value.bytes, bytesMax: 256) == value)
        }
        #expect(read > 10)
    }
}
