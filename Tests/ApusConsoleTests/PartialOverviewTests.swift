import ApusBuiltInProviders
import ApusInstallation
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

/// Tests the overview while a part of Redis is away.
@Suite struct PartialOverviewTests {
    @Test func `The overview shows the other shards while a master is away, and names what does not answer`()
        async throws
    {
        BuiltInProviders.install()
        let options = RedisServer.Options(
            isAppendOnly: true,
            settings: ["cluster-require-full-coverage": "no"]
        )
        try await RedisCluster.with(masters: 3, replicas: 0, options) { cluster in
            let keyspace = Keyspace(queueShards: 6, devicePartitions: 6)
            let configuration = try RedisConfiguration(url: cluster.url)
            try await ServedConsole.with(configuration, keyspace) { installation, port in
                let shard = try #require((0..<6).first { Self.isHeld($0, by: cluster.masters[1], installation.client) })
                let keys = installation.streams.keys(shard: shard)
                let write = RedisCommand("XADD", .text(keys.outcomes), "*", "m", "x")
                _ = try await installation.client.send(write, on: keys.tag)
                // The first has the list of services, the second the routes and the entry, the third the sizes.
                for victim in cluster.masters {
                    let whole = try await Self.overview(port)
                    #expect(whole.hasPrefix("HTTP/1.1 200 ") && !whole.contains("do not answer"))
                    await victim.kill()
                    let page = try await Self.overview(port)
                    #expect(page.hasPrefix("HTTP/1.1 200 "), "\(page.prefix(2_000))")
                    #expect(page.contains("2 of 6 shards (server 127.0.0.1:\(victim.port)) do not answer"))
                    let hasEntry = victim !== cluster.masters[1]
                    #expect(page.contains("Nothing waits.") != hasEntry)
                    let hasServices = victim !== cluster.masters[0]
                    #expect(page.contains("The server that has the list of services does not answer.") != hasServices)
                    try await victim.restart()
                    try await eventually("all shards answer again") {
                        let page = try await Self.overview(port)
                        return page.hasPrefix("HTTP/1.1 200 ") && !page.contains("do not answer")
                    }
                }
            }
        }
    }

    private static func isHeld(_ shard: Int, by master: RedisServer, _ client: RedisClient) -> Bool {
        let keyspace = Keyspace(queueShards: 6, devicePartitions: 6)
        return client.topology.endpoint(forSlot: keyspace.tag(shard: shard).slot) == RedisCluster.endpoint(master)
    }

    private static func overview(_ port: Int) async throws -> String {
        try await ServedConsole.exchange(ServedConsole.request("GET", "/"), port: port) { $0.contains("</html>") }
    }
}
