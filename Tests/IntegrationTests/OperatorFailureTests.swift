import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

/// Tests what commands of the operator leave behind, and how they end, when they could not do all of it.
@Suite struct OperatorFailureTests {
    private static func route() throws -> Route {
        Route(app: try AppID(Fleet.app), provider: .apns, environment: .production)
    }

    private static func register(_ id: String, token: String, _ fleet: Fleet) async throws -> StoredDevice {
        let registration = DeviceRegistration(device: id, provider: .apns, token: token)
        return try await fleet.installation.store.register(try Self.route().app, registration).device
    }

    private static func token(_ index: Int) -> String {
        Hexadecimal.encode([UInt8](repeating: UInt8(index), count: 32))
    }

    @Test func `A command that is used wrongly shows its own usage`() throws {
        for (words, usage) in [
            (["pause"], "apus pause"), (["resume"], "apus resume"),
            (["resume", "s", "--route", "a/apns"], "apus resume"),
            (["pause", "--route", "a/apns", "--app", "a"], "apus pause"), (["rate", "s"], "apus rate"),
            (["rate", "s", "fast"], "apus rate"), (["rate", "--route", "a/apns", "1", "2"], "apus rate"),
        ] {
            let answer = try OperatorProgram.run(words)
            #expect(answer.code == 64, "\(words): \(answer.talk)")
            #expect(answer.talk.contains("Usage: \(usage) ") && !answer.talk.contains("<subcommand>"), "\(answer.talk)")
        }
    }

    @Test func `A token that cannot be restored waits on in quarantine, is reported, and is restored later`()
        async throws
    {
        try await Fleet.with { fleet in
            let (streams, store) = (fleet.installation.streams, fleet.installation.store)
            let route = try Self.route()
            let number = try await streams.routes.number(of: route)
            var devices: [StoredDevice] = []
            var tokens: [OwnedToken] = []
            for index in 1...3 {
                let device = try await Self.register("phone-\(index)", token: Self.token(index), fleet)
                let (digest, now) = (DeviceToken.digest(device.record.token), fleet.clock.now())
                _ = try await store.markSuspect(
                    route,
                    device.reference,
                    tokenDigest: digest,
                    reason: .badToken,
                    since: now
                )
                let suspect = QuarantinedToken(
                    reference: device.reference,
                    tokenDigest: digest,
                    since: now.advanced(byMilliseconds: Int64(index)),
                    reason: .badToken
                )
                tokens.append(OwnedToken(suspect, of: "owner-\(index)", registeredAt: UnixMilliseconds(0)))
                devices.append(device)
            }
            let rules = GuardRules(
                windowMilliseconds: 60_000,
                delayMilliseconds: 600_000,
                tokensMin: 3,
                percentMax: 10,
                deadPercentMax: 50
            )
            #expect(try await streams.quarantine.add(tokens, of: 5, on: number, rules: rules).verdict == .tripped)

            // The record of the first is not what the store writes, for a while.
            let place = devices[0].reference
            let (partition, ordinal) = (Int(place.partition), Int(place.ordinal))
            let (slab, tag) = (
                store.keys.slab(route.app, Realm(route), partition, ordinal / 64), store.keys.tag(partition)
            )
            let read = RedisCommand("HGET", .text(slab), .integer(ordinal % 64))
            let sound = try await streams.client.send(read, on: tag)
            let bytes = try #require(sound.root.bytes)
            func write(_ record: RedisArgument) async throws {
                let command = RedisCommand("HSET", .text(slab), .integer(ordinal % 64), record)
                _ = try await streams.client.send(command, on: tag)
            }
            try await write("short")
            func settle(_ arguments: String...) throws -> (code: Int32, settled: Int?, failed: Int?) {
                let answer = try fleet.apus(["quarantine"] + arguments + ["--route", "\(Fleet.app)/apns"])
                let row = (answer.json["routes"] as? [[String: Any]])?.first
                return (answer.code, row?["settled"] as? Int, row?["failed"] as? Int)
            }
            #expect(try settle("restore") == (2, 2, 1))
            var state = try await streams.quarantine.state(of: number)
            #expect(state.tokens == 1 && state.quarantinedAt != nil)
            #expect(try await streams.routes.state(of: number).isPausedByGuard)
            #expect(try settle("confirm", "--yes") == (1, 0, 1))

            try await write(.bytes(bytes))
            #expect(try settle("restore") == (0, 1, 0))
            state = try await streams.quarantine.state(of: number)
            #expect(state.tokens == 0 && state.quarantinedAt == nil)
            #expect(try await !streams.routes.state(of: number).isPaused)
            for device in devices {
                let found = try await store.get(route.app, try DeviceID(device.id))
                #expect(found?.record.suspicion == nil && found != nil)
            }
        }
    }

