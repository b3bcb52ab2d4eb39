import ApusCore
import ApusMessages
import ApusRedis
import ApusTestKit
import Testing

@testable import ApusStreams

/// Leases on a server whose clock has gone back.
@Suite struct ClockStepTests {
    /// The checksum at the end of a `DUMP`: CRC-64 with Jones' polynomial.
    private static func checksum(_ bytes: some Sequence<UInt8>) -> UInt64 {
        bytes.reduce(0) { sum, byte in
            (0..<8).reduce(sum ^ UInt64(byte)) { sum, _ in sum & 1 == 1 ? sum >> 1 ^ 0x95ac_9329_ac4b_c9b5 : sum >> 1 }
        }
    }

    private static func littleEndian(_ number: UInt64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
    }

    /// Writes an entry's last delivery an hour into the future, as if the clock had been there then.
    ///
    /// - Parameter wasAsked: true when somebody asked for the work of others meanwhile.
    private static func renewInAnHour(_ entry: StreamEntry, wasAsked: Bool, _ fixture: StreamsFixture) async throws {
        let (client, tag) = (fixture.client, fixture.keys.tag)
        let dump = try await client.send(RedisCommand("DUMP", .text(entry.stream)), on: tag).root.bytes ?? []
        let parts = entry.id.split(separator: "-").compactMap { UInt64($0) }
        let name = parts.flatMap { Self.littleEndian($0).reversed() }
        var payload = Array(dump.dropLast(8))
        // In the pending entries list: the entry's id, then the time of its delivery in eight bytes.
        let places = payload.indices.dropLast(24).filter { Array(payload[$0..<$0 + 16]) == name }
        let hour: UInt64 = 3_600_000
        var count = 0
        for place in places {
            let bytes = payload[place + 16..<place + 24]
            let time = bytes.reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            guard time >= parts[0], time < parts[0] + hour else { continue }
            payload.replaceSubrange(place + 16..<place + 24, with: Self.littleEndian(time + hour))
            count += 1
        }
        #expect(count == 1)
        let restored = payload + Self.littleEndian(Self.checksum(payload))
        let restore = RedisCommand("RESTORE", .text(entry.stream), 0, .bytes(restored), "REPLACE")
        _ = try await client.send(restore, on: tag)
        guard wasAsked else { return }
        let asked = RedisCommand(
            "HSET",
            .text(tag.key("claims")),
            "dispatcher/asked",
            .integer(Int64(parts[0] + hour))
        )
        _ = try await client.send(asked, on: tag)
    }

    @Test(arguments: [true, false])
    func `Entries of a dead owner are taken over leases after the clock went back, not when it has caught up`(
        wasAsked: Bool
    ) async throws {
        try await StreamsFixture.with { fixture in
            let keys = fixture.keys
            let streams = [keys.work(RouteNumber(1), .bulk), keys.work(RouteNumber(2), .bulk)]
            var entries: [StreamEntry] = []
            for stream in streams {
                let entry = try await fixture.deliver([1], to: stream, consumer: fixture.consumer("dead"))
                try await Self.renewInAnHour(entry, wasAsked: wasAsked, fixture)
                entries.append(entry)
            }
            // One stream is asked for at first, and the other later.
            for (number, stream) in streams.enumerated() {
                var taken: [StreamEntry] = []
                try await eventually("it is taken over", timeout: .seconds(30)) {
                    let claims = try await fixture.streams.entries.claim(
                        [.init(stream)],
                        by: fixture.consumer("successor"),
                        tag: keys.tag,
                        leaseMilliseconds: 300
                    )
                    taken += claims[0].entries
                    return !taken.isEmpty
                }
                #expect(taken.map(\.id) == [entries[number].id] && taken.map(\.deliveries) == [2])
            }
        }
    }

