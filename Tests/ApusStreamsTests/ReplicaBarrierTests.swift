import ApusInstallation
import ApusMessages
import ApusRedis
import ApusTestKit
import Logging
import NIOPosix
import Testing

@testable import ApusStreams

/// Tests that an effect on one master is on its replica before it is acknowledged on another.
@Suite(.serialized) struct ReplicaBarrierTests {
    /// The calls of a command that a server has executed since it started.
    private static func calls(_ command: String, _ server: RedisServer) async throws -> Int {
        let text = try await server.command("INFO", "commandstats").root.text()
        let line = text.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_\(command):calls=") }
        return line.flatMap { Int($0.drop { $0 != "=" }.dropFirst().prefix { $0 != "," }) } ?? 0
    }

    /// Three masters with a replica each, and the tag of a queue shard on each.
    private static func with(
        _ body: (_ cluster: RedisCluster, _ client: RedisClient, _ tags: [HashTag]) async throws -> Void
    ) async throws {
        try await RedisCluster.with(masters: 3) { cluster in
            let client = try RedisClient(
                configuration: RedisConfiguration(url: cluster.url),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            let library = try FunctionLibrary(
                name: "apus2",
                version: .init(major: 2, minor: 0),
                sources: [
                    Array(
                        """
                        redis.register_function{function_name = 'apus2_mark_write', callback = function(keys)
                            return redis.call('HINCRBY', keys[1], 'marked', 1)
                        end}
                        """.utf8
                    )
                ]
            )
            try await library.load(on: client)
            let tags = try cluster.masters.map { master in
                try #require(
                    (0..<64).map { HashTag("q\($0)") }.first {
                        client.topology.endpoint(forSlot: $0.slot) == RedisCluster.endpoint(master)
                    }
                )
            }
            try await body(cluster, client, tags)
            await client.close()
        }
    }

    @Test func `An effect on the server of its acknowledgement waits for nothing and asks nothing`() async throws {
        try await StreamsFixture.with { fixture in
            let barrier = ReplicaBarrier(fixture.client)
            let tags = (0..<4).map { fixture.streams.keyspace.tag(partition: $0) }
            let before = (try await Self.calls("info", fixture.server), try await Self.calls("wait", fixture.server))
            for _ in 0..<100 {
                try await barrier.wait(for: tags, acknowledgedAt: fixture.keys.tag, since: barrier.ticket())
            }
            #expect(try await Self.calls("info", fixture.server) == before.0 + 2, "this test's own")
            #expect(try await Self.calls("wait", fixture.server) == before.1)
            await barrier.close()
        }
    }

