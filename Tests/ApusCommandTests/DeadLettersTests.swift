import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTerminal
import ApusTestKit
import Foundation
import Testing

@testable import ApusCommand

@Suite struct DeadLettersTests {
    @Test func `A dead command is shown with the protocol's names, and its times can be read`() {
        var notification = Notification()
        notification.title = "Hi"
        notification.expiry = .ttl(milliseconds: 60_000)
        notification.badge = .increment(1)
        var command = SendCommand(app: "shop", target: .topic("news"), notification: notification)
        command.publishedAtNanoseconds = 1_764_072_000_123_000_000
        command.notBefore = UnixMilliseconds(1_764_072_060_000)
        let lines =
            MessageSummary(.command(command))?.lines.map { $0.split(separator: " ").joined(separator: " ") } ?? []
        for line in [
            "published_at_ns 1764072000123000000 (2025-11-25T12:00:00Z)",
            "not_before_ms 1764072060000 (2025-11-25T12:01:00Z)", "ttl_ms 60000", "badge_increment 1", "topic news",
        ] {
            #expect(lines.contains(line), "\(line) is not in \(lines)")
        }
    }

    @Test func `Every name that a shown message has is one of the protocol, and what is absent is left out`() throws {
        var activity = Notification.LiveActivity(event: .update)
        (activity.contentStateJSON, activity.attributesJSON, activity.activityID) = ("{}", "{}", "a")
        (activity.staleAt, activity.dismissAt, activity.timestamp) = (.init(1), .init(2), .init(3))
        (activity.inputPushToken, activity.inputPushChannel) = (true, "c")
        var notification = Notification()
        (notification.kind, notification.interruptionLevel, notification.priority) = (
            .liveActivity, .timeSensitive, .low
        )
        (notification.threadID, notification.channelID, notification.targetContentID) = ("t", "c", "w")
        (notification.apnsJSON, notification.fcmAPNsJSON, notification.webpushJSON) = ("{}", "{}", "{}")
        (notification.fcmAPNsStyle, notification.fcmWebpushStyle, notification.androidStyle) = (.data, .data, .data)
        (notification.titleLocKey, notification.titleLocArgs, notification.relevanceScore) = ("k", ["x"], 0.5)
        (notification.liveActivity, notification.expiry, notification.badge) = (activity, .at(.init(4)), .set(2))
        notification.sound = Notification.Sound(name: "ding", critical: true, volume: 0.25)
        var address = Address(provider: .webpush, token: "https://push.example/1")
        (address.webpushP256DH, address.webpushAuth, address.applicationServerKey) = ([1], [2], [3])
        (address.kind, address.environment) = (.voip, .sandbox)
        var command = SendCommand(app: "shop", target: .addresses([address]), notification: notification)
        (command.delivery, command.receiptLevel) = (.atMostOnce, .recipients)
        (command.idempotencyKey, command.ratePerSecond, command.dryRun) = ("i", 5, true)
        var registration = DeviceRegistration(device: "phone", provider: .apns, token: "aa")
        (registration.attributes.timeZone, registration.expiresAt, registration.badge) = ("Europe/Berlin", .init(5), 1)
        var register = RegistrationCommand(app: "shop", action: .register(registration))
        (register.asOf, register.replyTo) = (.init(6), "apus:receipts:x")
        var unit = WorkUnit(send: SendKey(app: "shop", id: "s"), route: RouteNumber(7), recipients: .addresses([1]))
        (unit.firstAttemptAt, unit.homeEnvironment, unit.lane) = (.init(8), .sandbox, .express)
        let event = ClientEvent(id: "e", app: "shop", device: "phone", send: "s", kind: .opened, at: .init(9))
        let schema = try Self.schema()
        var receipt = SendReceipt(id: "final:s", send: "s", app: "shop", kind: .final)
        receipt.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
        (receipt.planned, receipt.publishedAtNanoseconds, receipt.duplicateOf) = (1, 2, "r")
        (receipt.firstAt, receipt.lastAt, receipt.idempotencyKey) = (.init(10), .init(11), "i")
        let messages: [DeadMessage] = [
            .command(command), .registration(register), .unit(unit), .event(event), .receipt(receipt),
        ]
        for message in messages {
            let value = try #require(MessageSummary(message)).value
            let names = Self.names(in: value)
            #expect(names.isSubset(of: schema), "\(names.subtracting(schema).sorted()) of \(value.text)")
        }
        let shown = try #require(MessageSummary(.command(command))).value
        #expect(shown["delivery"] == "at_most_once" && shown["notification"]?["kind"] == "live_activity")
        #expect(shown["notification"]?["interruption_level"] == "time_sensitive")
        #expect(shown["notification"]?["sound"]?["volume"]?.text == "0.25")

        // A plain command shows what it says and nothing else.
        var plain = SendCommand(app: "shop", target: .topic("news"), notification: Notification())
        plain.notification.data = ["order": "17", "b": "2"]
        let lines = MessageSummary(.command(plain))?.lines ?? []
        #expect(lines == ["app shop", "target", "  topic news", "notification", "  data", "    b 2", "    order 17"])
    }

