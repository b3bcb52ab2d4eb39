internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusSimulator
internal import ApusStreams

extension Drill {
    static let poison = Drill(
        "poison",
        "Entries that cannot be decoded, and one whose consumers all died, among good ones: they become dead letters, and no send waits."
    ) { run in
        let terms = DrillSettings(
            devices: run.sized(3_000, 100_000),
            dispatchers: 0,
            delayMilliseconds: 10,
            leaseMilliseconds: 500,
        )
        return try await DrillEnvironment.with(run, terms) { environment in
            let cluster = environment.cluster
            var poisoned = 0
            for shard in 0..<cluster.installation.keyspace.queueShards {
                let keys = cluster.installation.streams.keys(shard: shard)
                try await Self.abandon(cluster, keys)
                poisoned += 1
                var streams = Lane.allCases.map { keys.mailbox($0) } + [keys.outcomes]
                for route in 1...UInt32(DrillSettings.providers.count) {
                    streams.append(keys.work(RouteNumber(route), .bulk))
                }
                for stream in streams {
                    for bytes: [UInt8] in [[0xff, 0x00, 0x01], Array(repeating: 0xff, count: 3_000)] {
                        let entry = RedisCommand("XADD", .text(stream), "*", "m", .bytes(bytes))
                        _ = try await cluster.client.send(entry, on: keys.tag)
                        poisoned += 1
                    }
                }
            }
            try await environment.startDispatcher()
            try await environment.publish()
            try await environment.finishAndAudit()
            var letters = 0
            for shard in 0..<cluster.installation.keyspace.queueShards {
                let keys = cluster.installation.streams.keys(shard: shard)
                let length = RedisCommand("XLEN", .text(keys.dead))
                letters += Int(try await cluster.client.send(length, on: keys.tag).root.integer ?? 0)
            }
            environment.report.figures["dead_letters"] = .integer(letters)
            environment.report.require(letters == poisoned, "\(letters) dead letters for \(poisoned) poisoned entries")
            let victims = cluster.simulator.ledger.snapshot.acceptedCount(since: 0, send: "killer")
            environment.report.require(victims == 0, "what killed its consumers was sent \(victims) times")
        }
    }

    /// Leaves a valid command in the state that remains when every consumer died of it.
    private static func abandon(_ cluster: LocalCluster, _ keys: StreamKeys) async throws {
        let stream = keys.mailbox(.bulk)
        let group = StreamGroup.dispatcher
        func send(_ name: String, _ arguments: RedisArgument...) async throws -> RESPReply {
            try await cluster.client.send(RedisCommand(name, arguments), on: keys.tag)
        }
        _ = try await send("XGROUP", "CREATE", .text(stream), .text(group), "0", "MKSTREAM")
        let command = try cluster.command(.everyone([]), id: "killer").encode()
        let entry = try await send("XADD", .text(stream), "*", "m", .bytes(command)).root.string ?? ""
        _ = try await send("XREADGROUP", "GROUP", .text(group), "ghost", "COUNT", 1, "STREAMS", .text(stream), ">")
        _ = try await send(
            "XCLAIM",
            .text(stream),
            .text(group),
            "ghost",
            0,
            .text(entry),
            "IDLE",
            3_600_000,
            "RETRYCOUNT",
            .integer(Int64(StreamLimits.deliveriesMax)),
        )
    }
}
