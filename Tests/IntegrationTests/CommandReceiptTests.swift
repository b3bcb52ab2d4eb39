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

/// Every command ends in a receipt where its publisher looks.
@Suite(.serialized) struct CommandReceiptTests {
    private static let replies = "\(StreamKeys.replyPrefix)shop"

    private static func receipts(_ fleet: Fleet, _ key: String = Self.replies) async throws -> [SendReceipt] {
        let range = RedisCommand("XRANGE", .text(key), "-", "+")
        return try await fleet.client.send(range, on: HashTag(ofKey: key)).root.children.map {
            try SendReceipt.decode($0[1][1].bytes ?? [])
        }
    }

    /// Writes bytes into a mailbox, as any client of Redis may.
    private static func write(_ bytes: [UInt8], _ fleet: Fleet) async throws {
        let keys = fleet.installation.streams.keys(shard: 0)
        let add = RedisCommand("XADD", .text(keys.mailbox(.express)), "*", "m", .bytes(bytes))
        _ = try await fleet.client.send(add, on: keys.tag)
    }

    private static func letters(_ fleet: Fleet) async throws -> [DeadLetter] {
        var letters: [DeadLetter] = []
        for shard in 0..<fleet.installation.keyspace.queueShards {
            let page = try await fleet.installation.streams.deadLetters.page(shard: shard, before: "+")
            letters += page.letters.map(\.letter)
        }
        return letters
    }

    /// Sends to a device that no route leads to, directly and by a plan, and expects both in its history.
    private func checkHistories(_ fleet: Fleet) async throws {
        var registration = DeviceRegistration(
            device: "tester",
            provider: .apns,
            token: String(repeating: "09", count: 32)
        )
        registration.environment = .sandbox
        _ = try await fleet.installation.store.register(try AppID(Fleet.app), registration)
        try await fleet.send(.devices(["tester"]), id: "direct", lane: .express)
        try await fleet.send(.devices(["tester"]), id: "planned", lane: .bulk) {
            $0.notBefore = fleet.clock.now().advanced(byMilliseconds: 200)
        }
        try await eventually("both are in its history", timeout: .seconds(60)) {
            let told = try fleet.apus("device", "history", "--app", Fleet.app, "tester").json
            let ended = (told["events"] as? [[String: Any]] ?? []).filter { $0["event"] as? String == "ended" }
            return Set(ended.compactMap { $0["send"] as? String }) == ["direct", "planned"]
                && ended.allSatisfy { $0["reason"] as? String == "no_route" }
        }
    }

