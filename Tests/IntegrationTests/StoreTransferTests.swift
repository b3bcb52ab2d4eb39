import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTLS
import ApusTestKit
import Foundation
import Logging
import NIOPosix
import Testing

/// The operator's program carries devices from one store into an empty one.
@Suite(.serialized) struct StoreTransferTests {
    private static let keyspace = Keyspace(queueShards: 2, devicePartitions: 8)
    private static let devices = 1_000

    private static func apus(
        _ arguments: [String],
        url: String,
        input: [UInt8] = [],
    ) throws -> OperatorProgram.Answer {
        try OperatorProgram.run(arguments + ["--redis", url], input: input)
    }

    private static func registration(_ index: Int) -> DeviceRegistration {
        var random = SeededGenerator(seed: UInt64(index))
        let provider: Provider = index.isMultiple(of: 2) ? .apns : .fcm
        let token = provider == .apns ? SampleToken.apple(&random) : SampleToken.google(&random)
        let id = index.isMultiple(of: 3) ? "00000000-0000-4000-8000-\(100_000_000_000 + index)" : "phone-\(index)"
        var registration = DeviceRegistration(device: id, provider: provider, token: token)
        registration.user = index.isMultiple(of: 5) ? "" : "user-\(index / 4)"
        registration.topics = ["all"] + (index.isMultiple(of: 7) ? ["few-\(index % 3)"] : [])
        if index == 500 { registration.topics = (0..<100).map { "\($0)-" + String(repeating: "n", count: 200) } }
        registration.attributes.locale = index.isMultiple(of: 2) ? "en-GB" : "de"
        registration.attributes.tags = index.isMultiple(of: 11) ? ["vip"] : []
        return registration
    }