    /// The names of all fields in the project's schema.
    private static func schema() throws -> Set<String> {
        let folder = URL(filePath: #filePath).appending(path: "../../../Protos/apus/v1").standardized
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        var names: Set<String> = []
        for file in files {
            for match in try String(contentsOf: file, encoding: .utf8).matches(of: /([a-z_0-9]+) = [0-9]+;/) {
                names.insert(String(match.1))
            }
        }
        return names
    }

    private static func names(in value: JSONValue) -> Set<String> {
        switch value {
        case .object(let object):
            object.members.reduce(into: Set(object.members.map(\.name))) { $0.formUnion(Self.names(in: $1.value)) }
        case .array(let elements): elements.reduce(into: []) { $0.formUnion(Self.names(in: $1)) }
        default: []
        }
    }

    private static func letter(_ payload: [UInt8], app: String = "shop", at: Int64 = 5_000) -> DeadLetter {
        var letter = DeadLetter(
            stream: "{q41}in:bulk",
            entry: "7-0",
            cause: .invalid,
            problem: Problem(code: "unknown_app", field: "app", detail: "is not configured"),
            payload: payload,
            at: UnixMilliseconds(at),
        )
        letter.app = app
        letter.service = "dispatcher"
        return letter
    }

    private static func stored(_ payload: [UInt8]) -> StoredDeadLetter {
        StoredDeadLetter(id: DeadLetterID(shard: 3, entry: "17-0"), letter: Self.letter(payload))
    }

    @Test func `What a replay would do is said, by the message and the state of its send`() throws {
        func letter(_ stream: String, _ payload: [UInt8]) -> StoredDeadLetter {
            var letter = Self.letter(payload)
            letter.stream = "{q41}\(stream)"
            return StoredDeadLetter(id: DeadLetterID(shard: 3, entry: "17-0"), letter: letter)
        }
        var command = SendCommand(app: "shop", target: .users(["ada", "bob"]), notification: Notification())
        command.notification.title = "Hello"
        command.idempotencyKey = "order-17"
        let whole = ReplayPreview.sentence(letter("in:bulk", try command.encode()), send: nil)
        #expect(whole == "publishes the command to 2 users as if it were new; its idempotency key is forgotten first")
        let send = SendKey(app: "shop", id: "s")
        let unit = WorkUnit(send: send, route: RouteNumber(1), recipients: .addresses([0, 1, 2]))
        let part = letter("work:1:bulk", try unit.encode())
        #expect(ReplayPreview.send(of: part) == send)
        #expect(ReplayPreview.sentence(part, send: .running).hasPrefix("sends to its 3 recipients"))
        #expect(ReplayPreview.sentence(part, send: .done).hasPrefix("nothing: the send s is done"))
        #expect(ReplayPreview.sentence(part, send: nil).hasPrefix("nothing: the send s is forgotten"))
        let plan = letter("plan:1", Array("shop/s".utf8))
        #expect(ReplayPreview.sentence(plan, send: .running).hasPrefix("goes on with the search"))
        #expect(ReplayPreview.sentence(plan, send: .cancelled).hasPrefix("nothing: the send s is cancelled"))
        #expect(
            ReplayPreview.sentence(letter("in:bulk", [0xff, 0xff]), send: nil).contains("become a dead letter again")
        )
        let receipt = letter(
            "receipts",
            try SendReceipt(id: "final:s", send: "s", app: "shop", kind: .final).encode()
        )
        #expect(ReplayPreview.send(of: receipt) == nil)
        let again = ReplayPreview.sentence(receipt, send: nil)
        #expect(again.hasPrefix("writes it into the shard's receipts again; feedback.webhook"))
        let shown = DeadLetters.lines(receipt, now: UnixMilliseconds(65_000))
        #expect(shown.contains("  id final:s") && !shown.contains { $0.contains("cannot be read") })
        let lines = DeadLetters.lines(part, now: UnixMilliseconds(65_000), replay: "nothing")
        #expect(lines.contains("a replay:    nothing"))
        #expect(DeadLetters.fullJSON(part, replay: "nothing")["replay"] == "nothing")
    }

