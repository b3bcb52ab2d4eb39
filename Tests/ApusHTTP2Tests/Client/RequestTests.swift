import ApusHTTP2
import Testing

@Suite struct RequestTests {
    @Test("a templated request arrives whole")
    func templated() throws {
        let wire = try Wire()
        wire.settle()
        #expect(wire.submit(tag: 0xff) == .submitted)
        wire.settle()

        let requests = wire.requests()
        let request = try #require(requests.first)
        #expect(requests.count == 1)
        #expect(request.method == "POST")
        #expect(request.value(of: ":scheme") == "https")
        #expect(request.authority == "api.push.apple.com")
        #expect(request.path == "/3/device/" + String(repeating: "ab", count: 32))
        #expect(request.value(of: "apns-id") == "00000000-0000-0001-0000-0000000000ff")
        #expect(request.value(of: "apns-id") == RequestID(high: 1, low: 0xff).description)
        #expect(request.value(of: "authorization") == Samples.authorization?.text)
        #expect(request.value(of: "apns-topic") == "com.example.app")
        #expect(request.fields.count == 10)
        #expect(request.body == Samples.body)

        let isTaken = wire.server.respond(to: request.streamID, HTTP2Response(status: 200))
        #expect(isTaken)
        wire.settle()
        let events = wire.events()
        #expect(events.last == .answered(0xff, status: 200))
        #expect(wire.inFlight == 0)
    }

