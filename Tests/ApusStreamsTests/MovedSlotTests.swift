import ApusCore
import ApusInstallation
import ApusRedis
import ApusStreams
import ApusTestKit
import Logging
import NIOPosix
import Testing

/// Tests functions while their slot is being moved from one server of a cluster to another.
@Suite(.serialized) struct MovedSlotTests {
    private static let keyspace = Keyspace(queueShards: 4, devicePartitions: 4)

    /// Runs `body` with a cluster that has an installation.
    private func withInstallation(
        _ body: (RedisCluster, RedisClient) async throws -> Void
    ) async throws {
        try await RedisCluster.with(masters: 2, replicas: 0, spares: 1) { cluster in
            let client = try RedisClient(
                configuration: RedisConfiguration(url: cluster.url),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Self.keyspace)
            do { try await body(cluster, client) } catch {
                await client.close()
                throw error
            }
            await client.close()
        }
    }

    /// Returns the names of all functions on a server, but the one that tells the version.
    private func functions(_ server: RedisServer) async throws -> [(name: String, isReadOnly: Bool)] {
        let libraries = try await server.command("FUNCTION", "LIST").root.children
        var functions: [(String, Bool)] = []
        for library in libraries {
            for index in stride(from: 0, to: library.count - 1, by: 2) where library[index].string == "functions" {
                for function in library[index + 1].children {
                    let name = function[1].string ?? ""
                    let flags = function[5].children.compactMap(\.string)
                    if !name.hasSuffix("_version") { functions.append((name, flags.contains("no-writes"))) }
                }
            }
        }
        return functions
    }

    @Test func `In a slot of which a part has moved, every function refuses before it has written anything`()
        async throws
    {
        try await self.withInstallation { cluster, client in
            let tag = HashTag("q1")
            let (key, source) = ("\(tag)probe", try await cluster.owner(ofSlot: tag.slot))
            let target = try #require(cluster.masters.first { $0 !== source })
            _ = try await client.send(RedisCommand("SET", .text(key), "here"), on: tag, options: .idempotent)
            try await cluster.beginMove(of: tag.slot, from: source, to: target)
            let before = try await source.command("DEBUG", "DIGEST").root.text()
            let beforeThere = try await target.command("DEBUG", "DIGEST").root.text()
            let functions = try await self.functions(source)
            #expect(functions.count > 60)
            for function in functions {
                let command = function.isReadOnly ? "FCALL_RO" : "FCALL"
                do {
                    _ = try await source.command(command, .text(function.name), 1, .text(key), .bytes([0x01]))
                    Issue.record("\(function.name) ran")
                } catch let error as RedisError {
                    #expect(error.code == .tryAgain, "\(function.name): \(error)")
                }
            }
            #expect(try await source.command("DEBUG", "DIGEST").root.text() == before)
            #expect(try await target.command("DEBUG", "DIGEST").root.text() == beforeThere)
        }
    }

    @Test func `A call meets a slot that is being moved, waits, and is done once where the slot is then`() async throws
    {
        try await self.withInstallation { cluster, client in
            let streams = SendStreams(client: client, keyspace: Self.keyspace)
            let keys = streams.keys(shard: 1)
            let source = try await cluster.owner(ofSlot: keys.tag.slot)
            let target = try #require(cluster.masters.first { $0 !== source })
            func write(_ number: Int) async throws {
                let call = MarkCall(keys: ["\(keys.tag)receipts"], receipt: [UInt8(number)])
                _ = try await client.call(
                    call,
                    on: keys.tag,
                    options: .init(isIdempotent: false, patience: .seconds(60))
                )
            }
            try await write(0)
            try await cluster.beginMove(of: keys.tag.slot, from: source, to: target)
            let waiting = Task {
                for number in 1...3 { try await write(number) }
            }
            try await Task.sleep(for: .milliseconds(300))
            while try await cluster.moveKeys(of: keys.tag.slot, count: 1, from: source, to: target) > 0 {}
            try await cluster.finishMove(of: keys.tag.slot, from: source, to: target)
            try await waiting.value
            #expect(try await target.command("XLEN", .text("\(keys.tag)receipts")).root.number() == 4)
            await #expect(throws: RedisError.self) {
                try await source.command("EXISTS", .text("\(keys.tag)receipts"))
            }
        }
    }

    @Test
    func
        `A master that has joined without functions is named, keeps services only with slots, and gets them from apus init`()
        async throws
    {
        try await self.withInstallation { cluster, _ in
            let spare = cluster.spares[0]
            try await cluster.join(spare)
            let configuration = try RedisConfiguration(url: cluster.url)
            func withFreshClient(_ body: (RedisClient) async throws -> Void) async throws {
                let client = try RedisClient(
                    configuration: configuration,
                    eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                )
                do { try await body(client) } catch {
                    await client.close()
                    throw error
                }
                await client.close()
            }
            let library = try Installation.library()
            try await withFreshClient { client in
                let installation = try await Installation(client, clock: SystemClock())
                #expect(installation.serversWithoutFunctions == [RedisCluster.endpoint(spare)])
                #expect(try await library.missing(on: client) == [RedisCluster.endpoint(spare)])
                // One that hangs hides no other.
                let others = cluster.masters.filter { $0 !== spare }
                for other in others { other.suspend() }
                defer { for other in others { other.resume() } }
                try await eventually("it is named") {
                    // One after the other they would take longer than this.
                    let missing = await firstWithin(.seconds(4)) { try? await library.missing(on: client) }
                    return missing == .some([RedisCluster.endpoint(spare)])
                }
            }
            try await cluster.move(0, to: spare)
            do {
                try await withFreshClient { try await library.check(on: $0) }
                Issue.record("nobody noticed")
            } catch let error as RedisError {
                #expect(error.code == .functionsMissing)
                #expect(
                    error.message.contains("127.0.0.1:\(cluster.spares[0].port)") && error.message.contains("apus init")
                )
            }
            try await withFreshClient { try await Installation.initialize($0, keyspace: Self.keyspace) }
            try await withFreshClient { try await library.check(on: $0) }
        }
    }
}

/// Writes a receipt, which counts each time.
private struct MarkCall: FunctionCall {
    static let function = "apus2_write_receipt"
    var keys: [String]
    var receipt: [UInt8]

    func set(_ fields: inout CallFields) { fields.set("receipt", CallBytes(self.receipt)) }
}