    @Test func `Receipts of direct sends are kept after the clock went back by days`() async throws {
        try await StreamsFixture.with { fixture in
            let (client, keys, me) = (fixture.client, fixture.keys, fixture.consumer("me"))
            let mailbox = keys.mailbox(.express)
            // The stream goes on from the last id that it gave out.
            let ahead = RedisArgument.text("\(SystemClock().now().value + 4 * 86_400_000)-1")
            for change in [
                RedisCommand("XADD", .text(keys.outcomes), ahead, "m", ""),
                RedisCommand("XDEL", .text(keys.outcomes), ahead),
            ] {
                _ = try await client.send(change, on: keys.tag)
            }
            let reader = StreamReader(client: client, tag: keys.tag, consumer: me)
            try await reader.ensure([mailbox])
            for _ in 0..<3 {
                _ = try await client.send(RedisCommand("XADD", .text(mailbox), "*", "m", "x"), on: keys.tag)
            }
            let calls = try await reader.read(mailbox, count: 3).map { entry in
                let receipt = SendReceipt(id: "final:\(entry.id)", send: entry.id, app: "shop", kind: .final)
                var batch = OutcomeBatch(send: entry.id, app: "shop", route: RouteNumber(1), provider: .apns)
                batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
                return FinishSendCall(
                    keys: [mailbox],
                    consumer: me,
                    entry: entry.name,
                    receipt: try receipt.encode(),
                    outcomes: [try batch.encode()],
                )
            }
            // One by itself, and two together.
            #expect(try await client.call(calls[0], on: keys.tag).root.integer == 1)
            #expect(try await fixture.streams.mailboxes.finish(Array(calls[1...]), tag: keys.tag) == [true, true])
            #expect(try await fixture.length(keys.receipts) == 3)
        }
    }

    @Test func `A retry waits as long as it was to when the clock goes back, and a scheduled send for its time`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let (client, keys) = (fixture.client, fixture.keys)
            func send(_ command: RedisCommand) async throws -> RESPNode {
                try await client.send(command, on: keys.tag).root
            }
            let now = try await send(RedisCommand("TIME")).element(0)?.string.flatMap { Int64($0) } ?? 0
            let hour: Int64 = 3_600_000
            let ahead = now * 1_000 + hour
            // Of a clock that was an hour ahead: a retry in ten minutes, one that is due, and a send that begins in ten minutes.
            let scores: [(id: String, at: Int64)] = [
                ("demo/s/{q0}work:1:bulk/1-0/1/1/5", ahead + 600_000), ("demo/s/{q0}work:1:bulk/1-0/1/2/5", 0),
                ("demo/s/plan/1", ahead + 600_000),
            ]
            for (id, at) in scores {
                _ = try await send(RedisCommand("ZADD", .text(keys.due), .integer(at), .text(id)))
            }
            // So many sends begin before the retry that its page has no room for it.
            let sooner = (0..<10_000).flatMap { number -> [RedisArgument] in
                [.integer(ahead + 300_000), .text("demo/sooner-\(number)/plan/1")]
            }
            _ = try await send(RedisCommand("ZADD", [.text(keys.due)] + sooner))
            let read = RedisCommand("HSET", .text(keys.claims), "read_at", .integer(ahead))
            _ = try await send(read)
            let streams = [Entries.ClaimRequest(keys.work(RouteNumber(1), .bulk))]
            for group in ["dispatcher", "feedback"] {
                let consumer = StreamConsumer(group: group, name: "c")
                _ = try await fixture.streams.entries.claim(
                    streams,
                    by: consumer,
                    tag: keys.tag,
                    leaseMilliseconds: 300
                )
            }
            func score(_ index: Int) async throws -> Int64? {
                let question = RedisCommand("ZSCORE", .text(keys.due), .text(scores[index].id))
                return try await send(question).string.flatMap { Int64($0) }
            }
            // The hour less the seconds since then.
            let retry = try #require(try await score(0))
            #expect((now * 1_000 + 600_000...now * 1_000 + 660_000).contains(retry))
            #expect(try await score(1) == 0)
            #expect(try await score(2) == ahead + 600_000)
        }
    }
}
