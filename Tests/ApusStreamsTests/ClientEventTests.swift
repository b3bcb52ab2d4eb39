import ApusCore
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTestKit
import Foundation
import Testing

@Suite struct ClientEventTests {
    /// Delivers an event as feedback gets it, and counts it.
    private static func count(
        _ fixture: StreamsFixture,
        _ send: String,
        id: String,
        app: String = "shop",
        device: String = "phone",
    ) async throws -> ClientEvents.CountResult {
        let event = ClientEvent(
            id: id,
            app: app,
            device: device,
            send: send,
            kind: .opened,
            at: UnixMilliseconds(1)
        )
        let (keys, me) = (fixture.keys, fixture.consumer("one"))
        let entry = try await fixture.deliver(try event.encode(), to: keys.events, consumer: me)
        return try await fixture.streams.events.count(event, entry: entry, by: me, tag: keys.tag)
    }

    @Test func `A send's ids never meet the counts of another whose name begins like it`() async throws {
        try await StreamsFixture.with { fixture in
            let first = try await Self.count(fixture, "camp", id: "1")
            #expect(first == .counted)
            for bucket in 0..<StreamLimits.eventIDBuckets {
                let ids = RedisCommand("EXISTS", .text(fixture.keys.tag.key("event_counts:shop:camp:\(bucket)")))
                #expect(try await fixture.client.send(ids, on: fixture.keys.tag).root.integer == 0)
            }
            #expect(try await Self.count(fixture, "camp", id: "1") == .known)
            #expect(try await fixture.length(fixture.keys.events) == 0)
        }
    }

    @Test func `A device reports a limited number of ids for a send, and each once`() async throws {
        try await StreamsFixture.with { fixture in
            let most = StreamLimits.eventIDsPerDeviceMax
            func opened() async throws -> String? {
                let key = fixture.keys.eventCounts("shop/camp")
                let command = RedisCommand("HGET", .text(key), "unknown/opened")
                return try await fixture.client.send(command, on: fixture.keys.tag).root.string
            }
            for round in 0..<2 {
                for id in 0..<most {
                    let expected: ClientEvents.CountResult = round == 0 ? .counted : .known
                    #expect(try await Self.count(fixture, "camp", id: "\(id)") == expected)
                }
                #expect(try await Self.count(fixture, "camp", id: "one more") == .full)
            }
            #expect(try await Self.count(fixture, "camp", id: "0", device: "tablet") == .counted)
            #expect(try await Self.count(fixture, "other", id: "0") == .counted)
            let count = try await opened()
            #expect(count == "\(most + 1)")
        }
    }

    @Test func `Counts of a send are kept for as long as its ledger`() async throws {
        try await StreamsFixture.with { fixture in
            let (keys, day) = (fixture.keys, Int64(24 * 3_600_000))
            func life() async throws -> Int64 {
                let command = RedisCommand("PTTL", .text(keys.eventCounts("shop/camp")))
                return try await fixture.client.send(command, on: keys.tag).root.integer ?? 0
            }
            #expect(try await Self.count(fixture, "camp", id: "1") == .counted)
            #expect((7 * day...8 * day).contains(try await life()))
            let ledger = RedisCommand("HSET", .text(keys.send("shop/camp")), "state", "done")
            _ = try await fixture.client.send(ledger, on: keys.tag)
            let kept = RedisCommand("PEXPIRE", .text(keys.send("shop/camp")), .integer(30 * day))
            _ = try await fixture.client.send(kept, on: keys.tag)
            #expect(try await Self.count(fixture, "camp", id: "2") == .counted)
            #expect((29 * day...30 * day).contains(try await life()))
        }
    }

    @Test func `A limited number of unknown sends begin to be counted in an hour`() async throws {
        try await StreamsFixture.with { fixture in
            let tag = fixture.keys.tag
            #expect(try await Self.count(fixture, "begun", id: "1") == .counted)
            // This hour's and the next one's, should it begin meanwhile.
            let hour = Int(Date().timeIntervalSince1970 / 3_600)
            for hour in hour...hour + 1 {
                let begun = RedisCommand("SET", .text(fixture.keys.tag.key("event_sends:shop:\(hour)")), "5000")
                _ = try await fixture.client.send(begun, on: tag)
            }
            #expect(try await Self.count(fixture, "invented", id: "1") == .full)
            // Names that one app invents cost no other.
            #expect(try await Self.count(fixture, "invented", id: "1", app: "news") == .counted)
            #expect(try await Self.count(fixture, "begun", id: "2") == .counted)
            let ledger = RedisCommand("HSET", .text(fixture.keys.send("shop/planned")), "state", "running")
            _ = try await fixture.client.send(ledger, on: tag)
            #expect(try await Self.count(fixture, "planned", id: "1") == .counted)
            #expect(try await fixture.length(fixture.keys.events) == 0)
        }
    }
}
