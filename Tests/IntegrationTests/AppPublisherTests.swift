import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusPublisher
import ApusRedis
import ApusSimulator
import ApusStreams
import ApusTestKit
import Foundation
import Logging
import Testing

/// Tests publishers that may publish for some apps only, each in mailboxes of its own.
@Suite(.serialized) struct AppPublisherTests {
    private static let otherApp = SimulatedApp(name: "bank", bundleID: "com.example.bank", projectID: nil)

    /// Runs a fleet of two apps, with a publisher for each, whose Redis users `apus acl` makes.
    private static func with(_ body: (Fleet, _ url: (String) -> String) async throws -> Void) async throws {
        var configuration = LocalClusterConfiguration()
        configuration.hasRedisUsers = true
        configuration.simulator.apps = [.demo, Self.otherApp]
        configuration.publishers = ["demo-1": [Fleet.app], "bank-1": [Self.otherApp.name]]
        try await Fleet.with(configuration) { fleet in
            let folder = try TemporaryFolder()
            let file = try folder.write("password", Array("secret\n".utf8))
            for name in ["demo-1", "bank-1"] {
                let set = try OperatorProgram.run([
                    "acl", "set", "app-publisher", "--name", name, "--password-file", file, "--redis",
                    fleet.redis.tcpURL,
                ])
                #expect(set.code == 0, "\(set.talk)")
            }
            try await body(fleet) { fleet.redis.tcpURL.replacing("://", with: "://\($0):secret@") }
        }
    }

    private static func command(_ app: String, _ target: Target, id: String) -> SendCommand {
        var notification = Notification()
        notification.title = "Hello"
        var command = SendCommand(app: app, target: target, notification: notification)
        command.id = id
        return command
    }

    @Test func `What was written by a publisher that has left the configuration ends with a receipt`() async throws {
        try await Self.with { fleet, _ in
            let former = try PublisherName("former")
            let streams = fleet.installation.streams
            try await streams.publishers.add([former])
            let keys = streams.keys(shard: 0)
            for number in 0..<3 {
                let command = try Self.command(Fleet.app, .topic("news"), id: "late-\(number)").encode()
                let mailbox = keys.mailbox(number == 0 ? .express : .bulk, of: former)
                let add = RedisCommand("XADD", .text(mailbox), "*", "m", .bytes(command))
                _ = try await fleet.client.send(add, on: keys.tag)
            }
            let dispatcher = try await fleet.startDispatcher()
            let receipts = StreamKeys.receipts(of: former)
            try await eventually("each is refused where its publisher looks", timeout: .seconds(60)) {
                let range = RedisCommand("XRANGE", .text(receipts), "-", "+")
                let entries = try await fleet.client.send(range, on: HashTag(ofKey: receipts)).root.children
                let found = try entries.map { try SendReceipt.decode($0[1][1].bytes ?? []) }
                return Set(found.filter { $0.problem?.code == "not_permitted" }.map(\.send))
                    == ["late-0", "late-1", "late-2"]
            }
            try await eventually("nothing is left", timeout: .seconds(60)) {
                try await fleet.unfinishedEntries().isEmpty
            }
            try await dispatcher.terminate()
        }
    }