    @Test func `A send whose safety could not be proven names the id with which it is repeated`() async throws {
        try await Fleet.with { fleet in
            func send(_ more: String...) throws -> OperatorProgram.Answer {
                let words = ["send", "--app", Fleet.app, "--user", "ada", "--title", "Hi", "--acknowledge", "replica"]
                return try OperatorProgram.run(words + more + ["--redis", fleet.redis.url])
            }
            _ = try await fleet.redis.command("ACL", "SETUSER", "default", "-wait")
            let failed = try send()
            #expect(failed.code == 1 && failed.output.isEmpty)
            let named = failed.talk.firstMatch(of: /It is safe to repeat this with --id (s[0-9a-z]{13})/)
            let id = try String(#require(named, "\(failed.talk)").1)
            _ = try await fleet.redis.command("ACL", "SETUSER", "default", "+wait")
            let again = try send("--id", id)
            #expect(again.code == 0 && again.lines == [id], "\(again.talk)")
            #expect(again.talk.contains("nothing was sent again"), "\(again.talk)")
        }
    }

    @Test func `A send that is waited for names its id at once, and is followed when Redis is back`() async throws {
        try await Fleet.with(isAppendOnly: true) { fleet in
            let words = ["send", "--app", Fleet.app, "--user", "ada", "--title", "Hi", "--wait", "--json"]
            let answer = try await OperatorProgram.running(words + ["--redis", fleet.redis.url]) { run in
                try await eventually("its id is named") { try run.talk.contains("published as ") }
                let named = try run.talk.firstMatch(
                    of: /apus watch (s[0-9a-z]{13}) .* repeat this with --id (s[0-9a-z]{13})/
                )
                let names = try #require(named)
                #expect(names.1 == names.2)
                let id = String(names.1)
                await fleet.redis.kill()
                try await eventually("Redis is missed") { try run.talk.contains("Redis does not answer") }
                try await fleet.redis.restart()
                var end = SendReceipt(id: "final", send: id, app: Fleet.app, kind: .final)
                end.planned = 1
                end.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
                let home = fleet.installation.streams.home(app: Fleet.app, id)
                try await fleet.installation.streams.outcomes.write(end, replyTo: "", tag: home.tag)
                try await eventually("it has ended") { !run.isRunning }
            }
            #expect(answer.code == 0 && answer.json?["state"]?.string == "done", "\(answer.talk)")
        }
    }

    @Test func `A send that is not complete in time is shown as it was seen last, also while Redis is away`()
        async throws
    {
        try await Fleet.with(isAppendOnly: true) { fleet in
            let words = ["send", "--app", Fleet.app, "--user", "ada", "--title", "Hi", "--wait", "--timeout", "2"]
            let answer = try await OperatorProgram.running(words + ["--json", "--redis", fleet.redis.url]) { run in
                try await eventually("its id is named") { try run.talk.contains("published as ") }
                await fleet.redis.kill()
                try await eventually("it has ended") { !run.isRunning }
                try await fleet.redis.restart()
            }
            #expect(answer.code == 1 && answer.json?["state"]?.string == "waiting", "\(answer.talk)")
            #expect(answer.talk.contains("continue with: apus watch"), "\(answer.talk)")
        }
    }

    @Test func `A send that was published before is called so when it is waited for again`() async throws {
        try await Fleet.with { fleet in
            let words = ["send", "--app", Fleet.app, "--user", "ada", "--title", "Hi", "--id", "once", "--wait"]
            let talks = try (0..<2).map { _ in
                try OperatorProgram.run(words + ["--timeout", "0", "--redis", fleet.redis.url]).talk
            }
            #expect(talks[0].contains("published as once") && !talks[1].contains("published as"), "\(talks)")
            #expect(talks[1].contains("published before as once, also shown by: apus watch once"), "\(talks)")
        }
    }

    @Test func `A notification is read from a pipe`() async throws {
        try await Fleet.with { fleet in
            let words = ["send", "--app", Fleet.app, "--topic", "news", "--notification", "/dev/stdin"]
            let text = Array(#"{"title": "Hi"}"#.utf8)
            let answer = try OperatorProgram.run(words + ["--redis", fleet.redis.url], input: text, isPiped: true)
            #expect(answer.code == 0 && answer.lines.count == 1, "\(answer.talk)")
        }
    }

    @Test func `A backlog that is watched is shown again when Redis is back`() async throws {
        try await Fleet.with(isAppendOnly: true) { fleet in
            let words = ["lag", "--watch", "--json", "--redis", fleet.redis.url]
            _ = try await OperatorProgram.running(words) { run in
                func looks() throws -> Int { try run.output.count { $0 == UInt8(ascii: "\n") } }
                try await eventually("it is shown") { try looks() > 0 }
                await fleet.redis.kill()
                try await eventually("Redis is missed") {
                    try #require(run.isRunning)
                    return try run.talk.contains("Redis does not answer")
                }
                try await fleet.redis.restart()
                let before = try looks()
                try await eventually("it is shown again") { try looks() > before }
            }
        }
    }

    @Test func `A device whose token another has by now does not come back, and the command fails`() async throws {
        try await Fleet.with { fleet in
            let (store, route) = (fleet.installation.store, try Self.route())
            for (index, id) in ["old", "gone"].enumerated() {
                let device = try await Self.register(id, token: Self.token(index + 1), fleet)
                let digest = DeviceToken.digest(device.record.token)
                _ = try await store.markSuspect(
                    route,
                    device.reference,
                    tokenDigest: digest,
                    reason: .badToken,
                    since: fleet.clock.now()
                )
                let pruned = try await store.pruneSuspect(
                    route,
                    device.reference,
                    tokenDigest: digest,
                    undo: .default
                )
                #expect("\(pruned)".hasPrefix("applied"))
            }
            _ = try await Self.register("new", token: Self.token(1), fleet)
            func restore(_ device: String) throws -> (code: Int32, tokenTaken: Int?, restored: Int?) {
                let answer = try fleet.apus("device", "restore", "--app", Fleet.app, device)
                let row = (answer.json["routes"] as? [[String: Any]])?.first
                return (answer.code, row?["token_taken"] as? Int, row?["restored"] as? Int)
            }
            #expect(try restore("old") == (1, 1, 0))
            #expect(try restore("gone") == (0, 0, 1))
        }
    }

    @Test func `Of the removed devices that have had a token, the last one comes back with it`() async throws {
        try await Fleet.with { fleet in
            let (store, route) = (fleet.installation.store, try Self.route())
            _ = try await fleet.installation.streams.routes.number(of: route)
            for (index, id) in ["first", "second", "last", "other"].enumerated() {
                let device = try await Self.register(id, token: Self.token(id == "other" ? 2 : 1), fleet)
                let pruned = try await store.prune(
                    route,
                    device.reference,
                    tokenDigest: DeviceToken.digest(device.record.token),
                    asOf: device.registeredAt.advanced(byMilliseconds: Int64(index + 1)),
                    undo: .default
                )
                #expect("\(pruned)".hasPrefix("applied"))
                // The times of registrations are in milliseconds.
                try await Task.sleep(for: .milliseconds(2))
            }
            for options in [["--dry-run"], []] {
                let words = ["device", "restore", "--route", "\(route)"] + options
                let row = (try fleet.apus(words).json["routes"] as? [[String: Any]])?.first
                #expect(row?["restored"] as? Int == 2 && row?["token_taken"] as? Int == 2, "\(row ?? [:])")
            }
            var devices: [String?] = []
            for id in ["first", "second", "last", "other"] {
                devices.append(try await store.get(route.app, DeviceID(id))?.id)
            }
            #expect(devices == [nil, nil, "last", "other"])
        }
    }

    @Test func `Taking a process out of the list is recorded before it is done`() async throws {
        try await Fleet.with { fleet in
            #expect(try fleet.apus("services", "--forget", "nobody").code == 1)
            let entries = try await fleet.installation.streams.audit.newest(5)
            #expect(entries.map(\.action) == ["service.forget"] && entries.map(\.object) == ["nobody"])
        }
    }

    @Test func `A send, a device, an import and a repair are recorded before they are done`() async throws {
        try await Fleet.with { fleet in
            let app = ["--app", Fleet.app, "--redis", fleet.redis.url]
            let sent = try OperatorProgram.run(["send", "--user", "ada", "--title", "Hi"] + app)
            let id = try #require(sent.lines.first, "\(sent.talk)")
            let device = ["device", "put", "phone", "--provider", "apns", "--token", Self.token(1)]
            for command in [device, ["store", "import"], ["store", "check", "--repair"]] {
                let answer = try OperatorProgram.run(command + app)
                #expect(answer.code == 0, "\(command): \(answer.talk)")
            }
            let entries = try await fleet.installation.streams.audit.newest(5, app: Fleet.app)
            #expect(entries.map(\.action) == ["store.repair", "store.import", "device.put", "send.publish"])
            #expect(entries.map(\.object) == ["", "", "phone", id] && entries.last?.detail == "user ada")
        }
    }

    @Test func `A command that a full Redis refuses says that it is full, and the cure`() async throws {
        try await Fleet.with { fleet in
            _ = try await fleet.redis.command("CONFIG", "SET", "maxmemory", "1")
            let arguments = ["key", "create", "--app", Fleet.app, "--role", "admin", "ops", "--redis", fleet.redis.url]
            let answer = try OperatorProgram.run(arguments)
            #expect(answer.code == 1 && answer.output.isEmpty)
            #expect(answer.talk.contains("is full and takes nothing new"), "\(answer.talk)")
        }
    }

    @Test(arguments: [
        ["channel", "send", "--app", "demo", "--state", "{}", "--ttl", "9223372036854775807", "dHN0LXNyY2gtY2hubA=="],
        ["channel", "send", "--app", "demo", "--state", "{}", "--ttl", "-1", "dHN0LXNyY2gtY2hubA=="],
        ["watch", "send-1", "--timeout", "1e300"], ["watch", "send-1", "--timeout", "nan"],
        ["send", "--app", "demo", "--topic", "news", "--title", "Hi", "--wait", "--timeout", "-1"],
    ])
    func `A number that is out of range is wrong usage`(arguments: [String]) throws {
        let answer = try OperatorProgram.run(arguments + ["--redis", "redis://127.0.0.1:1"])
        #expect(answer.code == 64, "\(answer.talk)")
    }

    @Test(arguments: ["--apns-port=-1", "--control-port=65536"])
    func `A port that is none is wrong usage`(argument: String) throws {
        let answer = try OperatorProgram.run(["simulate", argument, "--duration", "0.1"], program: "apus-lab")
        #expect(answer.code == 64 && answer.talk.contains("a port is 0 to 65,535"), "\(answer.talk)")
    }
}