    @Test func `Exported tokens of Apple are registered at FCM instead, and sends reach the devices there`()
        async throws
    {
        try await Fleet.with(hasWebPush: true) { fleet in
            let (store, app) = (fleet.installation.store, try AppID(Fleet.app))
            let devices = try await fleet.register(12, topics: { _ in ["news"] })
            let phones = devices.filter { $0.provider == .apns }
            let host = "push.intern.example"
            let dispatcher = try await fleet.start("dispatcher", webPushSettings: ["hosts": "[\(host)]"])
            let feedback = try await fleet.startFeedback()
            fleet.simulator.declare(.bad, of: [phones[2].token], provider: .apns)
            // One logs in before the export, another after it.
            _ = try await store.bindUser(app, DeviceID(phones[0].id), UserID("ada"))
            let export = try Self.apus(["store", "export", "--app", Fleet.app], url: fleet.redis.url)
            #expect(export.code == 0 && export.lines.count == 12)
            _ = try await store.bindUser(app, DeviceID(phones[1].id), UserID("bob"))
            let order = [
                "device", "import-apns", "--app", Fleet.app, "--json", "--config", "\(dispatcher.directory)/apus.yaml",
            ]
            let exchange = try Self.apus(order, url: fleet.redis.url, input: export.output)
            // One token is refused: its line is named, and its device stays as it is.
            #expect(exchange.code == 2, "\(exchange.talk)")
            #expect(exchange.json?["lines"]?.int64 == 12 && exchange.json?["exchanged"]?.int64 == 5)
            let refused = try #require(exchange.json?["not_exchanged"]?.array)
            let line = try #require(export.lines.firstIndex { $0.contains("\"\(phones[2].id)\"") })
            #expect(refused.count == 1 && refused.first?["line"]?.int64 == Int64(line + 1))
            #expect(refused.first?["rule"]?.string == "FCM: INVALID_ARGUMENT")
            #expect(exchange.json?["not_moved"]?.int64 == 1)
            #expect(try await store.get(app, DeviceID(phones[1].id))?.realm.provider == .apns)

            // A newer export has it as it is, and with it comes a browser at a host that the configuration names.
            let newer = try Self.apus(["store", "export", "--app", Fleet.app], url: fleet.redis.url)
            let point = try #require(try PrivateKey.generate(.p256).publicKey.uncompressedPoint)
            let keys = [("webpush_p256dh", point), ("webpush_auth", [UInt8](repeating: 7, count: 16))]
                .map { #""\#($0)":"\#(Base64URL.encode($1))""# }.joined(separator: ",")
            let browser =
                #"{"device":"browser","provider":"webpush","token":"https://\#(host)/x",\#(keys)}"# + "\n"
            let second = try Self.apus(order, url: fleet.redis.url, input: newer.output + Array(browser.utf8))
            #expect(second.code == 2, "\(second.talk)")
            #expect(second.json?["exchanged"]?.int64 == 1 && second.json?["not_moved"]?.int64 == 0)
            #expect(second.json?["created"]?.int64 == 1 && second.json?["refused"]?.int64 == 0)
            for phone in phones {
                let stored = try #require(try await store.get(app, DeviceID(phone.id)))
                #expect(stored.realm.provider == (phone.id == phones[2].id ? .apns : .fcm), "\(phone.id)")
            }
            for (provider, count) in [(Provider.apns, 1), (.fcm, 11)] {
                let route = Route(app: app, provider: provider, environment: .production)
                #expect(try await store.deviceCount(route) == count)
            }

            try await fleet.send(.topic("news"), id: "moved")
            let ledger = try await fleet.completion(of: "moved")
            #expect(ledger.total(.accepted) == 11)
            let taken = fleet.simulator.ledger.snapshot.entries.filter { $0.isAccepted && $0.send == "moved" }
            #expect(taken.count == 11 && taken.allSatisfy { $0.provider == .fcm })

            // Topics of FCM's own go by the interface that new projects have: one that fails there succeeds by the other.
            let busy = FaultScript(route: .fcm, pathContains: "/topicSubscriptions/", count: 1, fault: .unavailable)
            fleet.simulator.addScript(busy)
            let token = try #require(devices.first { $0.provider == .fcm }).token
            let subscription = [
                "topics", "subscribe", "--app", Fleet.app, "--topic", "news", "--json", "--config",
                "\(dispatcher.directory)/apus.yaml", token,
            ]
            for (interface, subscribed) in [(["--interface", "instance-id"], 1), ([], 0), ([], 1)]
                as [([String], Int64)]
            {
                let answer = try OperatorProgram.run(subscription + interface)
                #expect(answer.json?["members"]?.int64 == 1, "\(answer.talk)")
                #expect(answer.json?["subscribed"]?.int64 == subscribed, "\(interface): \(answer.talk)")
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `An export fills an empty store with the same devices, and the store agrees with itself`() async throws {
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            let app = try AppID("shop")
            try await Installation.initialize(client, keyspace: Self.keyspace)
            let store = try await Installation(client, clock: SystemClock()).store
            for index in 0..<Self.devices { _ = try await store.register(app, Self.registration(index)) }
            _ = try await store.setBadge(app, try DeviceID("phone-7"), to: 5)

            let export = try Self.apus(["store", "export", "--app", "shop"], url: server.url)
            #expect(export.code == 0 && export.lines.count == Self.devices)
            // A part of the devices is no export.
            let order = ["store", "export", "--app", "shop", "--redis", server.url]
            let cut = try OperatorProgram.run(order, outputFile: "/dev/full")
            #expect(cut.code == 1 && cut.talk.contains("no space left on device"), "\(cut.talk)")
            let question = ["audience", "count", "'few-1' in topics && locale == 'de'", "--app", "shop", "--json"]
            let audience = try Self.apus(question, url: server.url)
            #expect(audience.code == 0 && audience.json != nil)

            _ = try await client.send(RedisCommand("FLUSHALL"), on: Self.keyspace.tag(shard: 0))
            try await Installation.initialize(client, keyspace: Self.keyspace)
            let nothing = try Self.apus(["store", "export", "--app", "shop"], url: server.url)
            #expect(nothing.lines.isEmpty)

            let taking = ["store", "import", "--app", "shop", "--json"]
            let first = try Self.apus(taking, url: server.url, input: export.output)
            #expect(first.code == 0)
            #expect(first.json?["created"]?.int64 == Int64(Self.devices) && first.json?["refused"]?.int64 == 0)
            let check = try Self.apus(["store", "check", "--app", "shop", "--json"], url: server.url)
            #expect(check.code == 0, "\(String(decoding: check.output, as: UTF8.self))")
            let again = try Self.apus(["store", "export", "--app", "shop"], url: server.url)
            #expect(again.lines.sorted() == export.lines.sorted())
            let sameAudience = try Self.apus(question, url: server.url)
            #expect(sameAudience.json == audience.json)

            // Once more: nothing is new, and nothing changes.
            let second = try Self.apus(taking, url: server.url, input: export.output)
            #expect(second.code == 0 && second.json?["created"]?.int64 == 0)
            #expect(second.json?["ignored"]?.int64 == Int64(Self.devices))
            let last = try Self.apus(["store", "export", "--app", "shop"], url: server.url)
            #expect(last.lines.sorted() == export.lines.sorted())
            await client.close()
        }
    }

    @Test func `Browsers at a host that the configuration alone names are put, exported and imported`() async throws {
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let host = "push.intern.example"
        let key = try folder.write("vapid.pem", try PrivateKey.generate(.p256).pem)
        let webpush = "{key_file: \(key), subject: \"mailto:ops@shop.example\", hosts: [\(host)]}"
        let named = ["--config", try folder.write("apus.yaml", "apps: {shop: {webpush: \(webpush)}}")]
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Self.keyspace)
            let point = try #require(try PrivateKey.generate(.p256).publicKey.uncompressedPoint)
            let put = [
                "device", "put", "--app", "shop", "browser", "--provider", "webpush", "--token", "https://\(host)/x",
                "--webpush-p256dh", Base64URL.encode(point),
                "--webpush-auth", Base64URL.encode([UInt8](repeating: 7, count: 16)),
            ]
            let strange = try Self.apus(put, url: server.url)
            #expect(strange.code == 1 && strange.talk.contains("webpush.hosts"), "\(strange.talk)")
            let known = try Self.apus(put + named, url: server.url)
            #expect(known.code == 0, "\(known.talk)")
            let export = try Self.apus(["store", "export", "--app", "shop"], url: server.url)
            #expect(export.lines.count == 1)

            _ = try await client.send(RedisCommand("FLUSHALL"), on: Self.keyspace.tag(shard: 0))
            try await Installation.initialize(client, keyspace: Self.keyspace)
            func take(_ more: [String]) throws -> OperatorProgram.Answer {
                let order = ["store", "import", "--app", "shop", "--json"] + more
                return try Self.apus(order, url: server.url, input: export.output)
            }
            let refused = try take([])
            #expect(refused.code == 2 && refused.json?["refused"]?.int64 == 1, "\(refused.talk)")
            let taken = try take(named)
            #expect(taken.code == 0 && taken.json?["created"]?.int64 == 1, "\(taken.talk)")
            let again = try take(["--webpush-host", host])
            #expect(again.code == 0 && again.json?["ignored"]?.int64 == 1, "\(again.talk)")
            await client.close()
        }
    }

    @Test func `Lines without a time create devices, and put no old token over a newer registration`() async throws {
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Self.keyspace)
            let (store, app) = (try await Installation(client, clock: SystemClock()).store, try AppID("shop"))
            func take(_ lines: [String], _ more: String...) throws -> OperatorProgram.Answer {
                let table = ["device,provider,token"] + lines
                let order = ["store", "import", "--app", "shop", "--json", "--format", "csv"]
                return try Self.apus(
                    order + more,
                    url: server.url,
                    input: Array(table.joined(separator: "\n").utf8)
                )
            }
            func counts(_ answer: OperatorProgram.Answer) -> [String: Int64] {
                let names = ["created", "updated", "unchanged", "ignored", "refused"]
                let counts = names.compactMap { name in answer.json?[name]?.int64.map { (name, $0) } }
                return Dictionary(uniqueKeysWithValues: counts.filter { $0.1 > 0 })
            }
            func token(_ device: String) async throws -> String? {
                try await store.get(app, DeviceID(device)).map { String(decoding: $0.record.token, as: UTF8.self) }
            }
            let now = DeviceRegistration(device: "a", provider: .fcm, token: "new-a")
            _ = try await store.register(app, now)
            // The token of the last line is another device's by now.
            let lines = ["a,fcm,old-a", "b,fcm,b-1", "former-a,fcm,new-a"]
            let first = try take(lines)
            #expect(first.code == 0 && counts(first) == ["created": 1, "ignored": 2], "\(first.talk)")
            #expect(counts(try take(lines)) == ["ignored": 3])
            // All of them registered after the time of the export.
            #expect(counts(try take(lines, "--as-of", "1h")) == ["ignored": 3])
            let tokens = [try await token("a"), try await token("b"), try await token("former-a")]
            #expect(tokens == ["new-a", "b-1", nil])

            // With a time a device can be corrected.
            let time = "2026-01-02T03:04:05Z"
            #expect(counts(try take(["c,fcm,c-1"], "--as-of", time)) == ["created": 1])
            #expect(try await store.get(app, DeviceID("c"))?.registeredAt == UnixMilliseconds(timestamp: time))
            #expect(counts(try take(["c,fcm,c-2"], "--as-of", time)) == ["updated": 1])
            #expect(try await token("c") == "c-2")
            for wrong in ["yesterday", "2999-01-01T00:00:00Z"] {
                let answer = try take(lines, "--as-of", wrong)
                #expect(answer.code == 64 && answer.talk.contains("--as-of is a time such as"), "\(answer.talk)")
            }
            await client.close()
        }
    }

    @Test func `A line without a time that was taken in part says how the rest of it is taken`() async throws {
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 1))
            let (store, app) = (try await Installation(client, clock: SystemClock()).store, try AppID("shop"))
            let line = #"{"device":"a","provider":"fcm","token":"t-a","badge":3}"#
            func take(_ words: String...) throws -> OperatorProgram.Answer {
                let order = ["store", "import", "--app", "shop", "--json"] + words
                return try Self.apus(order, url: server.url, input: Array(line.utf8))
            }
            // Nothing can be written where the badges of the first devices are.
            let (badges, tag) = (store.keys.badges(app, Realm(.fcm, .production), 0, 0), store.keys.tag(0))
            _ = try await client.send(RedisCommand("SET", .text(badges), "no badges"), on: tag)
            let half = try take()
            #expect(half.code == 2 && half.json?["refused"]?.int64 == 1, "\(half.talk)")
            let rule = try #require(half.json?["mistakes"]?.array?.first?["rule"]?.string)
            #expect(rule.hasSuffix("import this line again, alone, with --as-of 0s"), "\(rule)")
            _ = try await client.send(RedisCommand("DEL", .text(badges)), on: tag)
            let again = try take()
            #expect(again.code == 0 && again.json?["ignored"]?.int64 == 1, "\(again.talk)")
            let whole = try take("--as-of", "0s")
            #expect(whole.code == 0, "\(whole.talk)")
            let device = try #require(try await store.get(app, DeviceID("a")))
            #expect(try await store.badge(of: device) == 3)
            await client.close()
        }
    }

    @Test func `Of two lines with one token the device that registered later is there`() async throws {
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Self.keyspace)
            let (store, app) = (try await Installation(client, clock: SystemClock()).store, try AppID("shop"))
            let pairs = 0..<32
            let lines: [String] = pairs.flatMap { index in
                [("new", 1_700_000_000_002), ("old", 1_700_000_000_001)].map { name, time in
                    let names = #""device":"\#(name)-\#(index)","user":"user-\#(index)","registered_at_ms":\#(time)"#
                    return #"{\#(names),"provider":"fcm","token":"t-\#(index)"}"#
                }
            }
            let answer = try Self.apus(
                ["store", "import", "--app", "shop", "--json"],
                url: server.url,
                input: Array(lines.joined(separator: "\n").utf8),
            )
            #expect(answer.code == 0, "\(answer.talk)")
            let counts = ["created", "ignored"].map { answer.json?[$0]?.int64 }
            #expect(counts == [Int64(pairs.count), Int64(pairs.count)])
            for index in pairs {
                #expect(try await store.get(app, DeviceID("new-\(index)")) != nil)
                #expect(try await store.get(app, DeviceID("old-\(index)")) == nil)
            }
            await client.close()
        }
    }

    @Test func `A device whose token another line takes keeps what it has, whichever comes first`() async throws {
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Self.keyspace)
            let (store, app) = (try await Installation(client, clock: SystemClock()).store, try AppID("shop"))
            var old = DeviceRegistration(device: "old", provider: .fcm, token: "t-1")
            old.topics = ["news"]
            _ = try await store.register(app, old, asOf: UnixMilliseconds(1_700_000_000_000))
            let lines = [
                #"{"device":"new","provider":"fcm","token":"t-1","badge":3,"registered_at_ms":1700000000002}"#,
                #"{"device":"old","provider":"fcm","token":"t-2","registered_at_ms":1700000000001}"#,
            ]
            let answer = try Self.apus(
                ["store", "import", "--app", "shop", "--json"],
                url: server.url,
                input: Array(lines.joined(separator: "\n").utf8),
            )
            #expect(answer.code == 0, "\(answer.talk)")
            #expect(["created", "updated"].map { answer.json?[$0]?.int64 } == [1, 1])
            let kept = try #require(try await store.get(app, DeviceID("old")))
            #expect(kept.record.token == Array("t-2".utf8) && kept.record.topics.count == 1)
            let new = try #require(try await store.get(app, DeviceID("new")))
            #expect(new.record.token == Array("t-1".utf8))
            #expect(new.registeredAt == UnixMilliseconds(1_700_000_000_002))
            #expect(try await store.badge(of: new) == 3)
            await client.close()
        }
    }

    @Test func `A line that was taken before undoes nothing that its device has changed since`() async throws {
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Self.keyspace)
            let (store, app) = (try await Installation(client, clock: SystemClock()).store, try AppID("shop"))
            let id = try DeviceID("a")
            let token = String(repeating: "ab", count: 32)
            let members = [
                #""device":"a","provider":"apns","token":"\#(token)","topics":["news"],"attributes":{"country":"DE"}"#,
                #""badge":7,"registered_at_ms":1700000000000"#,
                #""activities":[{"kind":"live_activity_update","token":"cd","activity":"game"}]"#,
            ]
            let line = "{\(members.joined(separator: ","))}"
            func take(_ words: String...) throws -> OperatorProgram.Answer {
                let order = ["store", "import", "--app", "shop", "--json"] + words
                return try Self.apus(order, url: server.url, input: Array(line.utf8))
            }
            func stored() async throws -> StoredDevice { try #require(try await store.get(app, id)) }
            let first = try take()
            #expect(first.code == 0 && first.json?["created"]?.int64 == 1, "\(first.talk)")
            let created = try await stored()
            #expect(created.record.topics.count == 1 && created.record.secondary.count == 1)
            #expect(try await store.badge(of: created) == 7)

            _ = try await store.unsubscribe(app, id, from: ["news"])
            var attributes = created.record.attributes
            attributes.country = "NZ"
            _ = try await store.patch(app, id, attributes: attributes)
            _ = try await store.removeAddresses(app, id, activity: "game")
            _ = try await store.setBadge(app, id, to: 0)
            let changed = try await stored()
            #expect(changed.record.topics.isEmpty && changed.record.secondary.isEmpty)
            let second = try take()
            #expect(second.code == 0 && second.json?["ignored"]?.int64 == 1, "\(second.talk)")
            let kept = try await stored()
            #expect(kept == changed)
            #expect(try await store.badge(of: kept) == 0)

            // The line's values come back on demand.
            let third = try take("--again")
            #expect(third.code == 0 && third.json?["updated"]?.int64 == 1, "\(third.talk)")
            let again = try await stored()
            #expect(again.record.topics.count == 1 && again.record.secondary.count == 1)
            #expect(again.record.attributes.country == "DE" && again.registeredAt == kept.registeredAt)
            #expect(try await store.badge(of: again) == 7)
            await client.close()
        }
    }

    @Test func `A newer export brings who has logged out and in since the one before it`() async throws {
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Self.keyspace)
            let store = try await Installation(client, clock: SystemClock()).store
            let (shop, copy) = (try AppID("shop"), try AppID("copy"))
            func time(_ milliseconds: Int64) -> UnixMilliseconds { UnixMilliseconds(1_700_000_000_000 + milliseconds) }
            /// Carries the devices over, and returns whose they are there.
            func carry(updating count: Int64) async throws -> [String?] {
                let export = try Self.apus(["store", "export", "--app", "shop"], url: server.url)
                let order = ["store", "import", "--app", "copy", "--json"]
                let answer = try Self.apus(order, url: server.url, input: export.output)
                #expect(answer.code == 0 && answer.json?["updated"]?.int64 == count, "\(answer.talk)")
                var users: [String?] = []
                for device in ["a", "b"] { users.append(try await store.get(copy, DeviceID(device))?.record.user) }
                return users
            }
            for device in ["a", "b"] {
                var registration = DeviceRegistration(device: device, provider: .fcm, token: "t-\(device)")
                registration.user = "ada"
                _ = try await store.register(shop, registration, asOf: time(0))
            }
            // With a badge, a line is taken in two steps.
            _ = try await store.setBadge(shop, DeviceID("b"), to: 7)
            #expect(try await carry(updating: 0) == ["ada", "ada"])
            for device in ["a", "b"] { _ = try await store.unbindUser(shop, DeviceID(device), asOf: time(1)) }
            #expect(try await carry(updating: 2) == ["", ""])
            #expect(try await carry(updating: 0) == ["", ""])
            _ = try await store.bindUser(shop, DeviceID("b"), UserID("bob"), asOf: time(2))
            #expect(try await carry(updating: 1) == ["", "bob"])
            await client.close()
        }
    }

    @Test func `A broken line is refused by its number, and the others are imported`() async throws {
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Self.keyspace)
            let lines = [
                #"{"device":"a","provider":"fcm","token":"t1"}"#, "{", #"{"device":"b","provider":"fcm","token":"t2"}"#,
            ]
            let answer = try Self.apus(
                ["store", "import", "--app", "shop", "--json"],
                url: server.url,
                input: Array(lines.joined(separator: "\n").utf8),
            )
            #expect(answer.code == 2)
            #expect(answer.json?["created"]?.int64 == 2 && answer.json?["refused"]?.int64 == 1)
            #expect(answer.json?["mistakes"]?.array?.first?["line"]?.int64 == 2)
            // Without the names of columns no line can be read: the first one alone is told.
            let table = "device,tokn,provider\nc,fcm,t3\nd,fcm,t4"
            let unnamed = try Self.apus(
                ["store", "import", "--app", "shop", "--json", "--format", "csv"],
                url: server.url,
                input: Array(table.utf8),
            )
            #expect(unnamed.code == 2 && unnamed.json?["refused"]?.int64 == 1)
            #expect(unnamed.json?["mistakes"]?.array?.compactMap { $0["line"]?.int64 } == [1])
            await client.close()
        }
    }
}
