import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

/// Commands in mailboxes of other shards than their home, as publishers write them that know no hash.
@Suite(.serialized) struct ForeignMailboxTests {
    /// The receipts of a send that its home shard has.
    private static func receipts(at home: StreamKeys, of send: String, _ fleet: Fleet) async throws -> [SendReceipt] {
        let range = RedisCommand("XRANGE", .text(home.receipts), "-", "+")
        let entries = try await fleet.client.send(range, on: home.tag).root.children
        return try entries.map { try SendReceipt.decode($0[1][1].bytes ?? []) }.filter { $0.send == send }
    }

    @Test func `The receipt of a command from another shard's mailbox is at its home, whatever the outcome`()
        async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(20) { _ in ["news"] }
            let streams = fleet.installation.streams
            func write(_ target: Target, _ id: String, change: (inout SendCommand) -> Void = { _ in }) async throws {
                var command = fleet.command(target, id: id)
                change(&command)
                let home = streams.home(app: Fleet.app, SendIdentity(of: command, source: "").home)
                let shards = (0..<fleet.installation.keyspace.queueShards).map { streams.keys(shard: $0) }
                let foreign = try #require(shards.first { $0 != home })
                let add = RedisCommand(
                    "XADD",
                    .text(foreign.mailbox(.express)),
                    "*",
                    "m",
                    .bytes(try command.encode())
                )
                _ = try await fleet.client.send(add, on: foreign.tag)
            }
            func receipts(_ id: String, key: String? = nil) async throws -> [SendReceipt] {
                try await Self.receipts(at: streams.home(app: Fleet.app, key ?? id), of: id, fleet)
            }
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            try await write(.devices([devices[0].id]), "direct")
            try await write(.topic("news"), "planned")
            try await write(.devices([devices[0].id]), "keyed") { $0.idempotencyKey = "order-17" }
            try await eventually("three are told at their homes", timeout: .seconds(60)) {
                let told = [
                    try await receipts("direct"), try await receipts("planned"),
                    try await receipts("keyed", key: "order-17"),
                ]
                return told.allSatisfy { $0.contains { $0.kind == .final } }
            }
            let direct = try #require(try await receipts("direct").first { $0.kind == .final })
            #expect(direct.planned == 1 && direct.counts.map(\.outcome) == [.accepted])
            #expect(fleet.accepted(of: "direct") == [devices[0].token: 1])
            #expect(fleet.accepted(of: "keyed") == [devices[0].token: 1])

            // The same key again, with the same body under another id, and with another body.
            try await write(.devices([devices[0].id]), "again") { $0.idempotencyKey = "order-17" }
            try await write(.devices([devices[1].id]), "clash") { $0.idempotencyKey = "order-17" }
            try await eventually("both are refused at their home", timeout: .seconds(60)) {
                let again = try await receipts("again", key: "order-17").map { $0.problem?.code }
                let clash = try await receipts("clash", key: "order-17").map { $0.problem?.code }
                return again == ["duplicate"] && clash == ["conflict"]
            }
            #expect(fleet.accepted(of: "again").isEmpty && fleet.accepted(of: "clash").isEmpty)
            try await eventually("nothing is left", timeout: .seconds(60)) {
                try await fleet.unfinishedEntries().isEmpty
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
