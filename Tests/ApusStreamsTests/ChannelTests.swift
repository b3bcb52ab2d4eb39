import ApusCore
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

@Suite struct ChannelTests {
    private static let route = RouteNumber(3)
    private static let start = UnixMilliseconds(1_800_000_000_000)
    private static let day: Int64 = 24 * 3_600_000

    @Test func `The state of a channel is read as it was written`() {
        let all: [KnownChannel] = [.there(storesLatest: true), .there(storesLatest: false), .gone(since: Self.start)]
        for known in all { #expect(KnownChannel(text: known.text) == known) }
        for text in ["", "2", "gone", "gone:", "gone:soon"] { #expect(KnownChannel(text: text) == nil) }
    }

    @Test func `A list shows which records are outdated, and gone channels stay gone`() {
        let known: [String: KnownChannel] = [
            "there": .there(storesLatest: true), "deleted": .there(storesLatest: false),
            "gone": .gone(since: Self.start), "back": .gone(since: Self.start),
        ]
        #expect(Set(KnownChannel.outdated(known, by: ["there", "back", "new"])) == ["deleted", "back"])
    }

    @Test func `A channel exists, is gone, exists again and is forgotten, each on its own route`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            func known(_ id: String, _ route: RouteNumber = Self.route) async throws -> KnownChannel? {
                try await streams.channels.find(id, of: route, now: Self.start)
            }
            #expect(try await known("a") == nil)
            #expect(try await streams.channels.record(channel: "a", storesLatest: true, of: Self.route))
            #expect(try await streams.channels.record(channel: "b", storesLatest: false, of: Self.route))
            #expect(try await known("a") == .there(storesLatest: true))
            #expect(try await known("b") == .there(storesLatest: false))
            #expect(try await known("a", RouteNumber(5)) == nil)
            try await streams.channels.record(goneChannel: "a", of: Self.route, now: Self.start)
            #expect(try await known("a") == .gone(since: Self.start))
            let all = try await streams.channels.all(of: Self.route, now: Self.start)
            #expect(all == ["a": .gone(since: Self.start), "b": .there(storesLatest: false)])
            #expect(try await streams.channels.record(channel: "a", storesLatest: true, of: Self.route))
            #expect(try await known("a") == .there(storesLatest: true))
            try await streams.channels.record(goneChannel: "b", of: Self.route, now: Self.start)
            try await streams.channels.forget(channels: ["a", "b", "c"], of: Self.route)
            #expect(try await streams.channels.all(of: Self.route, now: Self.start).isEmpty)
            #expect(try await fixture.server.command("KEYS", "*channels*").root.children.compactMap(\.string) == [])
        }
    }

    @Test func `As many channels are recorded as Apple allows, and no more`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            let keys = streams.keys(ofRoute: Self.route)
            let pairs: [RedisArgument] = (0..<StreamLimits.channelsMax).flatMap { number in
                [RedisArgument.text("c\(number)"), RedisArgument.text("0")]
            }
            let fill = RedisCommand("HSET", [.text(keys.channels(Self.route))] + pairs)
            _ = try await fixture.client.send(fill, on: keys.tag)
            #expect(try await !streams.channels.record(channel: "more", storesLatest: true, of: Self.route))
            #expect(try await streams.channels.find("more", of: Self.route, now: Self.start) == nil)
            #expect(
                try await streams.channels.record(channel: "c7", storesLatest: true, of: Self.route),
                "it is known already"
            )
            try await streams.channels.record(goneChannel: "more", of: Self.route, now: Self.start)
            #expect(
                try await streams.channels.find("more", of: Self.route, now: Self.start) == .gone(since: Self.start)
            )
            #expect(try await !streams.channels.record(channel: "more", storesLatest: true, of: Self.route))
            #expect(try await streams.channels.find("more", of: Self.route, now: Self.start) == nil, "gone no more")
            try await streams.channels.record(goneChannel: "c7", of: Self.route, now: Self.start)
            #expect(try await streams.channels.record(channel: "more", storesLatest: true, of: Self.route))
            #expect(
                try await streams.channels.all(of: Self.route, now: Self.start).count == StreamLimits.channelsMax + 1
            )
            let ids = (0..<StreamLimits.channelsMax).map { "c\($0)" }
            try await streams.channels.forget(channels: ids, of: Self.route)
            #expect(try await streams.channels.all(of: Self.route, now: Self.start).count == 1)
        }
    }

    @Test func `The oldest of too many gone channels is forgotten, and so are yesterday's`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            let keys = streams.keys(ofRoute: Self.route)
            let ids = (0..<StreamLimits.channelsGoneMax).map { "c\($0)" }
            let texts: [RedisArgument] = ids.flatMap { id in
                [RedisArgument.text(id), RedisArgument.text("gone:\(Self.start)")]
            }
            let scores: [RedisArgument] = ids.enumerated().flatMap { index, id in
                let since = Self.start.advanced(byMilliseconds: Int64(index))
                return [RedisArgument.text("\(since)"), RedisArgument.text(id)]
            }
            let gone = keys.channels(Self.route).replacing("channels:", with: "channels_gone:")
            let channels = RedisCommand("HSET", [.text(keys.channels(Self.route))] + texts)
            _ = try await fixture.client.send(channels, on: keys.tag)
            _ = try await fixture.client.send(RedisCommand("ZADD", [.text(gone)] + scores), on: keys.tag)
            let later = Self.start.advanced(byMilliseconds: 20_000)
            try await streams.channels.record(goneChannel: "more", of: Self.route, now: later)
            let known = try await streams.channels.all(of: Self.route, now: later)
            #expect(known.count == StreamLimits.channelsGoneMax)
            #expect(known["c0"] == nil && known["c1"] != nil && known["more"] == .gone(since: later))

            let last = later.advanced(byMilliseconds: Self.day - 1)
            #expect(try await streams.channels.find("more", of: Self.route, now: last) == .gone(since: later))
            let next = later.advanced(byMilliseconds: Self.day)
            #expect(try await streams.channels.find("more", of: Self.route, now: next) == nil)
            #expect(try await streams.channels.all(of: Self.route, now: next).isEmpty)
            try await streams.channels.record(goneChannel: "today", of: Self.route, now: next)
            let count = try await fixture.client.send(RedisCommand("ZCARD", .text(gone)), on: keys.tag).root.integer
            #expect(count == Int64(StreamLimits.channelsGoneMax) + 1 - 100, "a call forgets a hundred")
        }
    }
}
