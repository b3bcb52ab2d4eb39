import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

extension Fixture {
    /// Writes a command as a backend does: into the shard of its app and device.
    func write(_ command: RegistrationCommand, for device: String = "d1") async throws {
        let keys = self.installation.streams.home(app: command.app, device)
        try await self.write(try command.encode(), to: keys)
    }

    fileprivate func write(_ bytes: [UInt8], to keys: StreamKeys) async throws {
        _ = try await self.client.send(
            RedisCommand("XADD", [.text(keys.register), .text("*"), .text("m"), .bytes(bytes)]),
            on: keys.tag,
        )
    }

    /// Waits until nothing is left in any register stream.
    fileprivate func waitUntilDone() async throws {
        try await eventually("the register streams are empty") {
            for shard in 0..<Self.keyspace.queueShards {
                let keys = self.installation.streams.keys(shard: shard)
                let length = try await self.client.send(RedisCommand("XLEN", [.text(keys.register)]), on: keys.tag)
                if length.root.integer != 0 { return false }
            }
            return true
        }
    }

    fileprivate func messages(_ key: String) async throws -> [[UInt8]] {
        let reply = try await self.client.send(
            RedisCommand("XRANGE", [.text(key), .text("-"), .text("+")]),
            on: HashTag(ofKey: key),
        )
        return reply.root.children.map { Array($0[1].children)[1].bytes ?? [] }
    }

    fileprivate func deadLetters() async throws -> [DeadLetter] {
        var letters: [DeadLetter] = []
        for shard in 0..<Self.keyspace.queueShards {
            for bytes in try await self.messages(self.installation.streams.keys(shard: shard).dead) {
                letters.append(try DeadLetter.decode(bytes))
            }
        }
        return letters
    }

    fileprivate func stored(_ device: String = "d1") async throws -> StoredDevice? {
        try await self.store.get(try AppID("shop"), try DeviceID(device))
    }
}

private func register(_ token: String, asOf: UnixMilliseconds? = nil) -> RegistrationCommand {
    var registration = DeviceRegistration(device: "d1", provider: .fcm, token: token)
    registration.user = "anna"
    var command = RegistrationCommand(app: "shop", action: .register(registration))
    command.asOf = asOf
    return command
}

@Suite struct RegisterStreamTests {
    @Test func `A backend whose app has as many devices as it may is told so where it looks`() async throws {
        try await Fixture.with(settings: "  devices_per_app: 1") { fixture in
            // Each of four partitions takes three at most.
            for index in 0..<13 {
                let registration = DeviceRegistration(device: "d\(index)", provider: .fcm, token: "t\(index)")
                var command = RegistrationCommand(app: "shop", action: .register(registration))
                command.replyTo = "apus:receipts:shop"
                try await fixture.write(command, for: "d\(index)")
            }
            try await fixture.waitUntilDone()
            let receipts = try await fixture.messages("apus:receipts:shop").map { try SendReceipt.decode($0) }
            #expect(receipts.count == 13)
            let refused = receipts.filter { $0.kind == .refused }
            #expect(refused.count >= 1 && refused.allSatisfy { $0.problem?.code == "device_limit" })
            #expect(try await fixture.deadLetters().allSatisfy { $0.problem.code == "device_limit" })
            #expect(try await fixture.deadLetters().count == refused.count)
        }
    }