    @Test func `A publisher sends for its own app and reads its receipts, and for another app it is refused`()
        async throws
    {
        try await Self.with { fleet, url in
            let devices = try await fleet.register(40) { _ in ["news"] }
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let publisher = try await Publisher(redis: url("demo-1"), name: "demo-1")
            func receipt(
                _ command: SendCommand,
                _ lane: Lane = .bulk,
            ) async throws -> SendReceipt {
                let publication = try await publisher.publish(command, lane: lane)
                return try await publisher.finalReceipt(of: publication, within: .seconds(60))
            }
            let planned = try await receipt(Self.command(Fleet.app, .topic("news"), id: "planned"))
            #expect(planned.kind == .final && planned.planned == 40)
            let direct = try await receipt(
                Self.command(Fleet.app, .devices([devices[0].id]), id: "direct"),
                .express,
            )
            #expect(direct.kind == .final && direct.counts.map(\.outcome) == [.accepted])
            #expect(fleet.accepted(of: "direct") == [devices[0].token: 1])

            // The same command again is the same send: its receipt is the first one's.
            let again = try await receipt(
                Self.command(Fleet.app, .devices([devices[0].id]), id: "direct"),
                .express,
            )
            #expect(again.kind == .final && again.id == direct.id)
            #expect(fleet.accepted(of: "direct") == [devices[0].token: 1])

            // A digest that the publisher itself wrote beside its command is nobody's word that it was admitted.
            let forged = Self.command(Fleet.app, .devices([devices[1].id]), id: "forged")
            let keys = fleet.installation.streams.keys(shard: 0)
            let tag = keys.tag
            for _ in 0..<2 {
                _ = try await fleet.client.send(
                    RedisCommand(
                        "XADD",
                        .text(keys.mailbox(.express, of: try PublisherName("demo-1"))),
                        "*",
                        "m",
                        .bytes(try forged.encode()),
                        "a",
                        "12345678"
                    ),
                    on: tag
                )
            }
            try await eventually("both are handled", timeout: .seconds(60)) {
                try await fleet.unfinishedEntries().isEmpty
            }
            #expect(fleet.accepted(of: "forged") == [devices[1].token: 1])

            let foreign = try await receipt(Self.command(Self.otherApp.name, .everyone([]), id: "foreign"))
            #expect(foreign.kind == .refused && foreign.problem?.code == "not_permitted")
            #expect(foreign.problem?.field == "app")
            var elsewhere = Self.command(Fleet.app, .topic("news"), id: "elsewhere")
            elsewhere.replyTo = "apus:receipts:bank-1"
            _ = try await publisher.publish(elsewhere)
            try await eventually("the refusal is in the stream of its writer", timeout: .seconds(60)) {
                let range = RedisCommand("XRANGE", "apus:receipts:demo-1", "-", "+")
                let tag = HashTag(ofKey: "apus:receipts:demo-1")
                let entries = try await fleet.client.send(range, on: tag).root.children
                return try entries.map { try SendReceipt.decode($0[1][1].bytes ?? []) }
                    .contains { $0.send == "elsewhere" && $0.problem?.field == "reply_to" }
            }
            let length = RedisCommand("EXISTS", "apus:receipts:bank-1")
            #expect(try await fleet.client.send(length, on: HashTag(ofKey: "apus:receipts:bank-1")).root.integer == 0)
            #expect(fleet.accepted(of: "foreign").isEmpty && fleet.accepted(of: "elsewhere").isEmpty)
            await publisher.close()

            try await eventually("nothing is left", timeout: .seconds(60)) {
                try await fleet.unfinishedEntries().isEmpty
            }
            let lag = try OperatorProgram.run(["lag", "--all", "--redis", fleet.redis.tcpURL])
            let shown = lag.lines.joined(separator: "\n")
            #expect(shown.contains("in:express:demo-1") && shown.contains("in:bulk:bank-1"), "\(shown)")
            let log = try await fleet.redis.command("ACL", "LOG").root
            #expect(log.children.map(\.description) == [])
            for service in [dispatcher, feedback] { try await service.terminate() }
        }
    }

