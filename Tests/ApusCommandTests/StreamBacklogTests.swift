import ApusCommand
import ApusCore
import ApusInstallation
import ApusMessages
import ApusPublisher
import ApusRedis
import ApusStreams
import ApusTerminal
import ApusTestKit
import Foundation
import Testing

@Suite struct StreamBacklogTests {
    private func send(_ target: Target, id: String = "") -> SendCommand {
        var notification = Notification()
        notification.title = "Hello"
        var command = SendCommand(app: "shop", target: target, notification: notification)
        command.id = id
        return command
    }

    @Test func `Streams that hold nothing are left out and counted, unless they are asked for`() {
        let rows = [
            StreamBacklog.Row(name: "in:bulk", shard: "", backlog: 2, pending: 0),
            StreamBacklog.Row(name: "outcomes", shard: "", backlog: 0, pending: 1),
            StreamBacklog.Row(name: "in:express", shard: "", backlog: 0, pending: 0),
            StreamBacklog.Row(name: "held", shard: "", backlog: 0),
        ]
        let lines = StreamBacklog.lines(rows, withEmpty: false)
        #expect(lines.count == 4 && lines[3] == "2 others hold nothing: --all shows them")
        #expect(lines[1].hasPrefix("in:bulk") && lines[2].hasPrefix("outcomes"))
        #expect(StreamBacklog.lines(rows, withEmpty: true).count == 5)
        #expect(StreamBacklog.lines(Array(rows.suffix(2)), withEmpty: false).first == "no stream holds anything")
    }

    @Test func `Where only the streams of an app's routes are looked at, nothing is said of others`() throws {
        let lines = StreamBacklog.lines([], withEmpty: false, of: try AppID("shop"))
        #expect(lines.count == 1 && lines[0].hasPrefix("no stream of the routes of shop holds anything; "))
    }

    @Test func `Backlog, pending entries and age of a mailbox are reported separately`() async throws {
        try await RedisServer.with { server in
            try await RedisAccess.withClient(server.url) { client in
                let report = try await InstallationSetup(client).perform(queueShards: 2, devicePartitions: 4)
                #expect(report.queueShards == 2)
                #expect(report.warnings.count == 1, "only that nothing is kept on disk: \(report.warnings)")
            }
            let publisher = try await Publisher(redis: server.url)
            let streams = publisher.installation.streams
            for index in 0..<3 { _ = try await publisher.publish(self.send(.users(["a"]), id: "s\(index)")) }
            let home = streams.home(app: "shop", "s0")
            _ = try await server.command("XGROUP", "CREATE", .text(home.mailbox(.bulk)), "dispatcher", "0")
            _ = try await server.command(
                "XREADGROUP",
                "GROUP",
                "dispatcher",
                "me",
                "COUNT",
                1,
                "STREAMS",
                .text(home.mailbox(.bulk)),
                ">",
            )
            let rows = try await StreamBacklog(streams).rows()
            let bulk = try #require(StreamBacklog.totals(rows).first { $0.name == "in:bulk" })
            #expect(bulk.backlog == 2)
            #expect(bulk.pending == 1)
            let age = try #require(bulk.oldestMilliseconds)
            #expect(age >= 0)
            let express = try #require(StreamBacklog.totals(rows).first { $0.name == "in:express" })
            #expect(express == StreamBacklog.Row(name: "in:express", shard: "", backlog: 0, pending: 0))
            await publisher.close()
        }
    }