    @Test func `Many effects share a wait, and a silent replica holds all of them up`() async throws {
        try await Self.with { cluster, client, tags in
            let barrier = ReplicaBarrier(client, patience: .milliseconds(300))
            func pass() async -> RedisError.Code? {
                do throws(RedisError) {
                    try await barrier.wait(for: [tags[0]], acknowledgedAt: tags[1], since: barrier.ticket())
                    return nil
                } catch {
                    return error.code
                }
            }
            // Before the first effect the server's process was not known.
            let first = await pass()
            #expect(first == .serverChanged)
            try await eventually("it is known") { await pass() == nil }
            let before = try await Self.calls("wait", cluster.masters[0])
            let results = await withTaskGroup(of: RedisError.Code?.self) { group in
                for _ in 0..<500 { group.addTask { await pass() } }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(results.count == 500 && results.allSatisfy { $0 == nil })
            let waits = try await Self.calls("wait", cluster.masters[0]) - before
            #expect((1...50).contains(waits), "\(waits)")
            let replica = try await cluster.replica(of: cluster.masters[0])
            replica.suspend()
            let held = await pass()
            #expect(held == .noReplicas)
            replica.resume()
            try await eventually("it is confirmed again") { await pass() == nil }
            #expect(try await Self.calls("wait", cluster.masters[1]) == 0, "nobody waited for the other")
            await barrier.close()
        }
    }

    @Test
    func `Effects that were begun wait for their replica at once, and not on the server of their acknowledgement`()
        async throws
    {
        try await Self.with { cluster, client, tags in
            let (patient, impatient) = (
                ReplicaBarrier(client, patience: .seconds(30)), ReplicaBarrier(client, patience: .milliseconds(200))
            )
            let replica = try await cluster.replica(of: cluster.masters[0])
            try await eventually("its replica is in step") {
                try await cluster.masters[0].command("INFO", "replication").root.text().contains("state=online")
            }
            // The server is known before the effects, so nothing needs to be repeated.
            let first = try await patient.begin(for: [tags[0]], acknowledgedAt: tags[1])
            try await first()
            #expect(try await Self.calls("wait", cluster.masters[0]) == 1)
            replica.suspend()
            let own = try await impatient.begin(for: [tags[0]], acknowledgedAt: tags[0])
            try await own()
            #expect(try await Self.calls("wait", cluster.masters[0]) == 1)
            let held = try await impatient.begin(for: [tags[0]], acknowledgedAt: tags[1])
            let error = await #expect(throws: RedisError.self) { try await held() }
            #expect(error?.code == .noReplicas)
            replica.resume()
            for barrier in [patient, impatient] { await barrier.close() }
        }
    }

    @Test func `A demanding barrier passes nothing without a replica after it has seen one, on whichever master`()
        async throws
    {
        try await Self.with { cluster, client, tags in
            let confirmations = ReplicaConfirmations()
            func barrier(of client: RedisClient, demandMax: Duration) -> ReplicaBarrier {
                ReplicaBarrier(
                    client,
                    patience: .milliseconds(300),
                    demandMax: demandMax,
                    confirmations: confirmations
                )
            }
            let barriers = [Duration.zero, .seconds(3_600)].map { barrier(of: client, demandMax: $0) }
            func pass(_ barrier: ReplicaBarrier, _ tag: HashTag) async -> RedisError.Code? {
                do throws(RedisError) {
                    try await barrier.wait(for: [tag], acknowledgedAt: nil, since: barrier.ticket())
                    return nil
                } catch {
                    return error.code
                }
            }
            let replica = try await cluster.replica(of: cluster.masters[0])
            await replica.kill()
            try await eventually("the master has none") {
                try await cluster.masters[0].command("INFO", "replication").root.text().contains("connected_slaves:0")
            }
            // As long as none was seen, there is nothing to wait for.
            for barrier in barriers { #expect(await pass(barrier, tags[0]) == nil) }
            for barrier in barriers {
                try await eventually("another master's replica confirms") { await pass(barrier, tags[1]) == nil }
            }
            let codes = (await pass(barriers[0], tags[0]), await pass(barriers[1], tags[0]))
            #expect(codes == (nil, .noReplicas))
            // One that comes after it, as after a change of the settings, knows of the other master's replica.
            let next = barrier(of: client, demandMax: .seconds(3_600))
            #expect(await pass(next, tags[0]) == .noReplicas)
            // One of another address has seen none: that may be a Redis without replicas.
            var configuration = client.configuration
            configuration.otherEndpoints = []
            let elsewhere = try RedisClient(
                configuration: configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            _ = try await elsewhere.send(RedisCommand("PING"), on: tags[0], options: .idempotent)
            let other = barrier(of: elsewhere, demandMax: .seconds(3_600))
            #expect(await pass(other, tags[0]) == nil)
            try await replica.restart()
            try await eventually("its replica confirms") { await pass(barriers[1], tags[0]) == nil }
            for barrier in barriers + [next, other] { await barrier.close() }
            await elsewhere.close()
        }
    }

    @Test(arguments: [RedisUser.registration, .dispatcher, .feedback])
    func `A receipt in a publisher's stream waits for a replica as a service's user, and stands there alone`(
        _ user: RedisUser
    ) async throws {
        try await RedisCluster.with { cluster in
            func client(_ login: (inout RedisConfiguration) -> Void = { _ in }) throws -> RedisClient {
                var configuration = try RedisConfiguration(url: cluster.url)
                login(&configuration)
                return try RedisClient(
                    configuration: configuration,
                    eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                )
            }
            let (administrator, keyspace) = (try client(), Keyspace(queueShards: 16, devicePartitions: 4))
            try await Installation.initialize(administrator, keyspace: keyspace)
            let rules = ["SETUSER", "service", "reset", "on", ">secret"] + user.rules(named: "service")
            for node in cluster.nodes { _ = try await node.send(RedisCommand("ACL", rules.map { .text($0) })) }
            let service = try client { ($0.username, $0.password) = ("service", "secret") }
            let barrier = ReplicaBarrier(service)
            let streams = SendStreams(client: service, keyspace: keyspace).guarded(by: barrier)
            let home = streams.keys(shard: 0)
            #expect(try await service.send(RedisCommand("XLEN", .text(home.receipts)), on: home.tag).root.integer == 0)

            // A stream on another master, whose replica is in step.
            let streamNames = (0..<64).map { "apus:receipts:shop:\($0)" }
            let replies = try #require(
                streamNames.first {
                    service.topology.endpoint(forSlot: HashTag(ofKey: $0).slot)
                        != service.topology.endpoint(forSlot: home.tag.slot)
                }
            )
            let slot = HashTag(ofKey: replies)
            let master = try await cluster.owner(ofSlot: slot.slot)
            try await eventually("its replica is in step") {
                try await master.command("INFO", "replication").root.text().contains("state=online")
            }
            try await barrier.prepare(for: [slot])
            let receipt = SendReceipt(id: "final:shop/s", send: "s", app: "shop", kind: .final)
            var refusal: RedisError?
            try await eventually("a replica has it") {
                do {
                    refusal = try await streams.outcomes.write(receipt, replyTo: replies, tag: home.tag)
                    return true
                } catch let error as RedisError where error.code == .serverChanged {
                    return false
                }
            }
            #expect(refusal == nil)
            #expect(try await Self.calls("wait", master) >= 1)
            let length = try await administrator.send(RedisCommand("XLEN", .text(replies)), on: slot).root.integer
            #expect(length ?? 0 >= 1)
            #expect(try await service.send(RedisCommand("XLEN", .text(home.receipts)), on: home.tag).root.integer == 0)
            let keys = try await master.command("KEYS", "*receipts*").root.children.compactMap(\.string)
            #expect(keys == [replies])
            await barrier.close()
            for client in [service, administrator] { await client.close() }
        }
    }

    @Test func `A receipt waits for a replica where its command is acknowledged on another master`() async throws {
        try await RedisCluster.with { cluster in
            let client = try RedisClient(
                configuration: RedisConfiguration(url: cluster.url),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            let keyspace = Keyspace(queueShards: 16, devicePartitions: 4)
            try await Installation.initialize(client, keyspace: keyspace)
            let barrier = ReplicaBarrier(client)
            let streams = SendStreams(client: client, keyspace: keyspace).guarded(by: barrier)
            let home = streams.keys(shard: 0)
            let master = try await cluster.owner(ofSlot: home.tag.slot)
            let others = (1..<keyspace.queueShards).map { streams.keys(shard: $0).tag }
            let foreign = try #require(
                others.first { client.topology.endpoint(forSlot: $0.slot) != RedisCluster.endpoint(master) }
            )
            try await eventually("its replica is in step") {
                try await master.command("INFO", "replication").root.text().contains("state=online")
            }
            let receipt = SendReceipt(id: "refused:s", send: "s", app: "shop", kind: .refused)
            // In the slot of its acknowledgement it comes before that in any case.
            try await streams.outcomes.write(receipt, replyTo: "", tag: home.tag)
            #expect(try await Self.calls("wait", master) == 0)
            try await eventually("a replica has it") {
                do {
                    try await streams.outcomes.write(receipt, replyTo: "", tag: home.tag, acknowledgedAt: foreign)
                    return true
                } catch let error as RedisError where error.code == .serverChanged {
                    return false
                }
            }
            #expect(try await Self.calls("wait", master) >= 1)
            await barrier.close()
            await client.close()
        }
    }

    @Test func `The mark of a stream that is gone is written all the same, and leaves no key`() async throws {
        try await StreamsFixture.with { fixture in
            let stream = "apus:receipts:read-and-removed"
            let (call, tag) = (MarkWriteCall(keys: [stream]), HashTag(ofKey: stream))
            // A command that changes nothing does not reach replicas, and Redis would not wait for it.
            func changes() async throws -> Int {
                let text = try await fixture.server.command("INFO", "persistence").root.text()
                let line = text.split(whereSeparator: \.isNewline).first {
                    $0.hasPrefix("rdb_changes_since_last_save:")
                }
                return line.flatMap { Int($0.drop { $0 != ":" }.dropFirst()) } ?? 0
            }
            let before = try await changes()
            #expect(try await fixture.client.call(call, on: tag).root.integer == 1)
            #expect(try await changes() > before)
            #expect(try await fixture.client.send(RedisCommand("EXISTS", .text(stream)), on: tag).root.integer == 0)
            _ = try await fixture.client.send(RedisCommand("XADD", .text(stream), "*", "m", "1"), on: tag)
            #expect(try await fixture.client.call(call, on: tag).root.integer == 1)
            #expect(try await fixture.length(stream) == 1)
        }
    }

    @Test func `A server that was replaced since the effects is not taken for the one that has them`() async throws {
        try await Self.with { cluster, client, tags in
            let barrier = ReplicaBarrier(client)
            try await eventually("its process is known") {
                (try? await barrier.wait(for: [tags[0]], acknowledgedAt: tags[1], since: barrier.ticket())) != nil
            }
            let ticket = barrier.ticket()
            try await cluster.failOver(from: cluster.masters[0])
            try await eventually("the client knows the new master") {
                _ = try? await client.send(RedisCommand("GET", .text("\(tags[0])k")), on: tags[0], options: .idempotent)
                return client.topology.endpoint(forSlot: tags[0].slot) != RedisCluster.endpoint(cluster.masters[0])
            }
            let error = await #expect(throws: RedisError.self) {
                try await barrier.wait(for: [tags[0]], acknowledgedAt: tags[1], since: ticket)
            }
            #expect(error?.code == .serverChanged)
            try await eventually("effects that are written anew pass") {
                (try? await barrier.wait(for: [tags[0]], acknowledgedAt: tags[1], since: barrier.ticket())) != nil
            }
            await barrier.close()
        }
    }
}
