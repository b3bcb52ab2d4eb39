import ApusCommand
import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStreams
import ApusTestKit
import Testing

@Suite(.serialized) struct DeadLetterTests {
    @Test
    func `A command of an unconfigured app is a dead letter, and is delivered when it is replayed after configuration`()
        async throws
    {
        let shop = SimulatedApp(name: "shop", bundleID: "example.shop", keyID: "SHOPKEY001", projectID: "shop-push")
        let news = SimulatedApp(name: "news", bundleID: "example.news", keyID: "NEWSKEY001", projectID: "news-push")
        try await Fleet.with(apps: [shop, news]) { fleet in
            let devices = try await fleet.register(20, app: "news") { _ in ["all"] }
            let feedback = try await fleet.startFeedback()
            let early = try await fleet.start("dispatcher", missing: ["news"])
            try await fleet.send(.devices([devices[0].id]), id: "direct", app: "news") {
                $0.idempotencyKey = "order-17"
            }
            try await fleet.send(.topic("all"), id: "planned", app: "news")
            let dead = DeadLetters(fleet.installation.streams)
            try await eventually("both are dead letters") { try await dead.newest(10).count == 2 }
            var letters = try await dead.newest(10)
            #expect(Set(letters.map(\.letter.send)) == ["direct", "planned"])
            #expect(letters.allSatisfy { $0.letter.cause == .invalid && $0.letter.app == "news" })
            #expect(try await fleet.receipts(of: "direct").map(\.kind) == [.refused])
            // Too early: refused again, as a letter of its own.
            let results = try await dead.replay([letters[0]], by: Operator("test", through: .commandLine))
            #expect(results.map(\.isReplayed) == [true])
            try await eventually("it is a dead letter again") {
                letters = try await dead.newest(10)
                return letters.count == 2
            }
            try await early.terminate()

            let dispatcher = try await fleet.startDispatcher()
            let replayed = try await dead.replay(letters, by: Operator("test", through: .commandLine))
            #expect(replayed.map(\.isReplayed) == [true, true])
            #expect(try await dead.newest(10).isEmpty)
            let ledger = try await fleet.completion(of: "planned", app: "news")
            #expect(ledger.planned == 20 && ledger.total(.accepted) == 20)
            #expect(Comparison(accepted: fleet.accepted(of: "planned"), audience: Set(devices.map(\.token))) == .exact)
            try await eventually("the direct one is told") {
                try await fleet.receipts(of: "direct").last?.kind == .final
            }
            #expect(fleet.accepted(of: "direct") == [devices[0].token: 1])
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A receipt that the webhook does not take counts as a dead letter in the metrics`() async throws {
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let secret = try folder.write("secret", String(repeating: "s3cret-", count: 6))
        try await Fleet.with { fleet in
            let receiver = try await WebhookReceiver.start { _ in .status(503) }
            let url = "http://127.0.0.1:\(receiver.port)/hook"
            let webhook = "{url: \"\(url)\", secret_file: \"\(secret)\", attempts: 1}"
            let feedback = try await fleet.startFeedback(["webhook": webhook])
            let streams = fleet.installation.streams
            let receipt = SendReceipt(id: "final:s", send: "s", app: Fleet.app, kind: .final)
            try await streams.outcomes.write(receipt, replyTo: "", tag: streams.keys(shard: 0).tag)
            let dead = DeadLetters(streams)
            try await eventually("it is a dead letter") { try await dead.newest(10).map(\.letter.send) == ["s"] }
            let sample = "apus_stream_dead_letters_total{stream=\"receipts\",reason=\"poison\"} 1\n"
            try await eventually("it is counted") { try await feedback.get("metrics").body.contains(sample) }
            try await feedback.terminate()
            await receiver.stop()
        }
    }
}