    @Test("a token stands between the prefix and the suffix of a body")
    func tokenInBody() throws {
        let wire = try Wire()
        let template = Samples.make(
            path: .constant("/v1/projects/p/messages:send"),
            body: .pieces([.bytes(Array(#"{"token":""#.utf8)), .token, .bytes(Array(#"","n":1}"#.utf8))]),
        )
        let result = wire.client.submit(
            template,
            authorization: nil,
            token: Array("abc:DEF-_1".utf8).span,
            id: nil,
            tag: 1,
            deadline: .max,
        )
        #expect(result == .submitted)
        wire.settle()
        let request = try #require(wire.requests().first)
        #expect(request.path == "/v1/projects/p/messages:send")
        #expect(String(decoding: request.body, as: UTF8.self) == #"{"token":"abc:DEF-_1","n":1}"#)
        #expect(request.value(of: "apns-id") == nil)
        #expect(request.value(of: "authorization") == nil)
    }

    @Test(
        "a number stands in each of its holes",
        arguments: [0, 7, 10, 99, 1_000, 2_147_483_647, UInt32.max]
    )
    func numberInBody(_ number: UInt32) throws {
        let wire = try Wire()
        let holes: [RequestTemplate.Piece] = [
            .bytes(Array(#"{"token":""#.utf8)), .token, .bytes(Array(#"","a":"#.utf8)), .number,
            .bytes(Array(#","b":"#.utf8)), .number,
        ]
        for (body, text) in [
            (holes + [.bytes(Array("}".utf8))], #"{"token":"abc","a":\#(number),"b":\#(number)}"#),
            (holes, #"{"token":"abc","a":\#(number),"b":\#(number)"#),
            ([.number], "\(number)"),
        ] {
            let result = wire.client.submit(
                Samples.make(path: .constant("/"), body: .pieces(body)),
                authorization: nil,
                token: Array("abc".utf8).span,
                number: number,
                id: nil,
                tag: 1,
                deadline: .max,
            )
            #expect(result == .submitted)
            wire.settle()
            let request = try #require(wire.requests().last)
            #expect(String(decoding: request.body, as: UTF8.self) == text)
        }
    }

    @Test(
        "a body longer than frame and window arrives whole",
        arguments: [0, 1, 16_379, 16_384, 65_535, 100_000]
    )
    func longBody(count: Int) throws {
        let wire = try Wire(server: HTTP2ServerConfiguration(bodyBytesMax: 300_000))
        let body = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
        let template = Samples.make(
            path: .constant("/"),
            body: .pieces([.bytes(body), .token, .bytes(body.reversed())]),
        )
        let token = Array("token".utf8)
        let first = wire.client.submit(template, authorization: nil, token: token.span, id: nil, tag: 1, deadline: .max)
        #expect(first == .submitted)
        wire.settle()
        let request = try #require(wire.requests().first)
        #expect(request.body == body + token + body.reversed())
    }

    @Test("a plain request arrives whole")
    func plain() throws {
        let wire = try Wire()
        let request = try PlainRequest(
            method: "GET",
            authority: "oauth2.googleapis.com:443",
            path: "/token?x=1",
            headers: [HeaderField("content-type", "application/x-www-form-urlencoded")],
            body: Array("grant_type=x".utf8),
        )
        let result = wire.client.submitPlain(request, tag: 5, deadline: .max)
        #expect(result == .submitted)
        wire.settle()
        let arrived = try #require(wire.requests().first)
        #expect(arrived.method == "GET")
        #expect(arrived.authority == "oauth2.googleapis.com:443")
        #expect(arrived.path == "/token?x=1")
        #expect(arrived.value(of: "content-type") == "application/x-www-form-urlencoded")
        #expect(arrived.body == Array("grant_type=x".utf8))
        let response = try HTTP2Response(
            status: 201,
            headers: [
                HeaderField("apns-channel-id", "Y2g="), HeaderField("retry-after", "30"),
                HeaderField("apns-channel-id", "second"), HeaderField("x-unknown", "1"),
            ],
            body: Array("{}".utf8),
        )
        wire.server.respond(to: arrived.streamID, response)
        wire.settle()
        while let event = wire.client.nextEvent() {
            guard case .answered(let answer) = event else { continue }
            #expect(answer.tag == 5)
            #expect(answer.status == 201)
            #expect(answer.bodyCount == 2)
            let channel = wire.client.value(of: .apnsChannelID, in: answer)
            #expect(channel == "Y2g=")
            let retryAfter = wire.client.value(of: .retryAfter, in: answer)
            #expect(retryAfter == "30")
            let location = wire.client.value(of: .location, in: answer)
            #expect(location == nil)
            let body = wire.client.body(of: answer)
            #expect(body == Array("{}".utf8))
            return
        }
        Issue.record("no answer")
    }

    @Test("every kept header is found by its name")
    func answerFields() throws {
        let wire = try Wire()
        _ = wire.submit(tag: 1)
        wire.settle()
        let request = try #require(wire.requests().first)
        let headers = try HTTP2AnswerField.allCases.map {
            try HeaderField("\($0.name)", "value of \($0.name)")
        }
        wire.server.respond(to: request.streamID, HTTP2Response(status: 400, headers: headers))
        wire.settle()
        var answers = 0
        while let event = wire.client.nextEvent() {
            guard case .answered(let answer) = event else { continue }
            answers += 1
            for field in HTTP2AnswerField.allCases {
                let value = wire.client.value(of: field, in: answer)
                #expect(value == "value of \(field.name)")
            }
        }
        #expect(answers == 1)
    }

    @Test("a body beyond the cap is cut, its stream cancelled, the status told")
    func truncated() throws {
        let wire = try Wire(client: HTTP2ClientConfiguration(answerBodyBytesMax: 1_000))
        for tag: UInt64 in 1...2 { _ = wire.submit(tag: tag) }
        wire.settle()
        for (request, count) in zip(wire.requests(), [1_000, 1_001]) {
            wire.server.respond(
                to: request.streamID,
                HTTP2Response(status: 404, body: [UInt8](repeating: 1, count: count)),
            )
        }
        wire.settle()
        var cut: [Bool] = []
        while let event = wire.client.nextEvent() {
            guard case .answered(let answer) = event else { continue }
            cut.append(answer.isBodyTruncated)
            #expect(answer.status == 404)
            #expect(answer.bodyCount == 1_000)
        }
        #expect(cut == [false, true])
        wire.settle()
        #expect(wire.inFlight == 0)
        #expect(wire.serverStreams == 0)
    }

    @Test("all bodies together stay below the total")
    func totalCap() throws {
        let wire = try Wire(
            client: HTTP2ClientConfiguration(answerBodyBytesMax: 1_000, answerBytesTotalMax: 2_500)
        )
        for tag: UInt64 in 1...4 { _ = wire.submit(tag: tag) }
        wire.settle()
        for request in wire.requests() {
            wire.server.respond(
                to: request.streamID,
                HTTP2Response(status: 500, body: [UInt8](repeating: 1, count: 900))
            )
        }
        wire.settle()
        var kept: [Int] = []
        while let event = wire.client.nextEvent() {
            if case .answered(let answer) = event { kept.append(answer.bodyCount) }
        }
        #expect(kept == [900, 900, 700, 0])
    }

    @Test("an answer before the body is out ends the request and cancels its stream")
    func earlyAnswer() throws {
        var client = try HTTP2ClientSession(configuration: HTTP2ClientConfiguration())
        // No window: the body cannot leave.
        client.receive(Frames.settings(4, 0).span, now: 0)
        _ = client.events()
        let token = Samples.token
        let submission = client.submit(
            Samples.template,
            authorization: nil,
            token: token.span,
            id: nil,
            tag: 1,
            deadline: .max,
        )
        #expect(submission == .submitted)
        _ = client.outbound()
        client.receive(Frames.frame(1, flags: 5, stream: 1, Frames.status200).span, now: 0)
        let events = client.events()
        #expect(events == [.answered(1, status: 200)])
        let outbound = client.outbound()
        #expect(outbound == Frames.frame(3, stream: 1, Frames.bigEndian(HTTP2ErrorCode.cancel.rawValue)))
        let inFlight = client.inFlight
        #expect(inFlight == 0)
    }

    @Test("the peer's windows are obeyed")
    func flowControl() throws {
        let wire = try Wire(server: HTTP2ServerConfiguration(streamWindow: 100))
        wire.settle()
        let template = Samples.make(path: .constant("/"), body: .shared([UInt8](repeating: 7, count: 10_000)))
        for tag: UInt64 in 1...10 { _ = wire.submit(template, tag: tag) }
        wire.settle()
        // The server's engine opens windows as it reads; had we overrun one, it would have closed.
        let requests = wire.requests()
        #expect(requests.count == 10)
        #expect(requests.allSatisfy { $0.body.count == 10_000 })
        #expect(!wire.isServerFinished)
    }
}
