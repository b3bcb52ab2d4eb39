import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusTestKit
import Testing

@testable import ApusStreams

/// Tests what an app may have open: sends that have not ended, and the bytes of their commands.
@Suite struct OpenSendLimitTests {
    /// Returns ids whose home is shard 0, in any order that repeats.
    private static func ids(_ count: Int, app: String, _ fixture: StreamsFixture) -> [String] {
        let all = (0...).lazy.map { "s\($0)" }.filter { fixture.streams.home(app: app, $0).tag == fixture.keys.tag }
        return Array(all.prefix(count))
    }

    private static func accept(
        _ id: String,
        app: String = "shop",
        title: String = "Hi",
        limits: OpenSendLimits,
        _ fixture: StreamsFixture,
    ) async throws -> Mailboxes.Admission {
        var command = fixture.command(id: id, title: title)
        command.app = app
        let keys = fixture.streams.home(app: app, id)
        let entry = StreamEntry(stream: keys.mailbox(.bulk), id: "1-1", message: try command.encode())
        return try await fixture.streams.mailboxes.accept(
            command,
            identity: SendIdentity(of: command, source: entry.source),
            routes: [RouteNumber(7)],
            from: entry,
            by: fixture.consumer("me"),
            due: nil,
            limits: limits,
        ).admission
    }

    /// Keeps a direct send of which something is left.
    private static func persist(
        _ id: String,
        title: String = "Hi",
        limits: OpenSendLimits = .none,
        _ fixture: StreamsFixture,
    ) async throws -> Bool {
        let command = fixture.command(id: id, title: title)
        let origin = "\(fixture.keys.mailbox(.express))/1-1"
        return try await fixture.streams.mailboxes.persist(
            command,
            identity: SendIdentity(of: command, source: origin),
            origin: origin,
            recipients: 1,
            batches: [],
            retries: [],
            now: UnixMilliseconds(1),
            limits: limits,
        )
    }

    private static func open(_ fixture: StreamsFixture, app: String = "shop") async throws -> [String?] {
        let command = RedisCommand("HMGET", .text("\(fixture.keys.tag)open:\(app)"), "sends", "bytes")
        return try await fixture.client.send(command, on: fixture.keys.tag).root.children.map(\.string)
    }

    @Test func `One send more than an app may have open is refused, and takes no room from another app`() async throws {
        try await StreamsFixture.with { fixture in
            // Three in each of two shards.
            let limits = OpenSendLimits(sends: 6, bytes: nil)
            let ids = Self.ids(4, app: "shop", fixture)
            for id in ids.prefix(3) { #expect(try await Self.accept(id, limits: limits, fixture) == .new) }
            #expect(try await Self.accept(ids[3], limits: limits, fixture) == .crowded)
            // One that was taken is known when it comes again.
            #expect(try await Self.accept(ids[0], limits: limits, fixture) == .known)
            let other = Self.ids(1, app: "news", fixture)[0]
            #expect(try await Self.accept(other, app: "news", limits: limits, fixture) == .new)
            let command = RedisCommand("EXISTS", .text(fixture.keys.command(SendKey(app: "shop", id: ids[3]))))
            let kept = try await fixture.client.send(command, on: fixture.keys.tag).root.integer
            #expect(kept == 0)
            #expect(try await Self.open(fixture).first == "3")
        }
    }

    @Test func `One byte more than an app's open commands may have is refused`() async throws {
        try await StreamsFixture.with { fixture in
            let ids = Self.ids(3, app: "shop", fixture)
            // A shard takes one command of any size; its share of this is less.
            let limits = OpenSendLimits(sends: nil, bytes: 2)
            let title = String(repeating: "x", count: 4_000)
            var accepted = 0
            for id in (0...).lazy.map({ "b\($0)" }) where fixture.streams.home(app: "shop", id).tag == fixture.keys.tag
            {
                guard try await Self.accept(id, title: title, limits: limits, fixture) == .new else { break }
                accepted += 1
            }
            let bytes = try #require(try await Self.open(fixture).last.flatMap(\.self).flatMap { Int($0) })
            #expect(bytes <= Limits.sendCommandBytesMax && bytes + bytes / accepted > Limits.sendCommandBytesMax)
            // A smaller one may still have room.
            #expect(try await Self.accept(ids[0], title: "", limits: limits, fixture) == .new)
        }
    }

    @Test func `A direct send that is to be kept is refused where its app has as much open as it may`() async throws {
        try await StreamsFixture.with { fixture in
            // Two in each of two shards.
            let limits = OpenSendLimits(sends: 4, bytes: nil)
            let ids = Self.ids(4, app: "shop", fixture)
            #expect(try await Self.accept(ids[0], limits: limits, fixture) == .new)
            #expect(try await Self.persist(ids[1], limits: limits, fixture))
            await #expect(throws: SendNotKeptError(admission: .crowded)) {
                try await Self.persist(ids[2], limits: limits, fixture)
            }
            // A shard takes the bytes of one command of any size.
            let tight = OpenSendLimits(sends: nil, bytes: 1)
            let title = String(repeating: "x", count: 4_000)
            for id in Self.ids(100, app: "shop", fixture).dropFirst(4) {
                guard try await Self.accept(id, title: title, limits: tight, fixture) == .new else { break }
            }
            await #expect(throws: SendNotKeptError(admission: .crowded)) {
                try await Self.persist(ids[2], title: title, limits: tight, fixture)
            }
            let state = RedisCommand("EXISTS", .text(fixture.keys.send(SendKey(app: "shop", id: ids[2]))))
            #expect(try await fixture.client.send(state, on: fixture.keys.tag).root.integer == 0)
            // One that was kept is known when it comes again; one of which something may have gone out has no limits.
            #expect(try await !Self.persist(ids[1], limits: limits, fixture))
            #expect(try await Self.persist(ids[3], fixture))
        }
    }

    @Test func `A send that has ended makes room, and the last one leaves no count`() async throws {
        try await StreamsFixture.with { fixture in
            let limits = OpenSendLimits(sends: 2, bytes: nil)
            let ids = Self.ids(2, app: "shop", fixture)
            #expect(try await Self.accept(ids[0], limits: limits, fixture) == .new)
            #expect(try await Self.accept(ids[1], limits: limits, fixture) == .crowded)
            try await Self.end(ids[0], fixture)
            #expect(try await Self.open(fixture) == [nil, nil])
            #expect(try await Self.accept(ids[1], limits: limits, fixture) == .new)
        }
    }

    /// Ends a send that has no recipients.
    private static func end(_ id: String, _ fixture: StreamsFixture) async throws {
        let (keys, send) = (fixture.keys, SendKey(app: "shop", id: id))
        let planned = RedisCommand("HSET", .text(keys.send(send)), "planning", 0)
        _ = try await fixture.client.send(planned, on: keys.tag)
        let batch = OutcomeBatch(send: id, app: "shop", route: RouteNumber(7), provider: .apns)
        let feedback = StreamConsumer(group: StreamGroup.feedback, name: "me")
        let entry = try await fixture.deliver(try batch.encode(), to: keys.outcomes, consumer: feedback)
        let result = try await fixture.streams.outcomes.apply(
            batch,
            entry: entry,
            by: feedback,
            tag: keys.tag,
            keepMilliseconds: 60_000,
        )
        guard case .final = result else { throw NothingToRead(stream: keys.outcomes) }
    }
}
