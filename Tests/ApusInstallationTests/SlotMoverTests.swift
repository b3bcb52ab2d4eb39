import ApusInstallation
import ApusRedis
import ApusTestKit
import Logging
import NIOPosix
import Testing

/// Tests what a move of a slot does with keys that it has not seen before it began.
@Suite(.serialized) struct SlotMoverTests {
    private static let tag = HashTag("q1")

    /// Runs `body` with the owner of a slot, another master, and a mover that lists four keys and moves none of more than a MiB.
    private static func withMover(
        _ body: (RedisCluster, (source: RedisServer, target: RedisServer), () async throws -> Int) async throws -> Void
    ) async throws {
        try await RedisCluster.with(masters: 2, replicas: 0) { cluster in
            let client = try RedisClient(
                configuration: RedisConfiguration(url: cluster.url),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            let source = try await cluster.owner(ofSlot: Self.tag.slot)
            let target = try #require(cluster.masters.first { $0 !== source })
            let mover = SlotMover(client, keyBytesMax: 1_024 * 1_024, keysListedMax: 4)
            func move() async throws -> Int {
                let nodes = try await cluster.table().nodes
                func node(_ server: RedisServer) throws -> ClusterNodes.Node {
                    try #require(nodes.first { $0.endpoint == RedisCluster.endpoint(server) })
                }
                return try await mover.move(Self.tag.slot, from: node(source), to: node(target), others: [])
            }
            do { try await body(cluster, (source, target), move) } catch {
                await client.close()
                throw error
            }
            await client.close()
        }
    }

    private static func key(_ name: String) -> RedisArgument { .text("\(Self.tag)\(name)") }

    /// Returns how many keys of the slot a server has.
    private static func count(_ server: RedisServer) async throws -> Int64? {
        try await server.command("CLUSTER", "COUNTKEYSINSLOT", .integer(Self.tag.slot)).root.integer
    }

    @Test func `A key that is too large stops a move before it begins, and one that was not listed moves alone`()
        async throws
    {
        try await Self.withMover { cluster, servers, move in
            func calls() async throws -> Int {
                let text = try await servers.source.command("INFO", "commandstats").root.text()
                let line =
                    text.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_migrate:calls=") } ?? ""
                return Int(line.dropFirst("cmdstat_migrate:calls=".count).prefix { $0 != "," }) ?? 0
            }
            _ = try await servers.source.command("SETRANGE", Self.key("large"), 9_000_000, "x")
            let failure = await #expect(throws: SlotMover.Failure.self) { _ = try await move() }
            #expect(failure?.description.contains("\(Self.tag)large of slot") == true)
            for server in [servers.source, servers.target] {
                let isOpen = try await server.command("CLUSTER", "NODES").root.text().contains("[")
                #expect(!isOpen)
            }
            // Redis lists the newest keys first.
            for number in 0..<100 { _ = try await servers.source.command("SET", Self.key("\(number)"), "x") }
            let list = try await servers.source.command("CLUSTER", "GETKEYSINSLOT", .integer(Self.tag.slot), 4).root
            #expect(!list.children.contains { $0.string == "\(Self.tag)large" })
            #expect(try await move() == 101)
            #expect(try await Self.count(servers.target) == 101)
            // Of two lists of 64 and 37 keys the second has the large one, at its end.
            #expect(try await calls() == 3)
        }
    }

    @Test func `A key of both masters that was not listed is not overwritten`() async throws {
        try await Self.withMover { cluster, servers, move in
            let (source, target) = servers
            for number in 0..<20 { _ = try await source.command("SET", Self.key("\(number)"), "old") }
            try await cluster.beginMove(of: Self.tag.slot, from: source, to: target)
            // The last of the list moves, so that no list of four has it.
            _ = try await source.command("MIGRATE", "127.0.0.1", .integer(target.port), Self.key("0"), 0, 10_000)
            // As a master that took over in the middle: it knows of no move, and writes what has moved.
            _ = try await source.command("CLUSTER", "SETSLOT", .integer(Self.tag.slot), "STABLE")
            _ = try await source.command("SET", Self.key("0"), "newer")
            for number in 20..<40 { _ = try await source.command("SET", Self.key("\(number)"), "old") }
            for _ in 0..<2 {
                let failure = await #expect(throws: SlotMover.Failure.self) { _ = try await move() }
                #expect(failure?.description.contains("keys are on both") == true)
                #expect(try await source.command("GET", Self.key("0")).root.string == "newer")
            }
        }
    }
}