    @Test func `Ages count from publication, and scheduled and held messages are reported`() async throws {
        try await RedisServer.with { server in
            try await RedisAccess.withClient(server.url) { client in
                _ = try await InstallationSetup(client).perform(queueShards: 2, devicePartitions: 4)
            }
            try await RedisAccess.withInstallation(server.url) { installation in
                let streams = installation.streams
                let (one, two) = (streams.keys(shard: 0), streams.keys(shard: 1))
                let time = try await server.command("TIME").root
                let now = (time.element(0)?.integer ?? 0) * 1_000
                var command = self.send(.users(["a"]), id: "s")
                command.publishedAtNanoseconds = (now - 90_000) * 1_000_000
                _ = try await server.command(
                    "XADD",
                    .text(one.mailbox(.express)),
                    "*",
                    "m",
                    .bytes(try command.encode())
                )
                _ = try await server.command(
                    "ZADD",
                    .text(one.due),
                    .integer(now - 5_000),
                    "a",
                    .integer(now + 60_000),
                    "b"
                )
                _ = try await server.command("ZADD", .text(two.due), .integer(now + 600_000), "c")
                _ = try await server.command("HSET", .text(one.heldCounts), "x", 3, "y", 4)
                _ = try await server.command("SADD", .text(two.openSends), "x", "y", "z")
                let totals = StreamBacklog.totals(try await StreamBacklog(streams).rows())
                func row(_ name: String) throws -> StreamBacklog.Row { try #require(totals.first { $0.name == name }) }
                let express = try row("in:express")
                let age = try #require(express.oldestMilliseconds)
                #expect(express.backlog == 1 && age >= 90_000)
                let due = try row("due")
                let late = try #require(due.oldestMilliseconds)
                #expect(due.backlog == 3 && late >= 5_000)
                let next = try #require(due.nextDueMilliseconds)
                #expect(next <= -5_000)
                let latest = try #require(due.latestDueMilliseconds)
                #expect((540_000...600_000).contains(latest))
                let held = try row("held")
                #expect(held.backlog == 7 && held.sends == 2)
                let sends = try row("sends")
                #expect(sends.backlog == 3)
                let keys = Set(totals.flatMap { $0.json.members.map(\.name) })
                #expect(keys == ["stream", "backlog", "pending", "oldest_ms", "next_due_ms", "latest_due_ms", "sends"])
            }
        }
    }

    @Test func `The rows of all shards are joined by stream`() {
        let rows = [
            StreamBacklog.Row(name: "a", shard: "{q0}", backlog: 1, pending: 2, oldestMilliseconds: 500),
            StreamBacklog.Row(name: "b", shard: "{q0}", backlog: 5),
            StreamBacklog.Row(name: "a", shard: "{q1}", backlog: 3, pending: 4, oldestMilliseconds: 90_000),
        ]
        let totals = StreamBacklog.totals(rows)
        #expect(
            totals == [
                StreamBacklog.Row(name: "a", shard: "", backlog: 4, pending: 6, oldestMilliseconds: 90_000),
                StreamBacklog.Row(name: "b", shard: "", backlog: 5),
            ]
        )
        #expect(
            StreamBacklog.table(totals).lines == [
                "STREAM  BACKLOG  PENDING  OLDEST", "a             4        6   1m30s", "b             5",
            ]
        )
    }

    @Test func `An evicting Redis is warned about, and another keyspace size is refused`() async throws {
        try await RedisServer.with(RedisServer.Options(settings: ["maxmemory-policy": "allkeys-lru"])) { server in
            try await RedisAccess.withClient(server.url) { client in
                let report = try await InstallationSetup(client).perform(queueShards: 1, devicePartitions: 1)
                #expect(report.warnings.contains { $0.contains("noeviction") })
            }
            await #expect {
                try await RedisAccess.withClient(server.url) { client in
                    _ = try await InstallationSetup(client).perform(queueShards: 2, devicePartitions: 1)
                }
            } throws: { error in
                "\(error)".contains("cannot be changed")
            }
        }
    }

    @Test func `A setting of Redis is written into its file, or the line to write there is named`() async throws {
        let options = RedisServer.Options(settings: ["hash-max-listpack-value": "64"])
        try await RedisServer.with(options) { server in
            func warnings() async throws -> [String] {
                try await RedisAccess.withClient(server.url) { client in
                    try await InstallationSetup(client).perform(queueShards: 1, devicePartitions: 1).warnings
                        .filter { $0.contains("listpack") }
                }
            }
            let file = "\(server.directory)/redis.conf"
            #expect(try await warnings() == [])
            #expect(try String(contentsOfFile: file, encoding: .utf8).contains("hash-max-listpack-value 512"))
            // Redis cannot write into a folder.
            try FileManager.default.removeItem(atPath: file)
            try FileManager.default.createDirectory(atPath: file, withIntermediateDirectories: false)
            _ = try await server.command("CONFIG", "SET", "hash-max-listpack-value", "64")
            let left = try await warnings()
            #expect(left.count == 1 && left[0].contains("only until Redis restarts"), "\(left)")
            #expect(left.first?.hasSuffix("Put this line into redis.conf: hash-max-listpack-value 512") == true)
            #expect(try await warnings() == [])
        }
    }

    @Test func `A missing Redis and a Redis without Apus are reported with the cure`() async throws {
        let port = try FreePort.find()
        await #expect {
            try await RedisAccess.withInstallation("redis://127.0.0.1:\(port)") { _ in }
        } throws: { error in
            "\(error)".contains("--redis")
        }
        try await RedisServer.with { server in
            await #expect {
                try await RedisAccess.withInstallation(server.url) { _ in }
            } throws: { error in
                "\(error)".contains("apus init")
            }
        }
    }
}
