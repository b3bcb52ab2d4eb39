import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusPublisher
import ApusRedis
import ApusSimulator
import ApusTestKit
import Testing

/// The users of Redis that `apus acl` makes, in a running installation. The drills run with them, too.
@Suite struct RedisUserTests {
    @Test func `Services, a publisher and the operator do their work as their users, and nothing beside it`()
        async throws
    {
        var configuration = LocalClusterConfiguration()
        configuration.hasRedisUsers = true
        configuration.hasWebPush = true
        configuration.redis = RedisServer.Options(isCluster: false)
        configuration.simulator.deadShare = DeadShare(0.1, seed: 1)
        try await Fleet.with(configuration) { fleet in
            // Some commands wait until a replica has confirmed them.
            let replica = RedisServer.Options(isCluster: false, primaryPort: fleet.redis.port)
            try await RedisServer.with(replica) { _ in try await Self.work(in: fleet) }
        }
    }

    @Test func `A password is read from its file as services read it, and several lines are none`() throws {
        let folder = try TemporaryFolder()
        func show(_ text: String) throws -> OperatorProgram.Answer {
            let file = try folder.write("password", text)
            return try OperatorProgram.run(["acl", "show", "operator", "--password-file", file])
        }
        let (plain, spaced, several) = try (show("secret"), show(" secret \r\n\n"), show("secret\nother\n"))
        #expect(plain.code == 0 && plain.lines.count == 1 && spaced.lines == plain.lines, "\(spaced.talk)")
        #expect(several.code == 1 && several.talk.contains("has several lines"), "\(several.talk)")
    }

    private static func work(in fleet: Fleet) async throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("password", Array("secret\n".utf8))
        for user in ["operator", "publisher"] {
            let set = try OperatorProgram.run([
                "acl", "set", user, "--password-file", file, "--redis", fleet.redis.tcpURL,
            ])
            // The test's Redis has a configuration file, which keeps the user.
            #expect(set.code == 0, "\(set.talk)")
        }
        func url(_ user: String) -> String { fleet.redis.tcpURL.replacing("://", with: "://apus-\(user):secret@") }

