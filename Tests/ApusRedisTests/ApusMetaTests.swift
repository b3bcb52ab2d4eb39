import ApusRedis
import ApusTestKit
import Testing

@Suite("apus:meta")
struct ApusMetaTests {
    private let small = Keyspace(queueShards: 2, devicePartitions: 4)

    @Test("it is written once, read by all, and never changed")
    func lifecycle() async throws {
        try await withClient { _, client in
            #expect(try await ApusMeta.read(from: client) == nil)
            await expectError(.notInitialized) { try await ApusMeta.check(self.small, on: client) }
            try await ApusMeta.create(self.small, on: client)
            try await ApusMeta.create(self.small, on: client)
            try await ApusMeta.check(self.small, on: client)
            #expect(try await ApusMeta.read(from: client)?.keyspace == self.small)
            let error = await expectError(.layoutMismatch) { try await ApusMeta.check(Keyspace(), on: client) }
            #expect(error?.message.contains("2 queue shards and 4 device partitions") == true)
            await expectError(.layoutMismatch) { try await ApusMeta.create(Keyspace(), on: client) }
            #expect(try await ApusMeta.read(from: client)?.keyspace == self.small)
        }
    }

    @Test("two that initialise at once do not mix their sizes")
    func race() async throws {
        try await withClient { _, client in
            let keyspaces = [(1, 2), (2, 4), (4, 8), (8, 16)].map { Keyspace(queueShards: $0, devicePartitions: $1) }
            let winners = await withTaskGroup { group in
                for keyspace in keyspaces {
                    group.addTask { (try? await ApusMeta.create(keyspace, on: client)) != nil ? keyspace : nil }
                }
                return await group.reduce(into: []) { $0 += [$1].compactMap(\.self) }
            }
            #expect(winners.count == 1)
            let found = try await ApusMeta.read(from: client)
            #expect(found?.keyspace == winners.first)
        }
    }

    @Test(
        "one of another layout, or damaged, is refused",
        arguments: [("version", "2"), ("queue_shards", "0"), ("device_partitions", "1025"), ("queue_shards", "many")],
    )
    func foreign(field: String, value: String) async throws {
        try await withClient { server, client in
            try await ApusMeta.create(self.small, on: client)
            _ = try await server.command("HSET", "apus:meta", .text(field), .text(value))
            await expectError(.layoutMismatch) { try await ApusMeta.check(self.small, on: client) }
        }
    }
}
