import ApusCore
import ApusHTTP2
import Testing

/// Tests the requests that are submitted.
@Suite struct InputTests {
    @Test("header values: visible ASCII arrives unchanged, all else is refused")
    func headerValues() throws {
        for byte in UInt8.min...UInt8.max {
            let bytes: [UInt8] = [0x61, byte, 0x62]
            guard let text = String(validating: bytes, as: UTF8.self) else { continue }
            let isAllowed = (0x20...0x7e).contains(byte) || byte == 0x09
            let value = try? HeaderValue(text)
            #expect((value != nil) == isAllowed, "byte \(byte)")
            if let value { #expect(value.text == text) }
        }
        #expect(throws: HTTP2Error.self) { try HeaderValue("a\r\nx: y") }
        #expect(throws: HTTP2Error.self) { try HeaderValue("é") }
        #expect(throws: HTTP2Error.self) { try HeaderValue(" a") }
        #expect(throws: HTTP2Error.self) { try HeaderValue("a\t") }
        let longest = String(repeating: "a", count: HTTP2Limits.headerValueBytesMax)
        #expect(try HeaderValue(longest).count == longest.utf8.count)
        #expect(throws: HTTP2Error.self) { try HeaderValue(longest + "a") }
    }

    @Test("header names", arguments: ["", "Apns-Topic", ":path", "a b", "a:", "te", "connection", "é", "a\u{0}"])
    func headerNames(name: String) throws {
        #expect(throws: HTTP2Error.self) { try HeaderField(name, "x") }
    }

    @Test("templates refuse what could be smuggled")
    func templates() throws {
        func make(
            authority: String = "a.example",
            path: RequestTemplate.Path = .constant("/"),
            headers: [HeaderField] = [],
            body: RequestTemplate.Body = .none,
        ) throws -> RequestTemplate {
            try RequestTemplate(authority: authority, path: path, headers: headers, body: body)
        }
        #expect(throws: Never.self) { try make() }
        for authority in ["", "a b", "user@host", "a/b", "a\r\n"] {
            #expect(throws: HTTP2Error.self) { try make(authority: authority) }
        }
        for path in ["", "x", "/a b", "/a\n", "/#x", "/é"] {
            #expect(throws: HTTP2Error.self) { try make(path: .constant(path)) }
        }
        let field = try HeaderField("apns-topic", "x")
        #expect(throws: HTTP2Error.self) { try make(headers: [field, field]) }
        for name in ["authorization", "apns-id"] {
            let field = try HeaderField(name, "x")
            #expect(throws: HTTP2Error.self) { try make(headers: [field]) }
        }
        let many = try (0...HTTP2Limits.headersMax).map { try HeaderField("x-\($0)", "1") }
        #expect(throws: Never.self) { try make(headers: Array(many.dropLast())) }
        #expect(throws: HTTP2Error.self) { try make(headers: many) }
        let most = HTTP2Limits.requestBodyBytesMax - HTTP2Limits.tokenBytesMax
        #expect(throws: Never.self) { try make(body: .shared([UInt8](repeating: 0, count: most))) }
        #expect(throws: HTTP2Error.self) { try make(body: .shared([UInt8](repeating: 0, count: most + 1))) }
        // The longest number counts.
        let around = [UInt8](repeating: 0, count: most - RequestTemplate.numberDigitsMax)
        #expect(throws: Never.self) { try make(body: .pieces([.bytes(around), .number])) }
        #expect(throws: HTTP2Error.self) { try make(body: .pieces([.bytes(around), .number, .bytes([0])])) }
    }

    @Test("tokens: hexadecimal takes any bytes, text its alphabet in a path and what JSON takes in a body")
    func tokens() throws {
        let wire = try Wire()
        func submit(_ template: RequestTemplate, _ token: [UInt8]) -> HTTP2Submission {
            wire.client.submit(template, authorization: nil, token: token.span, id: nil, tag: 1, deadline: .max)
        }
        let hexadecimal = Samples.make(body: .none)
        let text = Samples.make(path: .token(prefix: "/x/", form: .text), body: .none)
        let body = Samples.make(path: .constant("/"), body: .pieces([.token]))
        #expect(submit(hexadecimal, [0, 0x0a, 0xff]) == .submitted)
        #expect(submit(hexadecimal, []) == .invalidToken)
        wire.settle()
        for request in wire.requests() { wire.server.respond(to: request.streamID, HTTP2Response(status: 200)) }
        for template in [text, body] {
            for byte in UInt8.min...UInt8.max {
                let character = Character(UnicodeScalar(byte))
                let isAllowed =
                    template === body
                    ? (0x21...0x7e).contains(byte) && !"\"\\".contains(character)
                    : byte < 0x80 && (character.isLetter || character.isNumber || "_:.~-".contains(character))
                let expected: HTTP2Submission = isAllowed ? .submitted : .invalidToken
                #expect(submit(template, [0x61, byte]) == expected, "byte \(byte)")
                wire.settle()
                for request in wire.requests() {
                    if template === body { #expect(request.body == [0x61, byte]) }
                    wire.server.respond(to: request.streamID, HTTP2Response(status: 200))
                }
                wire.settle()
                _ = wire.events()
            }
            if template === text { #expect(submit(template, Array("..".utf8)) == .invalidToken) }
            let longest = [UInt8](repeating: 0x61, count: HTTP2Limits.tokenBytesMax)
            #expect(submit(template, longest + [0x61]) == .invalidToken)
            #expect(submit(template, longest) == .submitted)
            wire.settle()
            #expect(wire.requests().count == 1)
        }
        let long = [UInt8](repeating: 0, count: HTTP2Limits.pathBytesMax / 2 + 1)
        #expect(submit(hexadecimal, long) == .invalidToken)
    }

    @Test("request ids are written as their text says")
    func ids() {
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<100 {
            let id = RequestID(high: generator.next(), low: generator.next())
            let hexadecimal = Hexadecimal.encode(
                (0..<16).map { UInt8(truncatingIfNeeded: ($0 < 8 ? id.high : id.low) >> UInt64((7 - $0 % 8) * 8)) }
            )
            #expect(id.description.filter { $0 != "-" } == hexadecimal)
            #expect(id.description.split(separator: "-").map(\.count) == [8, 4, 4, 4, 12])
        }
    }
}
