import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTestKit
import Foundation
import Testing

/// `kill -9` for feedback, with outcomes or receipts in hand.
@Suite(.serialized) struct FeedbackKillTests {
    @Test func `Each batch is delivered three times and feedback killed in between: ledger and store are exact`()
        async throws
    {
        try await Fleet.with(dead: 0.1) { fleet in
            let devices = try await fleet.register(4_000)
            let dead = devices.filter { fleet.simulator.isDead($0.token, provider: $0.provider) }
            #expect(dead.count > 100)
            let dispatcher = try await fleet.startDispatcher()
            try await fleet.send(.everyone([]), id: "s")
            let keys = fleet.installation.streams.home(app: Fleet.app, "s")
            func redis(_ name: String, _ arguments: RedisArgument...) async throws -> Int64? {
                try await fleet.client.send(RedisCommand(name, arguments), on: keys.tag).root.integer
            }
            // Everybody was asked, and no unit is in hand: all outcomes are written, and nobody has read one.
            try await eventually("all outcomes are written", timeout: .seconds(120)) {
                let asked = fleet.simulator.ledger.snapshot.count
                guard asked >= devices.count else { return false }
                return try await fleet.unfinishedEntries().filter {
                    !$0.key.contains("outcomes") && !$0.key.contains("sends")
                }
                .values.allSatisfy { $0 == 0 }
            }
            try await dispatcher.terminate()
            // Delivered to two who died before they could do anything.
            let group = StreamGroup.feedback
            _ = try await fleet.client.send(
                RedisCommand("XGROUP", "CREATE", .text(keys.outcomes), .text(group), "0", "MKSTREAM"),
                on: keys.tag
            )
            let read = RedisCommand(
                "XREADGROUP",
                "GROUP",
                .text(group),
                "ghost-1",
                "COUNT",
                "10000",
                "STREAMS",
                .text(keys.outcomes),
                ">"
            )
            let entries = try await fleet.client.send(read, on: keys.tag).root[0][1].children
                .compactMap { $0[0].string }
            #expect(entries.count >= 8)
            let ghost: [RedisArgument] = [.text(keys.outcomes), .text(group), "ghost-2", "0"]
            let ids = entries.map { RedisArgument.text($0) }
            _ = try await fleet.client.send(RedisCommand("XCLAIM", ghost + ids), on: keys.tag)

            let first = try await fleet.startFeedback(lease: "400ms")
            try await eventually("a part is counted", timeout: .seconds(120)) {
                try await fleet.ledger(of: "s").map { $0.counts.reduce(0) { $0 + $1.count } > 0 } ?? false
            }
            await first.kill()
            let second = try await fleet.startFeedback(lease: "400ms")
            let ledger = try await fleet.completion(of: "s")
            #expect(ledger.planned == UInt64(devices.count) && ledger.total(.open) == 0)
            #expect(ledger.total(.unregistered) == UInt64(dead.count))
            #expect(ledger.total(.accepted) == UInt64(devices.count - dead.count))
            let check = try await StoreCheck.run(fleet.installation.store, AppID(Fleet.app))
            #expect(check.problems == [] && check.deviceCount == devices.count - dead.count)
            try await eventually("nothing is left", timeout: .seconds(60)) {
                try await redis("XLEN", .text(keys.outcomes)) == 0
            }
            #expect(Set(try await fleet.receipts(of: "s").filter { $0.kind == .final }.map(\.id)).count == 1)
            #expect(try await redis("XLEN", .text(keys.dead)) == 0)
            try await second.terminate()
        }
    }

    @Test func `Feedback is killed while it posts to a webhook: every receipt arrives, a repeat with the same id`()
        async throws
    {
        let folder = FileManager.default.temporaryDirectory.appending(path: "apus-hook-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let secret = folder.appending(path: "secret").path(percentEncoded: false)
        try Data(String(repeating: "s3cret-", count: 6).utf8).write(to: URL(filePath: secret))
        try await Fleet.with { fleet in
            let devices = try await fleet.register(10)
            let dispatcher = try await fleet.startDispatcher()
            // The fourth and the ninth request are never answered: feedback is killed with them in hand.
            let silent: Set<Int> = [3, 8]
            let receiver = try await WebhookReceiver.start { silent.contains($0) ? .silence : .status(200) }
            let batch = 5
            let url = "http://127.0.0.1:\(receiver.port)/hook"
            let webhook = "{url: \"\(url)\", secret_file: \"\(secret)\", batch: \(batch), timeout: 2s}"
            var feedback = try await fleet.startFeedback(["webhook": webhook])
            let sends = (0..<100).map { "s\($0)" }
            for (index, send) in sends.enumerated() {
                try await fleet.send(.devices([devices[index % devices.count].id]), id: send, lane: .express)
            }
            for number in silent.sorted() {
                try await eventually("a request is in hand", timeout: .seconds(120)) {
                    receiver.requests.count > number
                }
                await feedback.kill()
                feedback = try await fleet.startFeedback(["webhook": webhook])
            }
            func arrived(_ member: String) throws -> [[String]] {
                try receiver.requests.map { request in
                    let json = try JSONValue(parsing: request.body, bytesMax: 1 << 20)
                    return (json["receipts"]?.array ?? []).compactMap { $0[member]?.string }
                }
            }
            try await eventually("every receipt arrived", timeout: .seconds(180)) {
                // Reports without an answer may not have arrived.
                let answered = try arrived("send").enumerated().filter { !silent.contains($0.offset) }
                return Set(answered.flatMap(\.element)) == Set(sends)
            }
            let all = try arrived("id").flatMap(\.self)
            #expect(Set(all).count == sends.count && all.allSatisfy { $0.hasPrefix("final:") })
            // Repeated is at most what each shard had in hand at a kill.
            let inHand = batch * fleet.installation.keyspace.queueShards
            #expect(all.count >= sends.count + 1 && all.count <= sends.count + silent.count * inHand * 2)
            for shard in 0..<fleet.installation.keyspace.queueShards {
                let keys = fleet.installation.streams.keys(shard: shard)
                let dead = try await fleet.client.send(RedisCommand("XLEN", .text(keys.dead)), on: keys.tag)
                #expect(dead.root.integer == 0)
            }
            await receiver.stop()
            for service in [dispatcher, feedback] { try await service.terminate() }
        }
    }
}
