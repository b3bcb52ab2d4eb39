import ApusCore
import ApusMessages
import ApusRedis
import ApusTestKit
import Testing

@testable import ApusStreams

/// The window in which the same key is the same send.
@Suite struct IdempotencyTests {
    private static let hour: Int64 = 3_600_000

    private static func publish(
        _ id: String,
        key: String = "",
        _ fixture: StreamsFixture
    ) async throws -> Mailboxes.PublishResult {
        try await fixture.streams.mailboxes.publish(fixture.command(id: id, key: key), lane: .bulk)
    }

    private static func isNew(_ result: Mailboxes.PublishResult) -> Bool {
        if case .new = result { true } else { false }
    }

    /// Ids whose home is the first shard.
    private static func ids(_ count: Int, _ fixture: StreamsFixture) -> [String] {
        Array(
            (0..<4 * count + 100).map { "s\($0)" }.filter { fixture.streams.home(app: "shop", $0) == fixture.keys }
                .prefix(count)
        )
    }

    /// Moves the current part of the window so far into the past (or, below zero, the future), as a clock that steps does.
    private static func step(by milliseconds: Int64, _ fixture: StreamsFixture) async throws {
        let (client, keys) = (fixture.client, fixture.keys)
        let begun = try await client.send(RedisCommand("HGET", .text(keys.idempotency), "begun_at"), on: keys.tag).root
        let moved = (Int64(begun.string ?? "") ?? 0) - milliseconds
        let set = RedisCommand("HSET", .text(keys.idempotency), "begun_at", .integer(moved))
        _ = try await client.send(set, on: keys.tag)
    }

    private static func lifetimes(_ fixture: StreamsFixture) async throws -> [Int64] {
        let (client, keys) = (fixture.client, fixture.keys)
        let names = try await client.send(RedisCommand("KEYS", .text(keys.tag.key("idem:*"))), on: keys.tag).root
            .children
        var lifetimes: [Int64] = []
        for name in names.compactMap(\.string).sorted() {
            lifetimes.append(try await client.send(RedisCommand("PTTL", .text(name)), on: keys.tag).root.integer ?? 0)
        }
        return lifetimes
    }

