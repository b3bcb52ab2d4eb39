import ApusCommand
import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStore
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

    @Test func `A letter that is not there is named, and the others are replayed and removed`() async throws {
        try await Fleet.with { fleet in
            let keys = fleet.installation.streams.keys(shard: 0)
            let problem = Problem(code: "unknown_app", field: "app", detail: "is not configured")
            for number in 1...4 {
                let letter = DeadLetter(
                    stream: keys.mailbox(.bulk),
                    entry: "7-0",
                    cause: .invalid,
                    problem: problem,
                    payload: [1],
                    at: UnixMilliseconds(1_000),
                )
                let message = RedisArgument.bytes(try letter.encode())
                let add = RedisCommand("XADD", .text(keys.dead), .text("\(number)-0"), "m", message)
                _ = try await fleet.client.send(add, on: keys.tag)
            }
            func dead(_ words: String...) throws -> OperatorProgram.Answer {
                try OperatorProgram.run(["dead"] + words + ["--json", "--redis", fleet.redis.url])
            }
            let replay = try dead("replay", "0/1-0", "0/9-0", "0/2-0")
            let results = replay.json?["dead_letters"]?.array?.map { [$0["id"]?.string, $0["replayed"]?.text] }
            #expect(replay.code == 2, "\(replay.talk)")
            #expect(results == [["0/1-0", "true"], ["0/2-0", "true"], ["0/9-0", "false"]])
            let purge = try dead("purge", "0/9-0", "0/3-0", "0/4-0")
            #expect(purge.code == 2 && purge.json?["purged"]?.int64 == 2, "\(purge.talk)")
            #expect(purge.json?["missing"]?.array?.compactMap(\.string) == ["0/9-0"])
            #expect(try dead("purge", "0/9-0").code == 1)
            #expect(try await DeadLetters(fleet.installation.streams).newest(10).isEmpty)
        }
    }

    /// A device remembers the last eight sends that were counted. Only the unit itself tells of an earlier one.
    @Test func `A unit that became a dead letter counts once in a badge when it is replayed`() async throws {
        try await Fleet.with { fleet in
            let (store, app, streams) = (fleet.installation.store, try AppID(Fleet.app), fleet.installation.streams)
            let devices = try await fleet.register(
                2,
                providers: [.apns, .fcm],
                topics: { _ in ["news"] },
                user: { _ in "ann" },
            )
            let phone = try #require(devices.first { $0.provider == .apns })
            let stored = try #require(
                try await store.devices(app, ofUser: try UserID("ann")).first { $0.realm.provider == .apns }
            )
            // The unit of the other route keeps the send open.
            let routes = try await fleet.pauseRoutes(providers: [.apns, .fcm])
            let feedback = try await fleet.startFeedback()
            let first = try await fleet.startDispatcher(lease: "2s")
            try await fleet.send(.topic("news"), id: "first") { $0.notification.badge = .increment(1) }
            let home = streams.home(app: Fleet.app, "first")
            let work = home.work(routes[0], .bulk)
            var entry = ""
            try await eventually("its journal tells that it is counted") {
                let range = RedisCommand("XRANGE", .text(work), "-", "+")
                entry = try await fleet.client.send(range, on: home.tag).root.element(0)?.element(0)?.string ?? ""
                let field = RedisArgument.text("work:\(routes[0]):bulk/\(entry)")
                let journal = RedisCommand("HEXISTS", .text(home.journal), field)
                return try await fleet.client.send(journal, on: home.tag).root.integer == 1
            }
            #expect(try await store.badge(of: stored) == 1)
            await first.kill()
            // As if it had ended others before.
            let claim: [RedisArgument] =
                [.text(work), .text(StreamGroup.dispatcher), "gone", 0, .text(entry), "IDLE", 3_600_000, "RETRYCOUNT"]
                + [.integer(Int64(StreamLimits.deliveriesMax)), "JUSTID"]
            _ = try await fleet.client.send(RedisCommand("XCLAIM", claim), on: home.tag)
            let dispatcher = try await fleet.startDispatcher(lease: "2s")
            let dead = DeadLetters(streams)
            try await eventually("it is a dead letter", timeout: .seconds(60)) {
                try await dead.newest(10).count == 1
            }
            let later = (0..<9).map { "later-\($0)" }
            for send in later {
                try await fleet.send(.devices([phone.id]), id: send, lane: .express) {
                    $0.notification.badge = .increment(1)
                }
            }
            try await eventually("all are counted") { try await store.badge(of: stored) == 10 }
            let letters = try await dead.newest(10)
            let replayed = try await dead.replay(letters, by: Operator("test", through: .commandLine))
            #expect(replayed.map(\.isReplayed) == [true])
            for route in routes { try await streams.routes.control(route, .resume) }
            try await eventually("all are sent", timeout: .seconds(60)) {
                (["first"] + later).allSatisfy { fleet.accepted(of: $0)[phone.ledgerToken] == 1 }
            }
            #expect(try await store.badge(of: stored) == 10)
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
