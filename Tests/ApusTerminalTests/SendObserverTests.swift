import ApusCore
import ApusInstallation
import ApusMessages
import ApusPublisher
import ApusRedis
import ApusStreams
import ApusTerminal
import ApusTestKit
import Testing

/// Tests what `apus watch` and `apus send --wait` find out of a send.
@Suite struct SendObserverTests {
    private static func with(_ body: (Installation, RedisServer) async throws -> Void) async throws {
        try await RedisServer.with { server in
            try await RedisAccess.withClient(server.url) { client in
                try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 4))
            }
            try await RedisAccess.withInstallation(server.url) { try await body($0, server) }
        }
    }

    @Test func `Commands that came again under an id, the same and another, leave its send as it is`() async throws {
        try await Self.with { installation, _ in
            let streams = installation.streams
            let tag = streams.home(app: "shop", "once").tag
            var again = SendReceipt(id: "duplicate:shop/once", send: "once", app: "shop", kind: .refused)
            again.problem = Problem(code: "duplicate", detail: "the same command was taken before")
            again.duplicateOf = "once"
            try await streams.outcomes.write(again, replyTo: "", tag: tag)
            var another = SendReceipt(id: "refused:shop/once", send: "once", app: "shop", kind: .refused)
            another.problem = Problem(code: "conflict", field: "id", detail: "names another command")
            try await streams.outcomes.write(another, replyTo: "", tag: tag)
            var observer = SendObserver(streams, app: "shop", send: "once")
            #expect(try await observer.look().phase == .waiting)
            let end = SendReceipt(id: "final:shop/once", send: "once", app: "shop", kind: .final)
            try await streams.outcomes.write(end, replyTo: "", tag: tag)
            #expect(try await observer.look().phase == .done)
            var later = SendObserver(streams, app: nil, send: "once")
            #expect(try await later.look().phase == .done)
        }
    }

    @Test func `A send is seen to end although the clock of Redis has gone back since it was published`() async throws {
        try await Self.with { installation, server in
            var command = SendCommand(app: "shop", target: .devices(["d"]), notification: Notification())
            (command.id, command.notification.title) = ("back", "Hello")
            let home = installation.streams.home(app: "shop", command.id)
            let last = SystemClock().now().value + 30_000
            _ = try await server.command("XADD", .text(home.mailbox(.bulk)), .text("\(last)-1"), "m", "")
            let publisher = try await Publisher(redis: server.url)
            let publication = try await publisher.publish(command)
            var observer = SendObserver(publisher, publication)
            #expect(try await observer.look().phase == .waiting)
            let end = SendReceipt(id: "final:shop/back", send: "back", app: "shop", kind: .final)
            try await installation.streams.outcomes.write(end, replyTo: "", tag: home.tag)
            #expect(try await observer.look().phase == .done)
            await publisher.close()
        }
    }

    @Test func `A direct send is seen to end while the master of other shards is away`() async throws {
        var options = RedisServer.Options()
        options.settings["cluster-require-full-coverage"] = "no"
        try await RedisCluster.with(masters: 3, replicas: 0, options) { cluster in
            try await RedisAccess.withClient(cluster.url) { client in
                try await Installation.initialize(client, keyspace: Keyspace(queueShards: 6, devicePartitions: 4))
            }
            var configuration = try RedisConfiguration(url: cluster.url)
            // Each call to the master that is away takes as long.
            configuration.patience = .seconds(1)
            let publisher = try await Publisher(configuration)
            let streams = publisher.installation.streams
            try await eventually("all masters are known") {
                (try? await streams.control.find(app: "shop", send: "none")) == .some(nil)
            }
            let victim = cluster.masters[0]
            func isLost(_ tag: HashTag) -> Bool {
                streams.client.topology.endpoint(forSlot: tag.slot) == RedisCluster.endpoint(victim)
            }
            let tags = (0..<6).map { streams.keys(shard: $0).tag }
            #expect(tags.contains(where: isLost))
            let ids = (0..<64).map { "s\($0)" }
            let id = try #require(ids.first { !isLost(streams.home(app: "shop", $0).tag) })
            var command = SendCommand(app: "shop", target: .devices(["d"]), notification: Notification())
            (command.id, command.notification.title) = (id, "Hello")
            var observer = SendObserver(publisher, try await publisher.publish(command))
            await victim.kill()
            // Its ledger might be there.
            let early = try? await observer.look()
            #expect(early == nil)
            let end = SendReceipt(id: "final:shop/\(id)", send: id, app: "shop", kind: .final)
            try await streams.outcomes.write(end, replyTo: "", tag: streams.home(app: "shop", id).tag)
            #expect(try await observer.look().phase == .done)
            await publisher.close()
        }
    }

    @Test func `A refusal ends a send only if it is of its own command, and so does a conflict`() async throws {
        try await Self.with { installation, server in
            var command = SendCommand(app: "shop", target: .devices(["d"]), notification: Notification())
            command.notification.title = "Hello"
            let publisher = try await Publisher(redis: server.url)
            for code in ["too_much_open", "conflict"] {
                command.id = code
                let tag = installation.streams.home(app: "shop", command.id).tag
                let publication = try await publisher.publish(command)
                var refusal = SendReceipt(id: "refused:earlier", send: code, app: "shop", kind: .refused)
                let problem = Problem(code: code, field: "id", detail: "is not taken")
                (refusal.problem, refusal.publishedAtNanoseconds) = (problem, publication.publishedAtNanoseconds - 1)
                try await installation.streams.outcomes.write(refusal, replyTo: "", tag: tag)
                var observer = SendObserver(publisher, publication)
                #expect(try await observer.look().phase == .waiting)
                (refusal.id, refusal.publishedAtNanoseconds) = ("refused:own", publication.publishedAtNanoseconds)
                try await installation.streams.outcomes.write(refusal, replyTo: "", tag: tag)
                #expect(try await observer.look().phase == .refused(problem))
            }
            await publisher.close()
        }
    }

    @Test func `A conflict of a command that came later under its id leaves a send as it is`() async throws {
        try await Self.with { installation, server in
            var command = SendCommand(app: "shop", target: .devices(["d"]), notification: Notification())
            (command.id, command.notification.title) = ("first", "Hello")
            let publisher = try await Publisher(redis: server.url)
            let publication = try await publisher.publish(command)
            var conflict = SendReceipt(id: "refused:later", send: "first", app: "shop", kind: .refused)
            conflict.problem = Problem(code: "conflict", field: "id", detail: "names another command")
            conflict.publishedAtNanoseconds = publication.publishedAtNanoseconds + 1
            let tag = installation.streams.home(app: "shop", command.id).tag
            try await installation.streams.outcomes.write(conflict, replyTo: "", tag: tag)
            var observer = SendObserver(publisher, publication)
            #expect(try await observer.look().phase == .waiting)
            // The same command again is the send that was refused, whenever each was published.
            conflict.problem?.code = "too_much_open"
            conflict.publishedAtNanoseconds = publication.publishedAtNanoseconds - 1
            try await installation.streams.outcomes.write(conflict, replyTo: "", tag: tag)
            #expect(try await observer.look().phase == .waiting)
            var same = SendObserver(publisher, try await publisher.publish(command))
            #expect(try await same.look().phase.name == "refused")
            await publisher.close()
        }
    }

    @Test(arguments: [("", true), ("apus:receipts:test", true), ("apus:receipts:test", false)])
    func `An observer of a publication looks further back only where its receipts may be`(
        replyTo: String,
        isAtHome: Bool
    ) async throws {
        try await Self.with { installation, server in
            var command = SendCommand(app: "shop", target: .devices(["d"]), notification: Notification())
            (command.id, command.replyTo, command.notification.title) = ("own", replyTo, "Hello")
            let home = installation.streams.home(app: "shop", command.id)
            let shards = (0..<2).map { installation.streams.keys(shard: $0) }
            let other = try #require(shards.first { $0.tag != home.tag })
            let publisher = try await Publisher(redis: server.url)
            let publication = try await publisher.publish(command)
            var observer = SendObserver(publisher, publication)
            let end = try SendReceipt(id: "final:shop/own", send: "own", app: "shop", kind: .final).encode()
            let entry = RedisArgument.text("\(SystemClock().now().value - 30_000)-1")
            _ = try await server.command("XADD", .text(other.receipts), entry, "m", .bytes(end))
            #expect(try await observer.look().phase == .waiting)
            let stream = isAtHome ? home.receipts : replyTo
            _ = try await server.command("XADD", .text(stream), entry, "m", .bytes(end))
            #expect(try await observer.look().phase == .done)
            await publisher.close()
        }
    }
}