    @Test func `Recipients without a configured route fail at once as no_route, with a receipt`()
        async throws
    {
        try await Fleet.with { fleet in
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher(lease: "60s")
            var sandbox = Address(provider: .apns, token: String(repeating: "07", count: 32))
            sandbox.environment = .sandbox
            var browser = Address(provider: .webpush, token: "https://push.example/x")
            browser.webpushP256DH = Array(repeating: 4, count: 65)
            browser.webpushAuth = Array(repeating: 4, count: 16)
            let targets: [(String, Target)] = [
                ("sandbox", .addresses([sandbox])), ("browser", .addresses([browser])),
                ("both", .addresses([sandbox, browser])),
            ]
            for (id, target) in targets {
                try await fleet.send(target, id: id, lane: .express) { $0.replyTo = Self.replies }
            }
            try await eventually("all are told") { try await Self.receipts(fleet).count == 3 }
            let receipts = try await Self.receipts(fleet)
            #expect(Set(receipts.map(\.send)) == ["sandbox", "browser", "both"])
            for receipt in receipts {
                #expect(receipt.kind == .final && receipt.planned == (receipt.send == "both" ? 2 : 1))
                #expect(receipt.counts.allSatisfy { $0.outcome == .failed && $0.reason == .noRoute })
                #expect(receipt.counts.reduce(0) { $0 + $1.count } == receipt.planned)
            }
            #expect(try await Self.letters(fleet).isEmpty)
            try await self.checkHistories(fleet)
            #expect(try await feedback.metric("apus_feedback_outcomes_total", "outcome=\"failed\"") == 6)
            #expect(try await feedback.metric("apus_feedback_outcome_reasons_total", "reason=\"no_route\"") == 6)
            #expect(try await dispatcher.metric("apus_dispatcher_deliveries_total") == 0)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `Receipts that list recipients have a name each, however many steps plan their send`() async throws {
        try await Fleet.with { fleet in
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher(lease: "60s")
            let app = try AppID(Fleet.app)
            try await fleet.installation.store.load(app, count: 300) { index in
                var registration = DeviceRegistration(
                    device: "d\(index)",
                    provider: .apns,
                    token: String(repeating: "00", count: 29) + "\(100_000 + index)"
                )
                registration.environment = .sandbox
                return registration
            }
            // None of them has a route, and a step plans 128.
            try await fleet.send(.devices((0..<300).map { "d\($0)" }), id: "many") {
                $0.replyTo = Self.replies
                $0.receiptLevel = .recipients
            }
            try await eventually("it has ended") { try await Self.receipts(fleet).contains { $0.kind == .final } }
            let listing = try await Self.receipts(fleet).filter { $0.kind == .recipients }
            #expect(listing.count == 3 && Set(listing.map(\.id)).count == 3)
            #expect(listing.reduce(0) { $0 + $1.recipients.count } == 300)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `An address of another kind than the notification goes to is skipped, and nothing is sent`() async throws
    {
        try await Fleet.with { fleet in
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher(lease: "60s")
            let addresses = [TokenKind.device, .voip].enumerated().map { index, kind in
                var address = Address(provider: .apns, token: String(repeating: "0\(index + 1)", count: 32))
                address.kind = kind
                return address
            }
            for (id, kind) in [("alert", Notification.Kind.alert), ("call", .voip)] {
                try await fleet.send(.addresses(addresses), id: id, lane: .express) {
                    $0.replyTo = Self.replies
                    $0.notification.kind = kind
                }
            }
            // More than are sent directly.
            let many = (0..<600).map { index in
                var address = addresses[index % 2]
                address.token = String(repeating: "00", count: 29) + "\(100_000 + index)"
                return address
            }
            try await fleet.send(.addresses(many), id: "many") { $0.replyTo = Self.replies }
            try await eventually("all are told", timeout: .seconds(60)) {
                try await Self.receipts(fleet).count { $0.kind == .final } == 3
            }
            for receipt in try await Self.receipts(fleet) where receipt.kind == .final {
                let half = receipt.planned / 2
                let counts = receipt.counts.map { "\($0.outcome) \($0.reason) \($0.count)" }.sorted()
                #expect(counts == ["accepted none \(half)", "skipped notMatching \(half)"])
            }
            #expect(fleet.accepted(of: "alert") == [addresses[0].token: 1])
            #expect(fleet.accepted(of: "call") == [addresses[1].token: 1])
            #expect(fleet.accepted(of: "many").count == 300)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test(arguments: [(title: "The same", kind: "duplicate"), (title: "Another", kind: "conflict")])
    func `A direct send with something left, whose id another send took meanwhile, is answered as that says`(
        title: String,
        kind: String,
    ) async throws {
        try await Fleet.with { fleet in
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher(lease: "60s")
            let address = Address(provider: .apns, token: String(repeating: "01", count: 32))
            var plan = FaultPlan()
            (plan.apns.unavailable, plan.apns.delayMilliseconds) = (1, 3_000)
            fleet.simulator.setFaults(plan)
            try await fleet.send(.addresses([address]), id: "code", lane: .express) {
                $0.notification.title = "The same"
                $0.replyTo = Self.replies
            }
            try await eventually("it is on its way") { fleet.simulator.ledger.snapshot.count > 0 }
            // A failover has forgotten the first one, say, and its publisher has published again.
            var other = fleet.command(.addresses([address]), id: "code")
            other.notification.title = title
            other.replyTo = Self.replies
            let isKept = try await fleet.installation.streams.mailboxes.persist(
                other,
                identity: SendIdentity(of: other, source: "{q1}in:express/9-9"),
                origin: "{q1}in:express/9-9",
                recipients: 1,
                batches: [],
                retries: [],
                now: fleet.clock.now(),
            )
            #expect(isKept)
            try await eventually("the publisher is told", timeout: .seconds(60)) {
                try await Self.receipts(fleet).contains { $0.kind == .refused }
            }
            let receipt = try #require(try await Self.receipts(fleet).first { $0.kind == .refused })
            #expect(receipt.send == "code" && receipt.problem?.code == kind)
            #expect(try await fleet.ledger(of: "code")?.planned == 1)
            #expect(try await dispatcher.metric("apus_dispatcher_commands_total", "result=\"\(kind)\"") == 1)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A command that cannot be decoded or breaks a rule is refused in its publisher's receipts`() async throws
    {
        try await Fleet.with { fleet in
            let dispatcher = try await fleet.startDispatcher()
            var command = fleet.command(.devices(["d"]), id: "whole")
            command.replyTo = Self.replies
            // Behind the head: a second target, a text with a NUL, and the end of the message in the middle of a field.
            let head = try command.encode()
            try await Self.write(head + [0x1a, 0x00], fleet)
            try await Self.write(head + [0x22, 0x03, 0x0a, 0x01, 0x00], fleet)
            try await Self.write(head + [0x22, 0x7f], fleet)
            // A rule that the schema does not have.
            command.id = "rule"
            command.target = .condition("((")
            try await Self.write(try command.encode(), fleet)
            try await eventually("all are told") { try await Self.receipts(fleet).count == 4 }
            let receipts = try await Self.receipts(fleet)
            #expect(receipts.allSatisfy { $0.kind == .refused && $0.app == Fleet.app && $0.problem != nil })
            #expect(receipts.map(\.send).sorted() == ["rule", "whole", "whole", "whole"])
            #expect(Set(receipts.map(\.id)).count == 4)
            try await eventually("each is a dead letter") { try await Self.letters(fleet).count == 4 }
            // No receipts go to a key of another kind, or to one that is not a publisher's.
            command.replyTo = "\(Self.replies):text"
            let set = RedisCommand("SET", .text(command.replyTo), "x")
            _ = try await fleet.client.send(set, on: HashTag(ofKey: command.replyTo))
            command.id = "astray"
            try await Self.write(try command.encode(), fleet)
            command.replyTo = "elsewhere"
            try await Self.write(try command.encode(), fleet)
            try await eventually("they are told in the shard's own stream") {
                try await fleet.receipts(of: "astray").count == 2
            }
            try await dispatcher.terminate()
        }
    }

    @Test func `A command that is given up after too many deliveries is refused in its publisher's receipts`()
        async throws
    {
        try await Fleet.with { fleet in
            var command = fleet.command(.devices(["d"]), id: "poison")
            command.replyTo = Self.replies
            try await Self.write(try command.encode(), fleet)
            // Five owners have had it, and ended.
            let keys = fleet.installation.streams.keys(shard: 0)
            let mailbox = keys.mailbox(.express)
            let group = StreamGroup.dispatcher
            _ = try await fleet.redis.command("XGROUP", "CREATE", .text(mailbox), .text(group), "0")
            let order: [RedisArgument] = ["GROUP", .text(group), "gone", "STREAMS", .text(mailbox), ">"]
            let read = try await fleet.client.send(RedisCommand("XREADGROUP", order), on: keys.tag)
            let id = try #require(read.root[0][1][0][0].string)
            let count = Int64(StreamLimits.deliveriesMax)
            let claim: [RedisArgument] =
                [.text(mailbox), .text(group), "gone", 0, .text(id), "IDLE", 3_600_000, "RETRYCOUNT"]
                + [.integer(count), "JUSTID"]
            _ = try await fleet.client.send(RedisCommand("XCLAIM", claim), on: keys.tag)
            let dispatcher = try await fleet.startDispatcher(lease: "1s")
            try await eventually("it is told", timeout: .seconds(60)) { try await Self.receipts(fleet).count == 1 }
            let receipt = try #require(try await Self.receipts(fleet).first)
            #expect(receipt.kind == .refused && receipt.send == "poison" && receipt.problem?.code == "poison")
            var letters: [DeadLetter] = []
            try await eventually("it is a dead letter") {
                letters = try await Self.letters(fleet)
                return !letters.isEmpty
            }
            #expect(letters.map(\.cause) == [.poison] && letters.map(\.send) == ["poison"])
            #expect(letters.map(\.app) == [Fleet.app])
            try await eventually("nothing is left but the letter") {
                try await fleet.remainingEntries().keys.allSatisfy { $0.contains("}dead") }
            }
            try await dispatcher.terminate()
        }
    }

    @Test func `A command that comes too late has one end, whoever had it before`() async throws {
        try await Fleet.with { fleet in
            let keys = fleet.installation.streams.keys(shard: 0)
            let (mailbox, group) = (keys.mailbox(.express), StreamGroup.dispatcher)
            _ = try await fleet.redis.command("XGROUP", "CREATE", .text(mailbox), .text(group), "0", "MKSTREAM")
            for id in ["late", "taken"] {
                var command = fleet.command(.devices(["d"]), id: id)
                command.replyTo = Self.replies
                command.notification.expiry = .at(fleet.clock.now().advanced(byMilliseconds: -1_000))
                try await Self.write(try command.encode(), fleet)
                // An owner has read it, and ended.
                let order: [RedisArgument] = ["GROUP", .text(group), "gone", "STREAMS", .text(mailbox), ">"]
                let read = try await fleet.client.send(RedisCommand("XREADGROUP", order), on: keys.tag)
                let entry = try #require(read.root[0][1][0][0].string)
                let idle: [RedisArgument] = [
                    .text(mailbox), .text(group), "gone", 0, .text(entry), "IDLE", 3_600_000, "RETRYCOUNT", 1, "JUSTID",
                ]
                _ = try await fleet.client.send(RedisCommand("XCLAIM", idle), on: keys.tag)
                guard id == "taken" else { continue }
                let origin = "\(mailbox)/\(entry)"
                let isKept = try await fleet.installation.streams.mailboxes.persist(
                    command,
                    identity: SendIdentity(of: command, source: origin),
                    origin: origin,
                    recipients: 1,
                    batches: [],
                    retries: [],
                    now: fleet.clock.now(),
                )
                #expect(isKept)
            }
            let dispatcher = try await fleet.startDispatcher(lease: "1s")
            try await eventually("both have ended", timeout: .seconds(60)) {
                try await fleet.client.send(RedisCommand("XLEN", .text(mailbox)), on: keys.tag).root.integer == 0
            }
            let receipts = try await Self.receipts(fleet)
            #expect(receipts.map(\.send) == ["late"] && receipts.first?.kind == .refused)
            #expect(receipts.first?.problem?.code == "expired")
            try await dispatcher.terminate()
        }
    }

    @Test
    func `A direct send whose outcomes cannot be written goes out once and is given up in its publisher's receipts`()
        async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(1, providers: [.apns])
            for shard in 0..<fleet.installation.keyspace.queueShards {
                let keys = fleet.installation.streams.keys(shard: shard)
                _ = try await fleet.client.send(RedisCommand("SET", .text(keys.outcomes), "x"), on: keys.tag)
            }
            let dispatcher = try await fleet.startDispatcher(lease: "2s")
            try await fleet.send(.devices([devices[0].id]), id: "login", lane: .express) { $0.replyTo = Self.replies }
            try await eventually("it is told", timeout: .seconds(120)) { try await !Self.receipts(fleet).isEmpty }
            let receipt = try #require(try await Self.receipts(fleet).first)
            #expect(receipt.kind == .refused && receipt.problem?.code == "poison")
            try await eventually("it is a dead letter") {
                try await Self.letters(fleet).map(\.send) == ["login"]
            }
            // It does not come back: more than a lease.
            try await Task.sleep(for: .seconds(4))
            #expect(fleet.accepted(of: "login") == [devices[0].token: 1])
            try await dispatcher.terminate()
        }
    }

    @Test func `A planned send whose outcomes cannot be written goes out once, and its units do not come back`()
        async throws
    {
        var faults = FaultPlan(seed: 1)
        // The outcomes are made unwritable between the plan and the answers.
        faults.apns.delayMilliseconds = 3_000
        try await Fleet.with(faults: faults) { fleet in
            let devices = try await fleet.register(3, providers: [.apns], topics: { _ in ["news"] })
            let dispatcher = try await fleet.startDispatcher(lease: "2s")
            try await fleet.send(.topic("news"), id: "news")
            try await eventually("it is planned") {
                try await fleet.ledger(of: "news").map { !$0.isPlanning && $0.planned == 3 } ?? false
            }
            for shard in 0..<fleet.installation.keyspace.queueShards {
                let keys = fleet.installation.streams.keys(shard: shard)
                _ = try await fleet.client.send(RedisCommand("SET", .text(keys.outcomes), "x"), on: keys.tag)
            }
            try await eventually("all are sent to") { fleet.accepted(of: "news").count == devices.count }
            try await eventually("the unit is given up", timeout: .seconds(120)) {
                try await fleet.unfinishedEntries().keys.allSatisfy { $0.hasSuffix("}outcomes") }
            }
            // It does not come back: more than a lease.
            try await Task.sleep(for: .seconds(4))
            #expect(fleet.accepted(of: "news") == Dictionary(uniqueKeysWithValues: devices.map { ($0.token, 1) }))
            #expect(dispatcher.log.contains("gave up a unit whose outcomes cannot be written"))
            // Nobody is left whom a replay could send to.
            #expect(try await Self.letters(fleet).isEmpty)
            try await dispatcher.terminate()
        }
    }

    @Test func `A device whose record cannot be read is skipped, and every other recipient gets the message`()
        async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(200, providers: [.apns], user: { $0 < 3 ? "ann" : "" })
            let (store, app) = (fleet.installation.store, try AppID(Fleet.app))
            let place = try #require(try await store.get(app, try DeviceID(devices[1].id))).reference
            let (partition, ordinal) = (Int(place.partition), Int(place.ordinal))
            let slab = store.keys.slab(app, Realm(.apns, .production), partition, ordinal / 64)
            let command = RedisCommand("HSET", .text(slab), .integer(ordinal % 64), "short")
            _ = try await fleet.client.send(command, on: store.keys.tag(partition))
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            let few = devices[0..<3].map(\.id)
            try await fleet.send(.devices(few), id: "devices", lane: .express) { $0.replyTo = Self.replies }
            try await fleet.send(.users(["ann"]), id: "users", lane: .express) { $0.replyTo = Self.replies }
            try await fleet.send(.devices(devices.map(\.id)), id: "planned") { $0.replyTo = Self.replies }
            try await eventually("all are told") {
                try await Self.receipts(fleet).count { $0.kind == .final } == 3
            }
            for receipt in try await Self.receipts(fleet) where receipt.kind == .final {
                let counts = receipt.counts.map { "\($0.outcome) \($0.reason) \($0.count)" }.sorted()
                #expect(counts == ["accepted none \(receipt.planned - 1)", "skipped malformed 1"], "\(receipt.send)")
                #expect(receipt.planned == (receipt.send == "planned" ? 200 : 3))
                #expect(fleet.accepted(of: receipt.send)[devices[1].token] == nil)
            }
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A duplicate is told although its reply_to names a key that takes no receipts`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(1, providers: [.apns])
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            let text = "\(Self.replies):text"
            _ = try await fleet.client.send(RedisCommand("SET", .text(text), "x"), on: HashTag(ofKey: text))
            var command = fleet.command(.devices([devices[0].id]), id: "twice")
            command.idempotencyKey = "order-1"
            command.replyTo = text
            for _ in 0..<3 { try await Self.write(try command.encode(), fleet) }
            try await eventually("all are told in the shard's own stream") {
                try await fleet.receipts(of: "twice").count == 3
            }
            let receipts = try await fleet.receipts(of: "twice")
            #expect(Set(receipts.map(\.kind)) == [.final, .refused])
            #expect(receipts.compactMap(\.problem?.code) == ["duplicate", "duplicate"])
            #expect(Set(receipts.map(\.id)).count == 3, "each tells of a command of its own")
            #expect(fleet.accepted(of: "twice") == [devices[0].token: 1])
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