        let devices = try await fleet.register(200, topics: { _ in ["news"] }, user: { "user-\($0)" })
        let (registration, _) = try await fleet.startRegistration()
        let dispatcher = try await fleet.startDispatcher()
        let feedback = try await fleet.startFeedback()
        let publisher = try await Publisher(redis: url("publisher"))
        var notification = Notification()
        notification.title = "Hello"
        for (number, target) in [Target.topic("news"), .users(["user-1", "user-2"]), .everyone([])].enumerated() {
            var command = SendCommand(app: Fleet.app, target: target, notification: notification)
            command.id = "s\(number)"
            command.idempotencyKey = "k\(number)"
            let publication = try await publisher.publish(command)
            _ = try await publisher.finalReceipt(of: publication, within: .seconds(60))
            #expect(try await publisher.publish(command).isDuplicate)
        }
        await publisher.close()
        try await Self.operate(as: url("operator"), fleet)
        #expect(try await Self.denials(fleet) == [])
        // A publisher follows its send by the receipt or the ledger, although it may see neither services nor routes.
        let alive = fleet.accepted(of: "s0")
        let device = try #require(devices.first { alive[$0.token] != nil })
        for target in [["--device", device.id], ["--topic", "news"]] {
            let words = ["--app", Fleet.app, "--title", "Hi", "--wait", "--timeout", "60", "--json"]
            let answer = try OperatorProgram.run(["send"] + target + words + ["--redis", url("publisher")])
            #expect(answer.json?["state"]?.string == "done", "\(answer.talk)")
            #expect(answer.json?["events"] == JSONValue.null && !answer.talk.contains("password"), "\(answer.talk)")
        }
        for service in [registration, dispatcher, feedback] { try await service.terminate() }
        #expect(try await Self.denials(fleet).filter { !$0.contains("apus-publisher") } == [])
        // A publisher may not write the operators' trail, and sends all the same.
        let send = ["send", "--app", Fleet.app, "--topic", "news", "--title", "Hi", "--redis", url("publisher")]
        let answer = try OperatorProgram.run(send)
        #expect(answer.code == 0, "\(answer.talk)")
        try await Self.checkDenials(fleet)
    }

    /// Returns what Redis has denied users, the latest first.
    private static func denials(_ fleet: Fleet) async throws -> [String] {
        try await fleet.redis.command("ACL", "LOG", "100").root.children.map(\.description)
    }

    /// Does what an operator does, as the user of that address.
    private static func operate(as url: String, _ fleet: Fleet) async throws {
        for command in [
            ["lag"], ["lag", "--shards"], ["services"], ["dead", "list"], ["quarantine", "list"],
            [
                "device", "put", "--app", Fleet.app, "mine", "--provider", "apns", "--token",
                String(repeating: "ab", count: 32),
            ],
            ["device", "get", "--app", Fleet.app, "mine"], ["device", "history", "--app", Fleet.app, "mine"],
            ["send", "--app", Fleet.app, "--device", "mine", "--title", "Hi"],
            ["send", "--app", Fleet.app, "--everyone", "--title", "Hi", "--id", "slow", "--rate", "1"],
            ["pause", "--route", "\(Fleet.app)/apns"], ["resume", "--route", "\(Fleet.app)/apns"],
            ["store", "check", "--app", Fleet.app], ["device", "rm", "--app", Fleet.app, "mine"],
            ["key", "create", "--app", Fleet.app, "--role", "publish", "backend"],
            ["key", "list", "--app", Fleet.app],
        ] {
            let answer = try OperatorProgram.run(command + ["--redis", url])
            #expect(answer.code == 0, "\(command): \(answer.talk)")
        }
        // A dispatcher keeps it as soon as it has read it, and for as long as two hundred seconds.
        try await eventually("a send can be paused") {
            try OperatorProgram.run(["pause", "slow", "--redis", url]).code == 0
        }
        for command in [["rate", "slow", "2"], ["resume", "slow"], ["cancel", "slow"]] {
            let answer = try OperatorProgram.run(command + ["--redis", url])
            #expect(answer.code == 0, "\(command): \(answer.talk)")
        }
    }

    /// Each is kept from what is another's.
    private static func checkDenials(_ fleet: Fleet) async throws {
        let tag = fleet.installation.keyspace.tag(partition: 0)
        let shard = fleet.installation.keyspace.tag(shard: 0)
        let denied: [(String, String, [String])] = [
            ("dispatcher", "HSET", ["\(tag)demo:apns:rec:0", "a", "b"]),
            ("dispatcher", "DEL", ["\(tag)demo:tok:0"]),
            ("dispatcher", "HGETALL", ["apus:keys:demo"]), ("feedback", "GET", ["apus:jwt:TEAM:KEY"]),
            ("feedback", "HGETALL", ["apus:keys:demo"]),
            ("registration", "XADD", ["\(shard)outcomes", "*", "m", "x"]),
            ("registration", "HSET", ["\(shard)route:1", "a", "b"]),
            ("registration", "GET", ["apus:jwt:TEAM:KEY"]),
            ("registration", "HSET", ["apus:keys:demo", "a", "b"]),
            ("apus-publisher", "HGETALL", ["\(tag)demo:apns:rec:0"]),
            ("apus-publisher", "XREAD", ["STREAMS", "apus:receipts:other", "0"]),
            ("apus-operator", "EVAL", ["return 1", "0"]), ("apus-operator", "CONFIG", ["GET", "requirepass"]),
            ("dispatcher", "GET", ["other"]),
        ]
        for (user, command, arguments) in denied {
            let words = [user, command] + arguments
            let question = RedisCommand("ACL", [.text("DRYRUN")] + words.map { .text($0) })
            let reply = try await fleet.client.send(question, on: shard).root.string
            #expect(reply?.contains("permissions") == true, "\(words): \(reply ?? "")")
        }
    }
}
