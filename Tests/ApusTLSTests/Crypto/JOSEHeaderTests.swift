import ApusTLS
import Testing

@Suite struct JOSEHeaderTests {
    @Test func whatMattersIsRead() throws {
        let header = try JOSEHeader(
            json: Array(
                #" { "kid" : "a\"\u0041\ud83d\ude00\/", "typ":"JWT", "x5c":["a",{"b":[1,-2.5e3,null,true]}], "alg":"ES256" } "#
                    .utf8
            )
        )
        #expect(header.algorithm == "ES256")
        #expect(header.keyID == "a\"A\u{1f600}/")
        #expect(header.type == "JWT")
        #expect(!header.isCritical)
        #expect(try JOSEHeader(json: Array("{}".utf8)).algorithm == nil)
    }

    @Test func demandedExtensionsAreSeen() throws {
        #expect(try JOSEHeader(json: Array(#"{"alg":"ES256","crit":["b64"],"b64":false}"#.utf8)).isCritical)
        let secret = [UInt8](repeating: 1, count: 32)
        let token = try JWS.sign(header: #"{"alg":"HS256","crit":["x"]}"#, payload: "{}", with: .sharedSecret(secret))
        #expect(JWSTests.refusal(token, .hs256, .sharedSecret(secret)) == .tokenMalformed)
    }

    @Test(arguments: [
        "", "[]", "\"alg\"", "{", "{\"alg\"}", "{\"alg\":\"ES256\"", "{\"alg\":\"ES256\"}}", "{\"alg\":\"ES256\",}",
        "{\"alg\":1}", "{\"alg\":\"ES256\",\"alg\":\"none\"}", "{\"al\\u0067\":\"ES256\",\"alg\":\"none\"}",
        "{\"a\":\"\u{1}\"}", "{\"a\":\"\\x\"}", "{\"a\":\"\\ud800\"}", "{\"a\":\"\\ud800\\u0041\"}", "{\"a\":nul}",
        "{\"a\":0x1}", "{\"a\":}", "{\"a\":[1,]}", "{\"a\":{\"b\" 1}}", "{'a':1}", "{\"a\":1} x", "{\"a\":inf}",
    ])
    func anythingElseIsRefused(json: String) {
        #expect(KeyTests.code { _ = try JOSEHeader(json: Array(json.utf8)) } == .tokenMalformed)
    }

    @Test func invalidUTF8IsRefused() {
        let json = Array(#"{"kid":""#.utf8) + [0xff] + Array(#""}"#.utf8)
        #expect(KeyTests.code { _ = try JOSEHeader(json: json) } == .tokenMalformed)
    }

    @Test func nestingAndLengthHaveLimits() {
        func nested(_ depth: Int) -> [UInt8] {
            let open = String(repeating: "[", count: depth)
            return Array(("{\"a\":" + open + String(repeating: "]", count: depth) + "}").utf8)
        }
        #expect(KeyTests.code { _ = try JOSEHeader(json: nested(JOSEHeader.depthMax)) } == nil)
        #expect(KeyTests.code { _ = try JOSEHeader(json: nested(JOSEHeader.depthMax + 1)) } == .tokenMalformed)
        func long(_ count: Int) -> [UInt8] {
            Array(("{\"a\":\"" + String(repeating: "x", count: count - 8) + "\"}").utf8)
        }
        #expect(KeyTests.code { _ = try JOSEHeader(json: long(JOSEHeader.bytesMax)) } == nil)
        #expect(KeyTests.code { _ = try JOSEHeader(json: long(JOSEHeader.bytesMax + 1)) } == .tokenMalformed)
    }
}
