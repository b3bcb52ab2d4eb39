import ApusCommand
import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTerminal
import ApusTestKit
import Testing

@Suite struct SendControlReportTests {
    private static func with(_ body: (SendStreams, RedisServer) async throws -> Void) async throws {
        try await RedisServer.with { server in
            try await RedisAccess.withClient(server.url) { client in
                try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 4))
            }
            try await RedisAccess.withInstallation(server.url) { try await body($0.streams, server) }
        }
    }

    /// Keeps a send of that app in a shard.
    private static func keep(
        _ send: String,
        of app: String,
        shard: Int,
        _ streams: SendStreams,
        state: String = "running",
    ) async throws {
        let keys = streams.keys(shard: shard)
        _ = try await streams.routes.number(of: try #require(Route("\(app)/apns/production")))
        let command = RedisCommand(
            "HSET",
            [
                .text(keys.send(SendKey(app: app, id: send))), "app", .text(app), "state", .text(state), "planning",
                "0", "planned", "20000",
                "apns/accepted/none", "7500",
            ]
        )
        _ = try await streams.client.send(command, on: keys.tag)
    }

    private static func failure(_ control: SendControlReport, _ command: SendControlCommand) async -> String {
        do {
            return "none: \(try await control.perform(command, by: .shell).line)"
        } catch {
            return "\(error)"
        }
    }

    @Test func `A send is found in any shard and controlled, and its state afterwards is reported`() async throws {
        try await Self.with { streams, _ in
            for shard in 0..<2 {
                try await Self.keep("s\(shard)", of: "shop", shard: shard, streams)
                let control = SendControlReport(streams, app: shard == 0 ? "shop" : nil, send: "s\(shard)")
                #expect(
                    try await control.perform(.pause, by: .shell).line == "s\(shard)  paused  12,500 of 20,000 open"
                )
                let rated = try await control.perform(.rate(1_500), by: .shell)
                #expect(rated.line == "s\(shard)  paused  12,500 of 20,000 open  at most 1,500/s")
                #expect(rated.json["rate_per_second"] == .integer(1_500) && rated.json["open"] == .integer(12_500))
                #expect(try await control.perform(.resume, by: .shell).status.phase == .running)
                #expect(try await control.perform(.cancel, by: .shell).status.phase == .cancelled)
            }
        }
    }

    @Test func `A send that is in two shards, by two idempotency keys, is controlled in both`() async throws {
        try await Self.with { streams, _ in
            for shard in 0..<2 { try await Self.keep("twice", of: "shop", shard: shard, streams) }
            let states = { () async throws -> [SendLedger.State?] in
                var states: [SendLedger.State?] = []
                for shard in 0..<2 {
                    let keys = streams.keys(shard: shard)
                    let key = keys.send(SendKey(app: "shop", id: "twice"))
                    states.append(try await streams.outcomes.ledger(key, tag: keys.tag)?.state)
                }
                return states
            }
            for app in ["shop", nil] {
                let control = SendControlReport(streams, app: app, send: "twice")
                let paused = try await control.perform(.pause, by: .shell)
                #expect(paused.line == "twice  paused  25,000 of 40,000 open")
                #expect(try await states() == [.paused, .paused])
                let rated = try await control.perform(.rate(1_500), by: .shell)
                #expect(rated.line == "twice  paused  25,000 of 40,000 open  at most 3,000/s")
                for command in [SendControlCommand.rate(0), .resume] {
                    _ = try await control.perform(command, by: .shell)
                }
            }
            let control = SendControlReport(streams, app: "shop", send: "twice")
            // One of them has ended before: the other is stopped all the same.
            try await Self.keep("twice", of: "shop", shard: 0, streams, state: "done")
            #expect(try await control.perform(.cancel, by: .shell).status.planned == 20_000)
            #expect(try await states() == [.done, .cancelled])
            #expect(await Self.failure(control, .pause).hasPrefix("twice was cancelled for good"))
        }
    }

    @Test func `A send that cannot be controlled is reported with the reason`() async throws {
        try await Self.with { streams, _ in
            let none = SendControlReport(streams, app: "shop", send: "none")
            #expect(
                await Self.failure(none, .pause).hasPrefix("no dispatcher keeps a send none: check the id and --app.")
            )
            try await Self.keep("over", of: "shop", shard: 0, streams, state: "done")
            let over = SendControlReport(streams, app: nil, send: "over")
            #expect(await Self.failure(over, .cancel) == "over has ended: every recipient has its outcome")
            // One that was cancelled stays so when it has ended.
            try await Self.keep("shut", of: "shop", shard: 1, streams, state: "done")
            let keys = streams.keys(shard: 1)
            let mark = RedisCommand("HSET", .text(keys.send(SendKey(app: "shop", id: "shut"))), "cancelled", "1")
            _ = try await streams.client.send(mark, on: keys.tag)
            let shut = SendControlReport(streams, app: nil, send: "shut")
            #expect(await Self.failure(shut, .cancel) == "shut was cancelled before, and has ended")
            #expect(await Self.failure(shut, .rate(5)).hasPrefix("shut was cancelled for good"))
            #expect(
                try await streams.audit.newest(3).map { "\($0.object) \($0.action) \($0.detail)" } == [
                    "shut send.rate 5 per second; refused: it was cancelled before",
                    "shut send.cancel refused: it was cancelled before", "over send.cancel refused: it had ended",
                ]
            )
            try await Self.keep("gone", of: "shop", shard: 1, streams, state: "cancelled")
            let gone = SendControlReport(streams, app: nil, send: "gone")
            #expect(await Self.failure(gone, .resume).hasPrefix("gone was cancelled for good"))
            try await Self.keep("both", of: "shop", shard: 0, streams)
            try await Self.keep("both", of: "bank", shard: 1, streams)
            let both = SendControlReport(streams, app: nil, send: "both")
            #expect(
                await Self.failure(both, .cancel) == "both is a send of several apps (bank, shop): name one with --app"
            )
            let ledgers = try await streams.control.find(send: "both").map(\.ledger.state)
            #expect(ledgers == [.running, .running])
            #expect(
                try await SendControlReport(streams, app: "bank", send: "both").perform(.cancel, by: .shell).status
                    .phase
                    == .cancelled
            )
        }
    }

    @Test func `A direct send and a refused one are reported by their receipts`() async throws {
        try await Self.with { streams, _ in
            let keys = streams.keys(shard: 1)
            var receipt = SendReceipt(id: "final:d", send: "d", app: "shop", kind: .final)
            try await streams.outcomes.write(receipt, replyTo: "", tag: keys.tag)
            receipt = SendReceipt(id: "refused:r", send: "r", app: "shop", kind: .refused)
            receipt.problem = Problem(code: "expired", detail: "its expiry has passed")
            try await streams.outcomes.write(receipt, replyTo: "", tag: keys.tag)
            let direct = await Self.failure(SendControlReport(streams, app: "shop", send: "d"), .pause)
            #expect(direct == "d has ended: every recipient has its outcome")
            let refused = await Self.failure(SendControlReport(streams, app: "shop", send: "r"), .pause)
            #expect(refused.hasPrefix("r was refused: ") && refused.contains("its expiry has passed"))
        }
    }
}
