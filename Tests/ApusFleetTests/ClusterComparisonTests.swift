import ApusFleet
import ApusRedis
import ApusTestKit
import Testing

/// Compares two modelled masters with two real ones while a slot moves between them.
@Suite struct ClusterComparisonTests {
    private static let library = """
        #!lua name=probe
        redis.register_function{function_name = 'declared', callback = function(keys)
            return redis.call('GET', keys[1])
        end}
        redis.register_function{function_name = 'undeclared', callback = function(keys)
            return redis.call('GET', keys[1] .. '-')
        end}
        """

    /// The commands, of keys of one slot unless it says otherwise.
    private static let commands = [
        "GET {s}kept", "GET {s}gone", "GET {s}never", "SET {s}new 1", "MGET {s}kept {s}gone", "MGET {s}gone {s}never",
        "MGET {s}kept {other}x", "EXISTS {s}~", "FCALL declared 1 {s}kept", "FCALL declared 1 {s}gone",
        "FCALL undeclared 1 {s}kept", "XREAD COUNT 1 STREAMS {s}stream 0", "XINFO STREAM {s}gone", "TIME extra",
        "XADD {s}stream 1-1 f v", "DEL {s}gone {s}never",
    ]

    private static func words(_ command: String) -> [String] { command.split(separator: " ").map(String.init) }

    /// Returns an error, or that there was none: what follows from values is compared elsewhere.
    private static func answer(of node: RedisServer, to command: String) async throws -> String {
        let words = Self.words(command)
        do {
            _ = try await node.send(RedisCommand(words[0], words.dropFirst().map { .text($0) }))
            return "no error"
        } catch let error as RedisError {
            return error.message
        }
    }

    private static func answer(of server: ModelServer, to command: String) -> String {
        let words = Self.words(command)
        var bytes = Array("*\(words.count)\r\n".utf8)
        for word in words { bytes += "$\(word.utf8.count)\r\n\(word)\r\n".utf8 }
        let client = server.connect()
        let output = server.receive(bytes, from: client, now: 1_700_000_000_000_000)
        server.disconnect(client)
        let reply = output.map { String(decoding: $0.bytes, as: UTF8.self) }.joined()
        return reply.hasPrefix("-") ? String(reply.dropFirst().prefix { !$0.isNewline }) : "no error"
    }

    @Test func `Masters send commands elsewhere before, during and after the move of a slot as Redis does`()
        async throws
    {
        try await RedisCluster.with(masters: 2, replicas: 0) { cluster in
            let slot = HashTag("s").slot
            let source = try await cluster.owner(ofSlot: slot)
            let target = try #require(cluster.masters.first { $0 !== source })
            let map = ModelCluster(ports: cluster.masters.map(\.port))
            let models = cluster.masters.indices.map { index in
                let model = RedisModel(seed: 1)
                model.cluster = (map, index)
                return ModelServer(model)
            }
            #expect(cluster.masters[map.owner(of: slot)] === source)
            let sourceModel = models[map.owner(of: slot)]
            let targetModel = models[1 - map.owner(of: slot)]
            let load = [UInt8](Self.library.utf8)
            for node in cluster.masters { _ = try await node.command("FUNCTION", "LOAD", .bytes(load)) }
            for server in models {
                #expect(
                    server.model.execute(["FUNCTION", "LOAD"].map { Array($0.utf8) } + [load], now: 1).error == nil
                )
            }
            for key in ["{s}kept", "{s}gone", "{s}kept-"] {
                _ = try await source.command("SET", .text(key), "1")
                #expect(Self.answer(of: sourceModel, to: "SET \(key) 1") == "no error")
            }

            func compare(_ stage: String) async throws {
                for command in Self.commands {
                    for (node, server) in zip(cluster.masters, models) {
                        let expected = try await Self.answer(of: node, to: command)
                        let found = Self.answer(of: server, to: command)
                        #expect(
                            found == expected,
                            "\(stage): \(command), at the \(node === source ? "source" : "target")"
                        )
                    }
                }
            }
            try await compare("before")
            // The keys are again as they were before the commands.
            for command in ["DEL {s}new", "DEL {s}stream", "SET {s}gone 1"] {
                #expect(try await Self.answer(of: source, to: command) == Self.answer(of: sourceModel, to: command))
            }
            try await cluster.beginMove(of: slot, from: source, to: target)
            map.beginMove(of: slot, to: 1 - map.owner(of: slot))
            for key in ["{s}gone", "{s}kept-"] {
                _ = try await source.command("MIGRATE", "127.0.0.1", .integer(target.port), .text(key), 0, 10_000)
                sourceModel.model.give(Array(key.utf8), to: targetModel.model)
            }
            try await compare("half moved")
            while try await cluster.moveKeys(of: slot, count: 100, from: source, to: target) > 0 {}
            for key in sourceModel.model.keys(ofSlot: slot) { sourceModel.model.give(key, to: targetModel.model) }
            try await cluster.finishMove(of: slot, from: source, to: target)
            map.endMove(of: slot)
            try await compare("moved")
        }
    }

    @Test func `The masters' lists of nodes say who has which slot, and which of them are on their way`() throws {
        let map = ModelCluster(ports: [7_001, 7_002, 7_003])
        let (slot, owner) = (100, map.owner(of: 100))
        #expect(owner == 0)
        func nodes(_ index: Int) throws -> [ClusterNodes.Node] {
            let source = RedisEndpoint.host("127.0.0.1", port: map.ports[index])
            return try ClusterNodes(map.nodes(seenBy: index), from: source).nodes
        }
        let before = try nodes(0)
        #expect(before.map(\.endpoint) == map.ports.map { .host("127.0.0.1", port: $0) })
        #expect(before.flatMap(\.slots) == [0...5_461, 5_462...10_922, 10_923...16_383])
        #expect(before.map(\.isSelf) == [true, false, false] && before.allSatisfy(\.isMaster))
        map.beginMove(of: slot, to: 2)
        #expect(try nodes(0)[0].openSlots.map(\.isImported) == [false])
        #expect(try nodes(2)[2].openSlots.map(\.slot) == [slot])
        #expect(try nodes(1).flatMap(\.openSlots).isEmpty)
        map.endMove(of: slot)
        let after = try nodes(1)
        #expect(after[0].slots == [0...99, 101...5_461] && after[2].slots == [100...100, 10_923...16_383])
        #expect(after[2].epoch > before.map(\.epoch).max() ?? 0 && after.flatMap(\.openSlots).isEmpty)
    }
}