    @Test func `A publisher that means harm reaches nothing of another's`() async throws {
        try await Self.with { fleet, url in
            let devices = try await fleet.register(10)
            let keys = fleet.installation.streams.keys(shard: 0)
            let victim = try await Publisher(redis: url("demo-1"), name: "demo-1")
            for index in 0..<5 {
                _ = try await victim.publish(
                    Self.command(Fleet.app, .devices([devices[index].id]), id: "s\(index)"),
                    lane: .express
                )
            }
            let attacker = try RedisClient(
                configuration: RedisConfiguration(url: url("bank-1")),
                eventLoopGroup: fleet.client.eventLoopGroup,
                logger: Logger(label: "test"),
            )
            let (own, theirs) = (
                keys.mailbox(.express, of: try PublisherName("bank-1")),
                keys.mailbox(.express, of: try PublisherName("demo-1"))
            )
            let denied: [RedisCommand] = [
                .init("XADD", .text(theirs), "MAXLEN", "0", "*", "m", "x"),
                .init("XADD", .text(keys.mailbox(.express)), "18446744073709551615-1", "m", "x"),
                .init("XADD", .text(keys.work(RouteNumber(1), .express)), "*", "m", "x"),
                .init("XREAD", "STREAMS", .text(theirs), "0"), .init("XREAD", "STREAMS", .text(keys.receipts), "0"),
                .init("XREAD", "STREAMS", "apus:receipts:demo-1", "0"),
                .init("XREAD", "STREAMS", "apus:receipts:bank-12", "0"),
                .init("HSET", .text(keys.idempotency), "a", "b"), .init("XTRIM", .text(own), "MAXLEN", "0"),
                .init("SADD", "apus:publishers", "x"), .init("HGETALL", "apus:routes"), .init("DEL", .text(own)),
                .init("EVAL", "return 1", "0"), .init("FLUSHALL"), .init("CLIENT", "UNBLOCK", "1"),
                // A mailbox that is a hash could be read by nobody.
                .init("HSET", .text(own), "a", "b"), .init("XTRIM", .text(keys.mailbox(.bulk)), "MAXLEN", "0"),
            ]
            for command in denied {
                let error = await #expect(throws: RedisError.self) { try await attacker.send(command, on: keys.tag) }
                #expect(error?.code == .noPermission, "\(command): \(error.map { "\($0)" } ?? "")")
            }
            // In its own mailbox it may do as it likes: junk, commands of the other app, and an entry after which none can come.
            let foreign = try Self.command(Fleet.app, .devices([devices[0].id]), id: "forged").encode()
            for entry in [[], [0xff], foreign] {
                _ = try await attacker.send(
                    RedisCommand("XADD", .text(own), "*", "m", .bytes(entry), "a", "12345678"),
                    on: keys.tag
                )
            }
            _ = try await attacker.send(
                RedisCommand("XADD", .text(own), "18446744073709551615-1", "m", "x"),
                on: keys.tag
            )
            await attacker.close()

            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            try await eventually("the other's sends have ended, and the junk is refused", timeout: .seconds(60)) {
                try await fleet.unfinishedEntries().isEmpty
            }
            for index in 0..<5 { #expect(fleet.accepted(of: "s\(index)") == [devices[index].token: 1]) }
            #expect(fleet.accepted(of: "forged").isEmpty)
            // One who floods a mailbox fills no dead letters; what is refused is told to its writer.
            let dead = try OperatorProgram.run(["dead", "list", "--json", "--redis", fleet.redis.tcpURL])
            #expect(dead.code == 0 && !dead.lines.contains { $0.contains("bank-1") }, "\(dead.lines)")
            let range = RedisCommand("XRANGE", "apus:receipts:bank-1", "-", "+")
            let told = try await fleet.client.send(range, on: HashTag(ofKey: "apus:receipts:bank-1")).root.children
            let problems = try told.map { try SendReceipt.decode($0[1][1].bytes ?? []).problem?.code }
            #expect(problems.count(where: { $0 == "not_permitted" }) == 1 && problems.count == 4, "\(problems)")
            await victim.close()
            for service in [dispatcher, feedback] { try await service.terminate() }
        }
    }

    @Test func `A publisher that comes with the configuration is read from then on`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(1)
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let publisher = try await Publisher(redis: fleet.redis.url, name: "late")
            let publication = try await publisher.publish(
                Self.command(Fleet.app, .devices([devices[0].id]), id: "early"),
                lane: .express
            )
            let file = "\(dispatcher.directory)/apus.yaml"
            let text = try String(contentsOfFile: file, encoding: .utf8)
            let changed = text + "publishers: {late: {apps: [\(Fleet.app)]}}\n"
            try changed.write(toFile: file, atomically: true, encoding: .utf8)
            let receipt = try await publisher.finalReceipt(of: publication, within: .seconds(60))
            #expect(receipt.kind == .final)
            #expect(fleet.accepted(of: "early") == [devices[0].token: 1])
            await publisher.close()
            for service in [dispatcher, feedback] { try await service.terminate() }
        }
    }
}
