import ApusCore
import Testing

@Suite("JSON: writing and merging")
struct JSONWriterTests {
    @Test("what could end a string or break a line is escaped, nothing else")
    func escapes() {
        let text = "\"\\/\n\r\t\u{0}\u{1f}\u{7f}é😀\u{2028}"
        #expect(JSONValue.string(text).text == "\"\\\"\\\\/\\n\\r\\t\\u0000\\u001f\\u007fé😀\u{2028}\"")
    }

    @Test("every character comes back as it was")
    func roundTrip() throws {
        for code in UInt32(0)..<0x3000 {
            guard let scalar = Unicode.Scalar(code) else { continue }
            let value = JSONValue.string(String(Character(scalar)))
            #expect(try JSONValue(parsing: value.bytes, bytesMax: 64) == value)
        }
    }

    @Test("a text cannot break out of its place")
    func injection() throws {
        let hostile = "\"},\"aps\":{\"badge\":1},\"x\":{\""
        let value: JSONValue = ["alert": .string(hostile)]
        let read = try JSONValue(parsing: value.bytes, bytesMax: 256)
        #expect(read.object?.count == 1)
        #expect(read["alert"]?.string == hostile)
    }

    @Test("doubles are written shortest, whole ones without a fraction")
    func numbers() {
        #expect(JSONNumber(0.1)?.text == "0.1")
        #expect(JSONNumber(1.0)?.text == "1")
        #expect(JSONNumber(-3.5)?.text == "-3.5")
        #expect(JSONNumber(Double.infinity) == nil)
        #expect(JSONNumber(Double.nan) == nil)
        #expect(JSONNumber(UInt64.max).text == "18446744073709551615")
    }

    @Test("setting a member replaces it in its place, nil removes it")
    func members() {
        var object: JSONObject = ["a": 1, "b": 2]
        object["a"] = 3
        object["c"] = 4
        object["b"] = nil
        #expect(JSONValue.object(object).text == #"{"a":3,"c":4}"#)
    }

    @Test(
        "RFC 7396 appendix A",
        arguments: [
            (#"{"a":"b"}"#, #"{"a":"c"}"#, #"{"a":"c"}"#), (#"{"a":"b"}"#, #"{"b":"c"}"#, #"{"a":"b","b":"c"}"#),
            (#"{"a":"b"}"#, #"{"a":null}"#, #"{}"#), (#"{"a":"b","b":"c"}"#, #"{"a":null}"#, #"{"b":"c"}"#),
            (#"{"a":["b"]}"#, #"{"a":"c"}"#, #"{"a":"c"}"#), (#"{"a":"c"}"#, #"{"a":["b"]}"#, #"{"a":["b"]}"#),
            (#"{"a":{"b":"c"}}"#, #"{"a":{"b":"d","c":null}}"#, #"{"a":{"b":"d"}}"#),
            (#"{"a":[{"b":"c"}]}"#, #"{"a":[1]}"#, #"{"a":[1]}"#), (#"["a","b"]"#, #"["c","d"]"#, #"["c","d"]"#),
            (#"{"a":"b"}"#, #"["c"]"#, #"["c"]"#), (#"{"a":"foo"}"#, "null", "null"),
            (#"{"a":"foo"}"#, #""bar""#, #""bar""#), (#"{"e":null}"#, #"{"a":1}"#, #"{"e":null,"a":1}"#),
            (#"[1,2]"#, #"{"a":"b","c":null}"#, #"{"a":"b"}"#),
            (#"{}"#, #"{"a":{"bb":{"ccc":null}}}"#, #"{"a":{"bb":{}}}"#),
        ]
    )
    func merge(original: String, patch: String, result: String) throws {
        var value = try JSONValue(parsing: original, bytesMax: 256)
        value.merge(try JSONValue(parsing: patch, bytesMax: 256))
        #expect(value.text == result)
    }
}
