import ApusCore
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
    private static func renewInAnHour(_ entry: StreamEntry, _ fixture: StreamsFixture) async throws {
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
        let asked = RedisCommand(
            "HSET",
            .text(tag.key("claims")),
            "dispatcher/asked",
            .integer(Int64(parts[0] + hour))
        )
        _ = try await client.send(asked, on: tag)
    }

    @Test func `Entries of a dead owner are taken over a lease after the clock went back, not when it has caught up`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let keys = fixture.keys
            let streams = [keys.work(RouteNumber(1), .bulk), keys.work(RouteNumber(2), .bulk)]
            var entries: [StreamEntry] = []
            for stream in streams {
                let entry = try await fixture.deliver([1], to: stream, consumer: fixture.consumer("dead"))
                try await Self.renewInAnHour(entry, fixture)
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
}
