import ApusCore
import ApusMessages
import ApusRedis
import ApusTestKit
import Testing

@testable import ApusStreams

@Suite struct EntriesTests {
    @Test func `Entries of several streams are renewed by one call, and handed back by one`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = (1...3).map { fixture.keys.work(RouteNumber($0), .bulk) }
            let (me, other) = (fixture.consumer("one"), fixture.consumer("two"))
            var owned: [Entries.Owned] = []
            for stream in streams {
                for number in 0..<2 {
                    let entry = try await fixture.deliver([UInt8(number)], to: stream, consumer: me)
                    owned.append(Entries.Owned(stream: stream, id: entry.id, deliveriesMax: number == 0 ? 0 : nil))
                }
            }
            let tag = fixture.keys.tag
            #expect(try await fixture.streams.entries.renew(owned, by: me, tag: tag) == 6)
            #expect(try await fixture.streams.entries.renew(owned, by: other, tag: tag) == 0)
            try await fixture.streams.entries.handBack(owned, by: me, tag: tag)
            for stream in streams { #expect(try await fixture.idle(stream) == 2) }
        }
    }

    @Test func `Entries that others own before one are seen until they are acknowledged`() async throws {
        try await StreamsFixture.with { fixture in
            let (stream, tag, entries) = (fixture.keys.register, fixture.keys.tag, fixture.streams.entries)
            let (me, other) = (fixture.consumer("one"), fixture.consumer("two"))
            let first = try await fixture.deliver([1], to: stream, consumer: other)
            let own = try await fixture.deliver([2], to: stream, consumer: me)
            let last = try await fixture.deliver([3], to: stream, consumer: me)
            func isPending(from id: String = "-", before entry: StreamEntry) async throws -> Bool {
                try await entries.areOthersPending(from: id, before: entry, besides: me)
            }
            let places = [try await isPending(before: first), try await isPending(before: own)]
            #expect(places == [false, true])
            #expect(try await isPending(before: last))
            // One's own does not count, and neither does what is before the beginning.
            #expect(try await isPending(from: own.id, before: last) == false)
            #expect(try await isPending(from: last.id, before: own) == false)
            #expect(try await entries.areOthersPending(from: own.id, before: last, besides: other))
            try await entries.acknowledge([first], by: other, tag: tag)
            #expect(try await isPending(before: last) == false)
            _ = try await fixture.client.send(RedisCommand("DEL", .text(stream)), on: tag)
            #expect(try await isPending(before: last) == false)
        }
    }

    @Test func `Entries that were removed unread are counted once, also when more are gone than are left`() async throws
    {
        try await StreamsFixture.with { fixture in
            let (stream, tag, me) = (fixture.keys.receipts, fixture.keys.tag, fixture.consumer("one"))
            let reader = StreamReader(client: fixture.client, tag: tag, consumer: me)
            try await reader.ensure([stream])
            func add(_ count: Int) async throws {
                for _ in 0..<count {
                    _ = try await fixture.client.send(RedisCommand("XADD", .text(stream), "*", "m", "x"), on: tag)
                }
            }
            func keep(_ count: Int) async throws {
                let trim = RedisCommand("XTRIM", .text(stream), "MAXLEN", .integer(count))
                _ = try await fixture.client.send(trim, on: tag)
            }
            func removed() async throws -> Int {
                try await fixture.streams.entries.removedUnread(from: stream, of: me.group)
            }
            #expect(try await removed() == 0)
            try await add(20)
            #expect(try await reader.read(stream, count: 5).count == 5)
            #expect(try await removed() == 0)
            try await keep(3)
            #expect(try await removed() == 12)
            #expect(try await removed() == 0)
            // Nothing is read twice for it, and nothing left out.
            #expect(try await reader.read(stream, count: 1).count == 1)
            #expect(try await removed() == 0)
            #expect(try await reader.read(stream, count: 10).count == 2)
            try await add(4)
            #expect(try await removed() == 0)
            try await keep(2)
            #expect(try await removed() == 2)
            #expect(try await removed() == 0)
            #expect(try await reader.read(stream, count: 10).count == 2)
            #expect(try await removed() == 0)
        }
    }

    @Test func `An entry that Redis has forgotten takes no other away that has its id`() async throws {
        try await StreamsFixture.with { fixture in
            let (streams, keys, me) = (fixture.streams, fixture.keys, fixture.consumer("one"))
            var event = ClientEvent(
                id: "e",
                app: "shop",
                device: "phone",
                send: "s",
                kind: .opened,
                at: UnixMilliseconds(1)
            )
            event.provider = .apns
            let forgotten = try await fixture.deliver([1], to: keys.outcomes, consumer: me)
            _ = try await fixture.server.command("DEL", .text(keys.outcomes))
            let add = RedisCommand("XADD", .text(keys.outcomes), .text(forgotten.id), "m", .bytes([2]))
            _ = try await fixture.client.send(add, on: keys.tag)
            let other = try await fixture.read(keys.outcomes, me)
            #expect(other.id == forgotten.id)

            #expect(try await streams.entries.acknowledge([forgotten], by: me, tag: keys.tag) == [])
            let isWritten = try await streams.deadLetters.write(
                forgotten,
                by: me,
                tag: keys.tag,
                letter: nil,
                receipt: nil
            )
            #expect(!isWritten)
            #expect(try await streams.events.count(event, entry: forgotten, by: me, tag: keys.tag) == .lost)
            #expect(try await streams.entries.acknowledge([other], by: me, tag: keys.tag) == [other.id])
        }
    }
}

extension StreamsFixture {
    /// Returns how many entries of a stream have been idle for longer than a minute, so that any consumer takes them over.
    fileprivate func idle(_ stream: String) async throws -> Int {
        let command = RedisCommand(
            "XPENDING",
            .text(stream),
            .text(StreamGroup.dispatcher),
            "IDLE",
            "60000",
            "-",
            "+",
            "10"
        )
        return try await self.client.send(command, on: self.keys.tag).root.count
    }
}