    @Test func commandsOfOneDeviceAreDoneInTheirOrder() async throws {
        try await Fixture.with { fixture in
            var attributes = Attributes()
            attributes.locale = "fr"
            let actions: [RegistrationCommand.Action] = [
                .subscribe(device: "d1", topics: ["a", "b"]), .unsubscribe(device: "d1", topics: ["a"]),
                .bindUser(device: "d1", user: "bert"), .setAttributes(device: "d1", attributes),
                .subscribe(device: "d1", topics: ["c"]), .unsubscribe(device: "d1", topics: ["c"]),
                .unbindUser(device: "d1"), .bindUser(device: "d1", user: "carl"), .setBadge(device: "d1", 6),
            ]
            try await fixture.write(register("t1"))
            for action in actions { try await fixture.write(RegistrationCommand(app: "shop", action: action)) }
            try await fixture.waitUntilDone()
            let device = try #require(try await fixture.stored())
            let names = try await fixture.store.topicNames(try AppID("shop"), device.record.topics)
            #expect(names.map { $0?.text } == ["b"])
            #expect(device.record.user == "carl")
            #expect(device.record.attributes.locale == "fr")
            #expect(try await fixture.store.badge(of: device) == 6)
            #expect(try await fixture.deadLetters().isEmpty)

            try await fixture.write(RegistrationCommand(app: "shop", action: .deleteUser("carl")))
            try await fixture.waitUntilDone()
            #expect(try await fixture.stored() == nil)
            let metrics = try await fixture.metrics
            for (change, count) in [("created", 1), ("updated", 9), ("deleted", 1)] {
                #expect(
                    metrics.contains(
                        "apus_registration_changes_total{provider=\"fcm\",change=\"\(change)\",source=\"stream\"} \(count)\n"
                    )
                )
            }
            #expect(metrics.contains("entries_acked_total{stream=\"register\",group=\"registration\"} 11\n"))
        }
    }

    @Test func `Commands of one device are done in their order when two processes read them`() async throws {
        try await Fixture.with { fixture in
            try await fixture.withSecondService {
                let keys = fixture.installation.streams.keys(shard: 0)
                try await eventually("both read the stream") {
                    // A consumer is known once it has got an entry.
                    let action = RegistrationCommand.Action.register(
                        DeviceRegistration(device: "first", provider: .fcm, token: "t-first")
                    )
                    try await fixture.write(try RegistrationCommand(app: "shop", action: action).encode(), to: keys)
                    let question = RedisCommand("XINFO", "CONSUMERS", .text(keys.register), "registration")
                    let consumers = try? await fixture.client.send(question, on: keys.tag)
                    return consumers?.root.count == 2
                }
                let devices = (0..<60).map { "d\($0)" }
                for device in devices {
                    let registration = DeviceRegistration(device: device, provider: .fcm, token: "t-\(device)")
                    for action in [.register(registration), .subscribe(device: device, topics: ["news"])]
                        as [RegistrationCommand.Action]
                    {
                        try await fixture.write(try RegistrationCommand(app: "shop", action: action).encode(), to: keys)
                    }
                }
                try await fixture.waitUntilDone()
                #expect(try await fixture.deadLetters().isEmpty)
                for device in devices { #expect(try await fixture.stored(device)?.record.topics.count == 1) }
            }
        }
    }

    @Test func aDuplicateChangesNothingAndWhatIsOlderThanTheRecordIsIgnored() async throws {
        try await Fixture.with { fixture in
            let then = UnixMilliseconds(1_700_000_000_000)
            try await fixture.write(register("t1", asOf: then))
            try await fixture.waitUntilDone()
            let first = try #require(try await fixture.stored())
            #expect(first.registeredAt == then)
            try await fixture.write(register("old", asOf: then.advanced(byMilliseconds: -1)))
            var late = RegistrationCommand(app: "shop", action: .unregister(device: "d1"))
            late.asOf = then.advanced(byMilliseconds: -1)
            try await fixture.write(late)
            try await fixture.waitUntilDone()
            #expect(try await fixture.stored() == first)
            // The same again, years later: the token is confirmed and the device was seen, nothing else changes.
            try await fixture.write(register("t1"))
            try await fixture.write(register("t1"))
            try await fixture.waitUntilDone()
            let again = try #require(try await fixture.stored())
            var seen = first.record
            seen.seenAtHours = again.record.seenAtHours
            #expect(again.record == seen && seen.seenAtHours > first.record.seenAtHours)
            #expect(again.reference == first.reference && again.registeredAt > first.registeredAt)
            try await fixture.write(RegistrationCommand(app: "shop", action: .unregister(device: "d1")))
            try await fixture.write(RegistrationCommand(app: "shop", action: .unregister(device: "d1")))
            try await fixture.waitUntilDone()
            #expect(try await fixture.stored() == nil)
            let metrics = try await fixture.metrics
            #expect(metrics.contains("change=\"ignored\",source=\"stream\"} 2\n"))
            #expect(metrics.contains("change=\"unchanged\",source=\"stream\"} 1\n"))
            #expect(try await fixture.deadLetters().isEmpty)
        }
    }

    @Test func `A command that is larger than any becomes a dead letter with its beginning`() async throws {
        try await Fixture.with { fixture in
            let keys = fixture.installation.streams.keys(shard: 0)
            let bytes = try register("t1").encode() + [UInt8](repeating: 0x7a, count: 300 * 1_024)
            try await fixture.write(bytes, to: keys)
            try await fixture.write(register("t1"))
            try await fixture.waitUntilDone()
            let letters = try await fixture.deadLetters()
            #expect(letters.map(\.cause) == [.malformed])
            #expect(letters.map(\.payload) == [Array(bytes.prefix(Limits.deadLetterPayloadBytesMax))])
            #expect(try await fixture.stored() != nil)
        }
    }

    @Test func whatCannotBeDoneIsKeptForTheOperator() async throws {
        try await Fixture.with { fixture in
            let keys = fixture.installation.streams.keys(shard: 0)
            try await fixture.write([0xff, 0xff], to: keys)
            try await fixture.write(
                try RegistrationCommand(app: "nowhere", action: .deleteUser("u")).encode(),
                to: keys
            )
            try await fixture.write(
                try RegistrationCommand(app: "shop", action: .subscribe(device: "gone", topics: ["a"])).encode(),
                to: keys,
            )
            let bad = DeviceRegistration(device: "d1", provider: .apns, token: "not-hexadecimal")
            try await fixture.write(try RegistrationCommand(app: "shop", action: .register(bad)).encode(), to: keys)
            var elsewhere = register("t1")
            elsewhere.replyTo = "{q0}outcomes"
            try await fixture.write(try elsewhere.encode(), to: keys)
            try await fixture.waitUntilDone()
            let letters = try await fixture.deadLetters()
            #expect(letters.map(\.cause) == [.malformed, .invalid, .invalid, .invalid, .invalid])
            #expect(
                letters.map(\.problem.code)
                    == ["malformed", "unknown_app", "unknown_device", "invalid_registration", "invalid_reply_to"]
            )
            #expect(letters[3].problem.field == "register.token")
            #expect(letters.allSatisfy { $0.service == "registration" && $0.stream == keys.register })
            #expect(letters[0].payload == [0xff, 0xff])
            #expect(try await fixture.stored() == nil)
            let metrics = try await fixture.metrics
            #expect(metrics.contains("apus_stream_entries_malformed_total{stream=\"register\"} 1\n"))
            #expect(metrics.contains("apus_stream_dead_letters_total{stream=\"register\",reason=\"invalid\"} 4\n"))
        }
    }

    @Test func `Attributes keep the same rules whether they come alone or with a registration`() async throws {
        try await Fixture.with { fixture in
            var attributes = Attributes()
            attributes.locale = "no locale"
            var command = register("t1")
            var registration = DeviceRegistration(device: "d1", provider: .fcm, token: "t1")
            registration.attributes = attributes
            command.replyTo = "apus:receipts:shop"
            try await fixture.write(command)
            for action in [.setAttributes(device: "d1", attributes), .register(registration)]
                as [RegistrationCommand.Action]
            {
                command.action = action
                try await fixture.write(command)
            }
            try await fixture.waitUntilDone()
            let letters = try await fixture.deadLetters()
            #expect(letters.map(\.cause) == [.invalid, .invalid])
            #expect(letters.allSatisfy { $0.problem.code == "invalid_registration" })
            let places = ["set_attributes.attributes.locale", "register.attributes.locale"]
            #expect(letters.map(\.problem.field) == places)
            #expect(Set(letters.map(\.problem.detail)).count == 1)
            let receipts = try await fixture.messages("apus:receipts:shop").map { try SendReceipt.decode($0) }
            #expect(receipts.map(\.problem?.code) == [nil, "invalid_registration", "invalid_registration"])
            #expect(try await fixture.stored()?.record.attributes == Attributes())
        }
    }

    @Test func whoAsksForAnAnswerGetsOne() async throws {
        try await Fixture.with { fixture in
            var command = register("t1")
            command.id = "my-1"
            command.replyTo = "apus:receipts:shop"
            try await fixture.write(command)
            command.id = "my-2"
            command.action = .subscribe(device: "gone", topics: ["a"])
            try await fixture.write(command)
            try await fixture.waitUntilDone()
            let receipts = try await fixture.messages("apus:receipts:shop").map { try SendReceipt.decode($0) }
            #expect(receipts.map(\.send) == ["my-1", "my-2"])
            #expect(receipts.map(\.kind) == [.final, .refused])
            #expect(receipts.map(\.problem?.code) == [nil, "unknown_device"])
            #expect(Set(receipts.map(\.id)).count == 2)
        }
    }

    @Test func whatADeadConsumerHeldIsTakenOver() async throws {
        try await Fixture.with { fixture in
            let keys = fixture.installation.streams.home(app: "shop", "d1")
            try await eventually("the service reads the stream") {
                let groups = try? await fixture.client.send(
                    RedisCommand("XINFO", "GROUPS", .text(keys.register)),
                    on: keys.tag,
                )
                return groups?.root.count == 1
            }
            // Written and read in one step, so that nobody else can be first.
            let script = """
                redis.call('XADD', KEYS[1], '*', 'm', ARGV[1])
                redis.call('XREADGROUP', 'GROUP', 'registration', 'dead', 'COUNT', '1', 'STREAMS', KEYS[1], '>')
                """
            _ = try await fixture.client.send(
                RedisCommand(
                    "EVAL",
                    .text(script),
                    "1",
                    .text(keys.register),
                    .bytes(try register("t1").encode()),
                ),
                on: keys.tag,
            )
            try await fixture.waitUntilDone()
            #expect(try await fixture.stored() != nil)
            #expect(
                try await fixture.metrics.contains(
                    "apus_stream_entries_claimed_total{stream=\"register\",group=\"registration\"} 1\n"
                )
            )
        }
    }
}
