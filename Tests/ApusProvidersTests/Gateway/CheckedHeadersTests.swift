import ApusHTTP2
import Testing

@testable import ApusProviders

/// Tests that each message has its own headers, whatever the last one had.
@Suite struct CheckedHeadersTests {
    @Test func `Each message has its own headers`() throws {
        let known = CheckedHeaders()
        let messages: [[(name: String, value: String)]] = [
            [("apns-topic", "a"), ("apns-priority", "10")],
            [("apns-topic", "a"), ("apns-priority", "10")],
            [("apns-topic", "a"), ("apns-priority", "5")],
            [("apns-topic", "a")],
            [("apns-topic", "a"), ("apns-expiration", "5")],
            [("apns-collapse-id", "a"), ("apns-topic", "a"), ("apns-expiration", "5")],
            [],
        ]
        for headers in messages {
            let found = try known.fields(headers)
            #expect(found.map(\.name) == headers.map(\.name))
            #expect(found.map(\.value.text) == headers.map(\.value))
        }
    }

    @Test func `The same header is checked once`() throws {
        let known = CheckedHeaders()
        let first = try known.fields([("apns-topic", "a"), ("apns-priority", "10")])
        let second = try known.fields([("apns-topic", "a"), ("apns-priority", "5")])
        #expect(first[0].value === second[0].value)
        #expect(first[1].value !== second[1].value)
    }

    @Test func `A header that is refused is not kept`() throws {
        let known = CheckedHeaders()
        _ = try known.fields([("apns-topic", "a")])
        for _ in 0..<2 { #expect(throws: HTTP2Error.self) { try known.fields([("apns-topic", "a\nb")]) } }
        #expect(try known.fields([("apns-topic", "a")])[0].value.text == "a")
    }
}
