import ApusCore
import ApusInstallation
import ApusMessages
import ApusPublisher
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

@Suite struct AcknowledgementTests {
    @Test func `A publication waits for a replica if there is one, and else reports that it is in memory only`()
        async throws
    {
        try await PublisherFixture.withReplica { primary, replica in
            try await PublisherFixture.with(Publisher(redis: primary.url)) { publisher in
                let publication = try await publisher.publish(PublisherFixture.command("one"))
                #expect(publication.acknowledgement == .replica && publication.isAcknowledged)
                let ids = try await PublisherFixture.mailboxes(publisher, replica)
                #expect(ids == ["one"])
                let quick = try await publisher.publish(PublisherFixture.command("two"), acknowledgement: .memory)
                #expect(quick.acknowledgement == .memory && quick.isAcknowledged)
            }
        }
        try await RedisServer.with { server in
            try await PublisherFixture.initialize(server)
            try await PublisherFixture.with(Publisher(redis: server.url)) { publisher in
                let publication = try await publisher.publish(PublisherFixture.command())
                #expect(publication.acknowledgement == .memory && publication.isAcknowledged)
            }
            let patience = Duration.milliseconds(50)
            try await PublisherFixture.with(Publisher(redis: server.url, acknowledgementPatience: patience)) {
                publisher in
                let asked = try await publisher.publish(PublisherFixture.command("asked"), acknowledgement: .replica)
                #expect(!asked.isAcknowledged && !asked.hasReplica)
            }
        }
    }

    @Test func `A silent replica makes no publication fail, and repeating it makes no second send`() async throws {
        try await PublisherFixture.withReplica { primary, replica in
            let patience = Duration.milliseconds(100)
            try await PublisherFixture.with(Publisher(redis: primary.url, acknowledgementPatience: patience)) {
                publisher in
                replica.suspend()
                let first = try await publisher.publish(PublisherFixture.command("one"))
                #expect(first.acknowledgement == .memory && !first.isAcknowledged && !first.isDuplicate)
                #expect(first.hasReplica)
                // A duplicate proves nothing by itself: it waits as the first did.
                let second = try await publisher.publish(PublisherFixture.command("one"))
                #expect(second.isDuplicate && !second.isAcknowledged)
                replica.resume()
                try await eventually("the replica has it") {
                    try await publisher.publish(PublisherFixture.command("one")).isAcknowledged
                }
                let ids = try await PublisherFixture.mailboxes(publisher, primary)
                #expect(ids == ["one"])
            }
        }
    }

    @Test func `A replica that was seen is demanded for a time after it is gone`() async throws {
        try await PublisherFixture.withReplica { primary, replica in
            func writer(demanding time: Duration) throws -> AcknowledgedWriter {
                let client = try PublisherFixture.client(primary.url)
                return AcknowledgedWriter(
                    client,
                    patience: .milliseconds(50),
                    replicaNewsLifetime: .zero,
                    replicaDemandMax: time,
                )
            }
            let tag = HashTag("q0")
            let (patient, hasty) = (try writer(demanding: .seconds(600)), try writer(demanding: .zero))
            for writer in [patient, hasty] {
                #expect(try await writer.defaultLevel(tag, within: .seconds(60)) == .replica)
            }
            await replica.kill()
            try await eventually("the primary knows that it is alone") {
                AcknowledgementProof.hasReplica(try await primary.command("INFO", "replication")) == false
            }
            #expect(try await patient.defaultLevel(tag, within: .seconds(60)) == .replica)
            let answer = try await patient.publish(RedisCommand("SET", "{q0}k", "1"), on: tag, .replica)
            #expect(!answer.isAcknowledged, "and the answer says that there is no proof")
            #expect(try await hasty.defaultLevel(tag, within: .seconds(60)) == .memory)
            // Of a slot for which none was seen nothing is demanded.
            #expect(try await patient.defaultLevel(HashTag("q1"), within: .seconds(60)) == .memory)
            for writer in [patient, hasty] { await writer.close() }
        }
    }

    @Test(arguments: 0...4)
    func `A publication waits for one server, whenever it becomes known that slots have moved`(_ before: Int) {
        let (old, new) = (RedisEndpoint.host("old", port: 1), RedisEndpoint.host("new", port: 1))
        var questions = 0
        let (staying, moved) = AcknowledgedWriter.divide([0, 1, 2, 3], at: old) { element in
            questions += 1
            // The last one's server is not known.
            return element == 3 ? nil : questions > before ? new : old
        }
        #expect((staying + moved.map(\.0)).sorted() == [0, 1, 2, 3])
        #expect(staying == Array(0..<min(before, 3)) + [3] && moved.allSatisfy { $0.1 == new })
        #expect(questions == 4)
    }