    @Test func `A clock that goes back, however far, forgets no key`() async throws {
        try await StreamsFixture.with { fixture in
            let ids = Self.ids(3, fixture)
            #expect(Self.isNew(try await Self.publish(ids[0], fixture)))
            try await Self.step(by: 5 * Self.hour, fixture)
            #expect(Self.isNew(try await Self.publish(ids[1], fixture)))
            // Back over a boundary between two parts, and a day more.
            for back in [-5 * Self.hour, -24 * Self.hour] {
                try await Self.step(by: back, fixture)
                for id in ids.prefix(2) { #expect(try await Self.publish(id, fixture) == .duplicate(send: id)) }
            }
            #expect(Self.isNew(try await Self.publish(ids[2], fixture)))
            for id in ids { #expect(try await Self.publish(id, fixture) == .duplicate(send: id)) }
            // A key that was put after the step has its whole window.
            #expect(try await Self.lifetimes(fixture).allSatisfy { $0 > 24 * Self.hour })
        }
    }

    @Test func `A key is kept for a window, and for less than a sixth of it longer`() async throws {
        try await StreamsFixture.with { fixture in
            let ids = Self.ids(10, fixture)
            #expect(Self.isNew(try await Self.publish(ids[0], fixture)))
            for index in 1...6 {
                try await Self.step(by: 4 * Self.hour, fixture)
                #expect(Self.isNew(try await Self.publish(ids[index], fixture)))
                #expect(try await Self.publish(ids[0], fixture) == .duplicate(send: ids[0]))
            }
            try await Self.step(by: 4 * Self.hour, fixture)
            #expect(Self.isNew(try await Self.publish(ids[7], fixture)))
            #expect(Self.isNew(try await Self.publish(ids[0], fixture)))
        }
    }

    @Test func `Keys keep their time to live also where all others were forgotten`() async throws {
        try await StreamsFixture.with { fixture in
            let ids = Self.ids(2, fixture)
            let mailboxes = fixture.streams.mailboxes
            guard case .new(_, let entry) = try await Self.publish(ids[0], fixture) else {
                throw NothingToRead(stream: "")
            }
            let origin = "\(fixture.keys.mailbox(.bulk))/\(entry)"
            try await mailboxes.forgetKey(of: fixture.command(id: ids[0]), origin: origin)
            #expect(Self.isNew(try await Self.publish(ids[0], fixture)))
            #expect(Self.isNew(try await Self.publish(ids[1], fixture)))
            let kept = try await Self.lifetimes(fixture)
            #expect(kept.count == 1 && kept.allSatisfy { $0 > 24 * Self.hour })
        }
    }

    @Test func `The window can be set, and determines how long keys are kept`() async throws {
        try await StreamsFixture.with { fixture in
            let ids = Self.ids(2, fixture)
            try await fixture.streams.mailboxes.setIdempotencyWindow(milliseconds: Self.hour, in: fixture.keys.tag)
            #expect(Self.isNew(try await Self.publish(ids[0], fixture)))
            let kept = try await Self.lifetimes(fixture)
            #expect(kept.count == 1 && kept.allSatisfy { (Self.hour...Self.hour * 7 / 6).contains($0) })
            try await Self.step(by: Self.hour / 6, fixture)
            #expect(Self.isNew(try await Self.publish(ids[1], fixture)))
            #expect(try await Self.lifetimes(fixture).count == 2)
        }
    }

    @Test func `A longer window counts for the keys that are remembered, too`() async throws {
        try await StreamsFixture.with { fixture in
            let (ids, mailboxes) = (Self.ids(2, fixture), fixture.streams.mailboxes)
            try await mailboxes.setIdempotencyWindow(milliseconds: Self.hour, in: fixture.keys.tag)
            #expect(Self.isNew(try await Self.publish(ids[0], fixture)))
            try await mailboxes.setIdempotencyWindow(milliseconds: 24 * Self.hour, in: fixture.keys.tag)
            let kept = try await Self.lifetimes(fixture)
            #expect(kept.count == 1 && kept.allSatisfy { $0 > 24 * Self.hour })
            // The same period goes on, and a shorter window shortens nothing.
            #expect(Self.isNew(try await Self.publish(ids[1], fixture)))
            try await mailboxes.setIdempotencyWindow(milliseconds: Self.hour, in: fixture.keys.tag)
            #expect(try await Self.lifetimes(fixture).allSatisfy { $0 > 24 * Self.hour })
        }
    }

    @Test(arguments: [
        "{q41}in:bulk/1700000000000-17", "{q1}in:express/1-1", "{q41}in:bulk/1-9999999999999", "elsewhere/x",
    ])
    func `The origin of a command is returned unchanged, wherever it was written`(origin: String) async throws {
        try await StreamsFixture.with { fixture in
            let command = fixture.command(id: "code", key: "login")
            let mailboxes = fixture.streams.mailboxes
            #expect(try await fixture.admit(command, origin) == .new)
            #expect(try await fixture.admit(command, origin) == .new)
            let other = try await fixture.admit(command, "{q9}in:bulk/5-5")
            #expect(other == .duplicate(send: "code"))
            // By its id it is another name than by its key.
            let named = fixture.command(id: "named")
            #expect(try await fixture.admit(named, origin) == .new)
            #expect(try await mailboxes.origin(app: "shop", send: "named") == origin)
            #expect(try await mailboxes.origin(app: "shop", send: "code") == nil)
            #expect(try await mailboxes.origin(app: "news", send: "named") == nil)
        }
    }

    @Test func `A key costs less than a hundred bytes`() async throws {
        try await StreamsFixture.with { fixture in
            let ids = (0..<4_000).map { "6f1c2f0e-8a5b-4c5e-9d7a-\($0 + 100_000_000_000)" }
            for id in ids { _ = try await Self.publish(id, fixture) }
            var bytes: Int64 = 0
            for shard in 0..<2 {
                let tag = fixture.streams.keys(shard: shard).tag
                let usage = RedisCommand("MEMORY", "USAGE", .text(tag.key("idem:1")), "SAMPLES", "0")
                bytes += try await fixture.client.send(usage, on: tag).root.integer ?? 0
            }
            #expect(bytes > 0 && bytes / Int64(ids.count) < 100, "\(bytes / Int64(ids.count))")
        }
    }
}