    @Test func `A message is shown by the names of its fields, without unset ones`() throws {
        var notification = Notification()
        notification.title = "Hello"
        var command = SendCommand(app: "shop", target: .users(["ada", "bob"]), notification: notification)
        command.idempotencyKey = "order-17"
        let stored = Self.stored(try command.encode())
        let lines = DeadLetters.lines(stored, now: UnixMilliseconds(65_000))
        #expect(
            lines.prefix(7) == [
                "id:          3/17-0",
                "problem:     \(stored.letter.problem)",
                "cause:       invalid",
                "given up:    1m00s ago by dispatcher, after 1 delivery",
                "from:        {q41}in:bulk/7-0",
                "app:         shop",
                "message:     \(stored.letter.payload.count) bytes",
            ]
        )
        #expect(lines.contains("  idempotency_key order-17"))
        #expect(lines.contains { $0.hasSuffix("title Hello") })
        #expect(lines.contains { $0.hasSuffix("- ada") })
        #expect(!lines.contains { $0.contains("reply_to") })
        let json = DeadLetters.fullJSON(stored)
        #expect(json["message"]?["idempotency_key"] == "order-17")
        #expect(json["message"]?["notification"]?["title"] == "Hello")
        #expect(json["id"] == "3/17-0" && json["truncated"] == false)
    }

    @Test func `A message that cannot be decoded is shown as bytes`() {
        let stored = Self.stored([UInt8](repeating: 0xfe, count: 40))
        let lines = DeadLetters.lines(stored, now: UnixMilliseconds(6_000))
        #expect(lines.contains { $0.hasPrefix("  cannot be read: ") })
        #expect(
            lines.suffix(2) == ["  " + String(repeating: "fe", count: 32), "  " + String(repeating: "fe", count: 8)]
        )
        #expect(DeadLetters.fullJSON(stored)["payload_hex"]?.string == String(repeating: "fe", count: 40))
        #expect(DeadLetters.json(stored)["payload_hex"] == nil, "a list has no payloads")
    }

    @Test func `The newest letters are found without reading more of a shard than is needed`() {
        // The first shard has the newest hundred letters, the second only older ones.
        var merge = DeadLetterMerge(shards: 2)
        var pages: [Int] = []
        func read(_ wanted: (shard: Int, before: String)) {
            pages.append(wanted.shard)
            let first = wanted.before == "+" ? 0 : Int(wanted.before) ?? 0
            let letters = (first..<(first + 10)).map { index in
                StoredDeadLetter(
                    id: DeadLetterID(shard: wanted.shard, entry: "\(index)"),
                    letter: Self.letter([], at: Int64((wanted.shard == 0 ? 1_000 : 500) - index)),
                )
            }
            merge.add(letters, next: first == 90 ? nil : "\(first + 10)", of: wanted.shard)
        }
        var times: [Int64] = []
        for _ in 0..<25 {
            while let wanted = merge.wanted { read(wanted) }
            merge.next().map { times.append($0.letter.at.value) }
        }
        #expect(times == (0..<25).map { 1_000 - $0 })
        #expect(pages == [0, 1, 0, 0])
        while true {
            while let wanted = merge.wanted { read(wanted) }
            guard let next = merge.next() else { break }
            times.append(next.letter.at.value)
        }
        #expect(times == (0..<100).map { 1_000 - $0 } + (0..<100).map { 500 - $0 })
        #expect(pages.count { $0 == 0 } == 10 && pages.count { $0 == 1 } == 10)
    }

    @Test func `Letters are selected by app, cause and age, over all shards`() async throws {
        try await RedisServer.with { server in
            try await RedisAccess.withClient(server.url) { client in
                _ = try await InstallationSetup(client).perform(queueShards: 2, devicePartitions: 2)
            }
            try await RedisAccess.withInstallation(server.url) { installation in
                let dead = DeadLetters(installation.streams)
                for index in 0..<6 {
                    let keys = installation.streams.keys(shard: index % 2)
                    var letter = Self.letter([1], app: index < 3 ? "shop" : "bank", at: Int64(index) * 1_000)
                    letter.stream = "{elsewhere}in:bulk"
                    if index == 4 { letter.cause = .poison }
                    _ = try await server.command("XADD", .text(keys.dead), "*", "m", .bytes(try letter.encode()))
                }
                func times(_ count: Int, _ filter: DeadLetters.Filter) async throws -> [Int64] {
                    try await dead.newest(count, filter).map(\.letter.at.value)
                }
                #expect(try await times(100, DeadLetters.Filter()) == [5_000, 4_000, 3_000, 2_000, 1_000, 0])
                #expect(try await times(2, DeadLetters.Filter()) == [5_000, 4_000])
                var filter = DeadLetters.Filter()
                filter.app = "bank"
                #expect(try await times(100, filter) == [5_000, 4_000, 3_000])
                filter.cause = .poison
                #expect(try await times(100, filter) == [4_000])
                filter = DeadLetters.Filter()
                filter.before = UnixMilliseconds(2_000)
                #expect(try await times(100, filter) == [1_000, 0])
                var parts: [Int] = []
                try await dead.forEachPart(DeadLetters.Filter(), atMost: 4) { parts.append($0.count) }
                #expect(parts == [3, 1])
                var purged = 0
                try await dead.forEachPart(filter) { purged += try await dead.purge($0, by: .shell) }
                #expect(purged == 2)
                let rest = try await dead.newest(100)
                #expect(rest.count == 4)
                // Their stream is none of their shard: there is nowhere to go.
                let results = try await dead.replay([rest[0]], by: .shell)
                #expect(results.map(\.isReplayed) == [false])
            }
        }
    }

    @Test func `Of a letter that is gone is said that the call may have replayed it itself`() async throws {
        try await RedisServer.with { server in
            try await RedisAccess.withClient(server.url) { client in
                _ = try await InstallationSetup(client).perform(queueShards: 1, devicePartitions: 1)
            }
            try await RedisAccess.withInstallation(server.url) { installation in
                let dead = DeadLetters(installation.streams)
                let keys = installation.streams.keys(shard: 0)
                var letter = Self.letter([1], app: "shop", at: 1_000)
                letter.stream = keys.mailbox(.bulk)
                _ = try await server.command("XADD", .text(keys.dead), "*", "m", .bytes(try letter.encode()))
                let stored = try #require(try await dead.newest(1).first)
                // The client repeats a call whose answer was lost.
                let results = try await dead.replay([stored, stored], by: .shell)
                #expect(results.map(\.isReplayed) == [true, false])
                #expect(
                    results.last?.text
                        == "is gone: it was replayed or removed meanwhile, perhaps by this very call, whose first answer was lost"
                )
            }
        }
    }
}