    @Test func `Publications of several masters are gathered for each, also while a slot moves`() async throws {
        try await RedisCluster.with(masters: 2, replicas: 0) { cluster in
            let client = try PublisherFixture.client(cluster.url)
            try await Installation.initialize(client, keyspace: Keyspace(queueShards: 4, devicePartitions: 4))
            let moving = client.topology.endpoint(forSlot: HashTag("q0").slot)
            await client.close()
            try await PublisherFixture.with(Publisher(redis: cluster.url)) { publisher in
                let published = try await withThrowingTaskGroup(of: String.self) { group in
                    for index in 0..<200 {
                        group.addTask {
                            try await Task.sleep(for: .milliseconds(index * 2))
                            let command = PublisherFixture.command("s\(index)")
                            return try await publisher.publish(
                                command,
                                acknowledgement: .replica,
                                within: .seconds(60)
                            ).send
                        }
                    }
                    group.addTask {
                        for _ in 0..<2 {
                            for shard in 0..<4 {
                                let slot = publisher.installation.keyspace.tag(shard: shard).slot
                                let owner = try await cluster.owner(ofSlot: slot)
                                try await cluster.move(slot, to: cluster.masters[owner === cluster.masters[0] ? 1 : 0])
                            }
                        }
                        return ""
                    }
                    return try await group.reduce(into: Set<String>()) { $0.insert($1) }
                }
                #expect(published.count == 201 && moving != nil)
                var count: Int64 = 0
                for shard in 0..<4 {
                    let keys = publisher.installation.streams.keys(shard: shard)
                    let reply = try await publisher.installation.client.send(
                        RedisCommand("XLEN", .text(keys.mailbox(.bulk))),
                        on: keys.tag,
                        options: .idempotent
                    )
                    count += try reply.root.number()
                }
                #expect(count == 200)
            }
        }
    }

    @Test func `Publications at the same time share one confirmation`() async throws {
        try await PublisherFixture.withReplica { primary, replica in
            let patience = Duration.milliseconds(500)
            try await PublisherFixture.with(Publisher(redis: primary.url, acknowledgementPatience: patience)) {
                publisher in
                replica.suspend()
                let acknowledged = try await withThrowingTaskGroup(of: Bool.self) { group in
                    for index in 0..<200 {
                        group.addTask {
                            try await publisher.publish(PublisherFixture.command("s\(index)")).isAcknowledged
                        }
                    }
                    return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
                }
                replica.resume()
                #expect(acknowledged == 0)
                let count = try await PublisherFixture.mailboxes(publisher, primary).count
                #expect(count == 200)
                let statistics = try await primary.command("INFO", "commandstats").root.string ?? ""
                let line = statistics.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_wait:calls=") }
                let waits = try #require(line.flatMap { Int($0.dropFirst(19).prefix { $0 != "," }) })
                #expect((1...20).contains(waits))
            }
        }
    }

    @Test func `Every confirmed send survives the primary, once`() async throws {
        try await PublisherFixture.withReplica { primary, replica in
            let publisher = try await Publisher(redis: primary.tcpURL)
            try await PublisherFixture.with(publisher) { publisher in
                let done = try await withThrowingTaskGroup(of: Publication.self) { group in
                    for index in 0..<300 {
                        group.addTask {
                            try await Task.sleep(for: .milliseconds(index * 2))
                            return try await publisher.publish(
                                PublisherFixture.command("s\(index)"),
                                acknowledgement: .replica,
                                within: .seconds(60),
                            )
                        }
                    }
                    group.addTask {
                        try await Task.sleep(for: .milliseconds(200))
                        await primary.kill()
                        // The replica takes over at the address that the publisher knows.
                        _ = try await replica.command("REPLICAOF", "NO", "ONE")
                        try await eventually("the port is free") {
                            (try? await replica.command("CONFIG", "SET", "port", .integer(primary.port))) != nil
                        }
                        return try await publisher.publish(PublisherFixture.command("last"), within: .seconds(60))
                    }
                    return try await group.reduce(into: []) { $0.append($1) }
                }
                #expect(done.count == 301)
                let ids = try await PublisherFixture.mailboxes(publisher, replica)
                #expect(Set(ids) == Set(done.map(\.send)))
                #expect(ids.count == 301)
                #expect(done.filter(\.isAcknowledged).count >= 1)
            }
        }
    }

