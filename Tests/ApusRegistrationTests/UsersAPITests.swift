import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

@Suite struct UsersAPITests {
    @Test func aUsersDevicesAreListedAndForgotten() async throws {
        try await Fixture.with { fixture in
            for device in ["a", "b"] {
                let body = #"{"provider":"fcm","token":"t-\#(device)","user":"anna","topics":["x"]}"#
                _ = try await fixture.ask("PUT", Fixture.path(device), body)
            }
            _ = try await fixture.ask("PUT", Fixture.path("c"), #"{"provider":"fcm","token":"t-c","user":"bert"}"#)
            let path = "/v1/apps/shop/users/anna/devices"
            let listed = try await fixture.ask("GET", path)
            #expect(listed.status == 200)
            let devices = try #require(try member(listed, "devices")?.array)
            #expect(devices.map { $0["device"]?.string } == ["a", "b"])
            #expect(devices.allSatisfy { $0["topics"] == ["x"] })
            #expect(!listed.text.contains("t-a"), "tokens are not shown")
            // Her own token lists and forgets them; another user's does not.
            let (anna, bert) = (try Fixture.token("anna"), try Fixture.token("bert"))
            #expect(try await fixture.ask("GET", path, key: anna).text == listed.text)
            #expect(try await fixture.ask("GET", path, key: bert).status == 403)
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/anna", key: bert).status == 403)
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/anna", key: anna).status == 204)
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/anna").status == 204)
            #expect(try member(try await fixture.ask("GET", path), "devices") == [])
            #expect(try await fixture.ask("GET", Fixture.path("a")).status == 404)
            #expect(try await fixture.ask("GET", Fixture.path("c")).status == 200)
            #expect(try await fixture.metrics.contains("change=\"deleted\",source=\"http\"} 2\n"))
        }
    }

    @Test func `Whoever has one device too many is told which of the others has left`() async throws {
        try await Fixture.with { fixture in
            for index in 0..<StoreLimits.devicesPerUserMax {
                let body = #"{"provider":"fcm","token":"t\#(index)","user":"anna"}"#
                let answer = try await fixture.ask("PUT", Fixture.path("p\(index)"), body)
                #expect(answer.status == 201 && !answer.text.contains("displaced_device"))
            }
            let more = try await fixture.ask(
                "PUT",
                Fixture.path("more"),
                #"{"provider":"fcm","token":"t","user":"anna"}"#
            )
            let displaced = try #require(try member(more, "displaced_device")?.string, "\(more.text)")
            let path = "/v1/apps/shop/users/anna/devices"
            let devices = try member(try await fixture.ask("GET", path), "devices")?.array ?? []
            let ids = devices.compactMap { $0["device"]?.string }
            #expect(ids.count == StoreLimits.devicesPerUserMax && ids.contains("more") && !ids.contains(displaced))
            #expect(!(try await fixture.ask("GET", Fixture.path("more"))).text.contains("displaced_device"))
        }
    }

    @Test func `Whoever is forgotten is in no dead letter any more, and others' letters stay`() async throws {
        try await Fixture.with { fixture in
            _ = try await fixture.ask("PUT", Fixture.path("a"), #"{"provider":"fcm","token":"t-a","user":"anna"}"#)
            // One of hers was removed, and can be brought back.
            var before = DeviceRegistration(device: "removed", provider: .fcm, token: "t-removed")
            before.user = "anna"
            let (store, app) = (fixture.installation.store, try AppID("shop"))
            let removed = try await store.register(app, before).device
            let result = try await store.prune(
                Route(app: app, provider: .fcm, environment: .production),
                removed.reference,
                tokenDigest: DeviceToken.digest(removed.record.token),
                asOf: removed.registeredAt,
                undo: .default,
            )
            #expect(result == .applied(removed))
            func registration(_ device: String, _ token: String, user: String = "") -> RegistrationCommand.Action {
                var registration = DeviceRegistration(device: device, provider: .fcm, token: token)
                registration.user = user
                return .register(registration)
            }
            let actions: [RegistrationCommand.Action] = [
                registration("x", "t-x", user: "anna"), registration("a", "old"), registration("y", "t-a"),
                .deleteUser("anna"), registration("x", "t-x", user: "ann"), registration("c", "t-c", user: "bert"),
                registration("removed", "old"), registration("y", "t-removed"),
            ]
            var commands = try actions.map { try RegistrationCommand(app: "shop", action: $0).encode() }
            commands.append(try RegistrationCommand(app: "other", action: .deleteUser("anna")).encode())
            // These cannot be read. She is named in a whole field, and her app too, or the letter is not hers.
            let names = Array("\u{a}\u{4}shop\u{12}\u{4}".utf8)
            commands.append(names + Array("anna".utf8) + [0xff])
            commands.append(Array(#"{"app": "shop", "user": "anna"}"#.utf8))
            commands.append(Array("\u{a}\u{4}shop\u{7f}anna\u{7f}".utf8))
            commands.append(Array("\u{a}\u{5}other\u{12}\u{4}anna".utf8) + [0xff])
            commands.append(Array(#"{"app": "shop", "user": "joanna", "text": "anna!"}"#.utf8))
            let streams = fixture.installation.streams
            for (number, bytes) in commands.enumerated() {
                let keys = streams.keys(shard: number % Fixture.keyspace.queueShards)
                let letter = DeadLetter(
                    stream: keys.register,
                    entry: "\(number)-0",
                    cause: .invalid,
                    problem: Problem(code: "invalid", detail: "of a test"),
                    payload: bytes,
                    at: UnixMilliseconds(1_000),
                )
                try await streams.deadLetters.keep(letter, tag: keys.tag)
            }
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/anna").status == 204)
            var left: Set<String> = []
            for shard in 0..<Fixture.keyspace.queueShards {
                left.formUnion(
                    try await streams.deadLetters.page(shard: shard, before: "+").letters.map(\.letter.entry)
                )
            }
            #expect(left == ["4-0", "5-0", "8-0", "11-0", "12-0", "13-0"])
        }
    }

    @Test func `A dead letter to an audience with a test for the forgotten user goes, and one for another user stays`()
        async throws
    {
        try await Fixture.with { fixture in
            func command(_ expression: String, app: String = "shop") throws -> [UInt8] {
                var notification = Notification()
                notification.title = "Hi"
                return try SendCommand(app: app, target: .expression(expression), notification: notification).encode()
            }
            let named = [
                try command("user == 'anna'"),
                try command(#"'news' in topics && !(user in ['bert', "anna"])"#),
                // These two cannot be read as they are: one breaks the grammar, one is cut off.
                try command("user = 'anna'"),
                Array("\u{a}\u{4}shop user == 'anna'".utf8) + [0xff],
            ]
            let others = [
                try command("user == 'joanna'"), try command("user == 'Anna'"), try command("'anna' in topics"),
                try command("user = 'joanna'"), try command("user == 'anna'", app: "other"),
            ]
            let (streams, keys) = (fixture.installation.streams, fixture.installation.streams.keys(shard: 0))
            for (number, payload) in (named + others).enumerated() {
                let letter = DeadLetter(
                    stream: keys.mailbox(.bulk),
                    entry: "\(number)-0",
                    cause: .invalid,
                    problem: Problem(code: "invalid", detail: "of a test"),
                    payload: payload,
                    at: UnixMilliseconds(1_000),
                )
                try await streams.deadLetters.keep(letter, tag: keys.tag)
            }
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/anna").status == 204)
            let left = try await streams.deadLetters.page(shard: 0, before: "+").letters.map(\.letter.entry)
            #expect(Set(left) == Set((named.count..<named.count + others.count).map { "\($0)-0" }))
        }
    }

    @Test func `A dead letter of a user without devices stays until it can be recorded that it goes`() async throws {
        try await Fixture.with { fixture in
            let streams = fixture.installation.streams
            let keys = streams.keys(shard: 0)
            let command = RegistrationCommand(app: "shop", action: .deleteUser("anna"))
            let letter = DeadLetter(
                stream: keys.register,
                entry: "1-0",
                cause: .invalid,
                problem: Problem(code: "invalid", detail: "of a test"),
                payload: try command.encode(),
                at: UnixMilliseconds(1_000),
            )
            try await streams.deadLetters.keep(letter, tag: keys.tag)
            func count() async throws -> Int {
                try await streams.deadLetters.page(shard: 0, before: "+").letters.count
            }
            // The key of the trail holds something else.
            let trail = StreamKeys.keyAudit(of: "shop")
            _ = try await fixture.client.send(RedisCommand("SET", .text(trail), "x"), on: HashTag(ofKey: trail))
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/anna").status == 503)
            #expect(try await count() == 1)
            _ = try await fixture.client.send(RedisCommand("DEL", .text(trail)), on: HashTag(ofKey: trail))
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/anna").status == 204)
            #expect(try await count() == 0)
            #expect(try await streams.audit.newest(9).map(\.action) == ["user.forget"])
        }
    }

    @Test func `A dead letter of a receipt goes when it names a device of the forgotten user, and others stay`()
        async throws
    {
        try await Fixture.with { fixture in
            _ = try await fixture.ask("PUT", Fixture.path("a"), #"{"provider":"fcm","token":"t-a","user":"anna"}"#)
            func receipt(_ device: String, app: String = "shop", idempotencyKey: String = "") throws -> [UInt8] {
                var receipt = SendReceipt(id: "r", send: "s", app: app, kind: .recipients)
                receipt.idempotencyKey = idempotencyKey
                var outcome = RecipientOutcome(
                    place: .address(0),
                    outcome: .accepted,
                    reason: .none,
                    at: UnixMilliseconds(1_000),
                )
                outcome.device = device
                receipt.recipients = [outcome]
                return try receipt.encode()
            }
            let named = [try receipt("a"), try receipt("b", idempotencyKey: "anna")]
            let others = [
                try receipt("aa"), try receipt("a", app: "other"), try receipt("b", idempotencyKey: "joanna"),
            ]
            let (streams, keys) = (fixture.installation.streams, fixture.installation.streams.keys(shard: 0))
            for (number, payload) in (named + others).enumerated() {
                var letter = DeadLetter(
                    stream: keys.receipts,
                    entry: "\(number)-0",
                    cause: .poison,
                    problem: Problem(code: "webhook", detail: "of a test"),
                    payload: payload,
                    at: UnixMilliseconds(1_000),
                )
                letter.app = try SendReceipt.decode(payload).app
                try await streams.deadLetters.keep(letter, tag: keys.tag)
            }
            #expect(try await fixture.ask("DELETE", "/v1/apps/shop/users/anna").status == 204)
            let left = try await streams.deadLetters.page(shard: 0, before: "+").letters.map(\.letter.entry)
            #expect(Set(left) == Set((named.count..<named.count + others.count).map { "\($0)-0" }))
        }
    }
}
