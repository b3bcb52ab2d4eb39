import ApusHTTP2
import Testing

@Suite struct ReuseTests {
    @Test(
        "requests by the thousand use the same slots, and every tag is answered once"
    )
    func manyRequests() throws {
        let wire = try Wire(
            client: HTTP2ClientConfiguration(streamsMax: 100),
            server: HTTP2ServerConfiguration(connectionWindow: 1_000_000),
        )
        let total: UInt64 = 20_000
        let other = Samples.make(body: .shared(Array("{}".utf8)))
        var next: UInt64 = 0
        var answered: UInt64 = 0
        var sum: UInt64 = 0
        var slots: Set<Int32> = []
        while answered < total {
            while next < total, wire.submit(next.isMultiple(of: 3) ? other : Samples.template, tag: next) == .submitted
            {
                next += 1
            }
            wire.clientSpeaks()
            for request in wire.requests() {
                wire.server.respond(to: request.streamID, HTTP2Response(status: 200))
            }
            wire.serverSpeaks()
            while let event = wire.client.nextEvent() {
                guard case .answered(let answer) = event else { continue }
                slots.insert(answer.slot)
                answered += 1
                sum += answer.tag
            }
        }
        #expect(sum == total * (total - 1) / 2)
        #expect(slots.count <= 101)
    }

    @Test("a template lives as long as a request needs it, and no longer")
    func templateLifetime() throws {
        let wire = try Wire()
        wire.settle()
        weak var gone: RequestTemplate?
        do {
            let template = Samples.make(body: .shared([1, 2, 3]))
            gone = template
            _ = wire.submit(template, tag: 1)
        }
        #expect(gone != nil)
        wire.settle()
        let request = try #require(wire.requests().first)
        #expect(request.body == [1, 2, 3])
        wire.server.respond(to: request.streamID, HTTP2Response(status: 200))
        wire.settle()
        _ = wire.events()
        // The last one used is kept until another takes its place.
        _ = wire.submit(tag: 2)
        #expect(gone == nil)
    }
}