    @Test func `A send that is confirmed on disk survives the death of the server`() async throws {
        try await RedisServer.with(RedisServer.Options(isAppendOnly: true)) { server in
            try await PublisherFixture.initialize(server)
            try await PublisherFixture.with(Publisher(redis: server.url)) { publisher in
                let publication = try await publisher.publish(PublisherFixture.command("one"), acknowledgement: .fsync)
                #expect(publication.acknowledgement == .fsync && publication.isAcknowledged)
                try await server.restart()
                let ids = try await PublisherFixture.mailboxes(publisher, server)
                #expect(ids == ["one"])
                // An operator changes it while the publisher runs.
                _ = try await server.command("CONFIG", "SET", "appendfsync", "everysec")
                await #expect {
                    _ = try await publisher.publish(PublisherFixture.command("two"), acknowledgement: .fsync)
                } throws: { error in
                    let error = error as? PublisherError
                    return error?.code == .acknowledgementUnavailable
                        && error?.message.contains("appendfsync always") == true
                }
                let after = try await PublisherFixture.mailboxes(publisher, server)
                #expect(after == ["one"])
            }
        }
    }

    @Test func `A server without CONFIG, as managed ones are, takes publications and says why it cannot promise fsync`()
        async throws
    {
        var options = RedisServer.Options()
        options.settings = ["rename-command": "CONFIG \"\""]
        try await RedisServer.with(options) { server in
            try await PublisherFixture.initialize(server)
            try await PublisherFixture.with(Publisher(redis: server.url)) { publisher in
                let first = try await publisher.publish(PublisherFixture.command("one"))
                #expect(first.isAcknowledged)
                let error = await #expect(throws: PublisherError.self) {
                    _ = try await publisher.publish(PublisherFixture.command("two"), acknowledgement: .fsync)
                }
                #expect(error?.code == .acknowledgementUnavailable)
                #expect(error?.message.contains("its settings cannot be read by CONFIG GET") == true)
                let ids = try await PublisherFixture.mailboxes(publisher, server)
                #expect(ids == ["one"])
            }
        }
    }

    @Test func `The answers of different servers are read`() async throws {
        try await RedisServer.with { server in
            func says(_ script: String) async throws -> RESPReply {
                try await server.command("EVAL", .text("return \(script)"), 0)
            }
            let (some, none) = (try await says("{1, 0}"), try await says("{0, 2}"))
            let disk = AcknowledgementProof.disk(milliseconds: 10)
            #expect(disk.isGiven(by: some) && !disk.isGiven(by: none))
            let (two, zero) = (try await says("2"), try await says("0"))
            let replica = AcknowledgementProof.replica(milliseconds: 10)
            #expect(replica.isGiven(by: two) && !replica.isGiven(by: zero))
            let known = try await server.command("COMMAND", "INFO", "get")
            let unknown = try await server.command("COMMAND", "INFO", "nothing")
            #expect(AcknowledgementProof.knowsDiskWait(known) && !AcknowledgementProof.knowsDiskWait(unknown))
            let alone = try await server.command("INFO", "replication")
            #expect(!AcknowledgementProof.hasReplica(alone))
            let settings = try await server.command("CONFIG", "GET", "append*")
            #expect(!AcknowledgementProof.answersFromDisk(settings))
        }
    }

    @Test func `A limited number of publications wait for confirmation`() async throws {
        try await RedisServer.with { server in
            try await PublisherFixture.initialize(server)
            let writer = AcknowledgedWriter(
                try PublisherFixture.client(server.url),
                patience: .seconds(1),
                waitingMax: 3
            )
            _ = try await writer.publish(RedisCommand("PING"), on: HashTag("q0"), .memory)
            server.suspend()
            let outcomes = try await withThrowingTaskGroup(of: RedisError.Code?.self) { group in
                for _ in 0..<20 {
                    group.addTask {
                        do {
                            _ = try await writer.publish(RedisCommand("PING"), on: HashTag("q0"), .memory)
                            return nil
                        } catch let error as RedisError {
                            return error.code
                        }
                    }
                }
                try await Task.sleep(for: .milliseconds(200))
                server.resume()
                return try await group.reduce(into: []) { $0.append($1) }
            }
            // At most three are on their way and three wait.
            #expect(outcomes.filter { $0 == nil }.count >= 3)
            #expect(outcomes.filter { $0 == nil }.count <= 6)
            #expect(outcomes.compactMap(\.self).allSatisfy { $0 == .full })
            await writer.close()
        }
    }
}
