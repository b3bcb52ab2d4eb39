import ApusRedis
import ApusTestKit
import NIOCore
import NIOPosix
import Synchronization
import Testing

@Suite("Redis client")
struct RedisClientTests {
    private let tag = HashTag("q1")
    private let patient = RedisClient.Options(isIdempotent: true, patience: .seconds(60))

    private let hasty = RedisClient.Options(patience: .zero)

    @Test("commands travel over a unix socket and over TCP", arguments: [\RedisServer.url, \RedisServer.tcpURL])
    func roundTrip(url: KeyPath<RedisServer, String> & Sendable) async throws {
        try await withClient(url: url) { _, client in
            let id = try await client.send(RedisCommand("XADD", "{q1}in", "*", "m", .bytes([0, 255])), on: self.tag)
            #expect(id.root.string?.contains("-") == true)
            let entries = try await client.send(RedisCommand("XRANGE", "{q1}in", "-", "+"), on: self.tag)
            #expect(entries.root[0][1].children.map(\.bytes) == [Array("m".utf8), [0, 255]])
        }
    }

    @Test("commands in order leave over one connection, from an event loop only")
    func inOrder() async throws {
        try await withClient { _, client in
            let eventLoop = client.eventLoopGroup.next()
            func begin(_ commands: [RedisCommand]) async throws -> [PendingReply]? {
                try await eventLoop.submit {
                    client.beginInOrder(commands.map { RedisClient.AddressedCommand($0, on: self.tag) })
                }.get()
            }
            // Without a connection nothing is sent.
            #expect(try await begin([RedisCommand("SET", "{q1}k", "early")]) == nil)
            _ = try await client.connection(for: self.tag, on: eventLoop).get()
            let replies = try #require(
                try await begin([
                    RedisCommand("APPEND", "{q1}k", "one"), RedisCommand("LPUSH", "{q1}k", "refused"),
                    RedisCommand("APPEND", "{q1}k", "two"),
                ])
            )
            #expect(try await replies[2].get().root.integer == 6)
            await expectError(.wrongType) { _ = try await replies[1].get() }
            #expect(try await replies[0].get().root.integer == 3)
            let apart = [self.tag, HashTag("q2")].map {
                RedisClient.AddressedCommand(RedisCommand("GET", .text($0.key("k"))), on: $0)
            }
            // Off the event loops there is no order to keep.
            #expect(client.beginInOrder(apart) == nil)
        }
    }

    @Test("after a crash: what was sent is unknown, what may be repeated is, and the client finds its way back")
    func crash() async throws {
        try await withClient(RedisServer.Options(isAppendOnly: true)) { server, client in
            _ = try await client.send(RedisCommand("SET", "{q1}k", "before"), on: self.tag)
            // On one loop, so that all of them wait on the connection that is about to die.
            let eventLoop = client.eventLoopGroup.any()
            _ = try await client.connection(for: self.tag, on: eventLoop).get()
            server.suspend()
            let once = client.send(RedisCommand("INCR", "{q1}n"), on: self.tag, eventLoop: eventLoop)
            let repeated = client.send(
                RedisCommand("SET", "{q1}k", "after"),
                on: self.tag,
                options: self.patient,
                eventLoop: eventLoop,
            )
            let pending = try await client.connection(for: self.tag, on: eventLoop).map(\.pendingCount).get()
            #expect(pending == 2)
            await server.kill()
            let error = await expectError(.disconnected) { _ = try await once.get() }
            #expect(error?.isOutcomeUnknown == true)
            // A loop that has not noticed the loss yet says "disconnected" once.
            try await eventually("the loss is noticed") {
                do {
                    _ = try await client.send(RedisCommand("GET", "{q1}k"), on: self.tag, options: self.hasty)
                    return false
                } catch let error as RedisError {
                    return error.code == .notConnected
                }
            }
            try await server.restart()
            #expect(try await repeated.get().root.string == "OK")
            let value = try await client.send(RedisCommand("GET", "{q1}k"), on: self.tag, options: self.patient)
            #expect(value.root.string == "after")
        }
    }

    @Test("a client whose callers have no patience finds its way back, too")
    func impatience() async throws {
        try await withClient { server, client in
            let eventLoop = client.eventLoopGroup.any()
            let ping = RedisCommand("PING")
            func isAnswered() async -> Bool {
                let reply = client.send(ping, on: self.tag, options: self.hasty, eventLoop: eventLoop)
                return (try? await reply.get()) != nil
            }
            #expect(await isAnswered())
            await server.kill()
            try await eventually("the loss is noticed") { await !isAnswered() }
            try await server.restart()
            try await eventually("it answers") { await isAnswered() }
        }
    }

    @Test("a frozen server: the command times out, later ones succeed on a new connection")
    func frozen() async throws {
        try await withClient(configure: impatient) { server, client in
            let eventLoop = client.eventLoopGroup.any()
            let set = RedisCommand("SET", "{q1}k", "1")
            _ = try await client.send(set, on: self.tag, eventLoop: eventLoop).get()
            server.suspend()
            let increment = RedisCommand("INCR", "{q1}n")
            await expectError(.timedOut) {
                _ = try await client.send(increment, on: self.tag, eventLoop: eventLoop).get()
            }
            server.resume()
            #expect(
                try await client.send(RedisCommand("GET", "{q1}k"), on: self.tag, options: self.patient).root.string
                    == "1"
            )
        }
    }

    @Test("a blocking read survives a restart without a hot loop")
    func blockingReadRestart() async throws {
        try await withClient(RedisServer.Options(isAppendOnly: true)) { server, client in
            let create = RedisCommand("XGROUP", "CREATE", "{q1}in", "g", "0", "MKSTREAM")
            _ = try await client.send(create, on: self.tag)
            let blocking = client.blockingConnection(for: self.tag)
            let read = RedisCommand("XREADGROUP", "GROUP", "g", "c", "BLOCK", "1000", "STREAMS", "{q1}in", ">")
            let failures = Mutex<[String: Int]>([:])
            async let entry = {
                while true {
                    do {
                        let reply = try await blocking.send(read, blocking: .seconds(1))
                        if !reply.root.isNull { return reply }
                    } catch {
                        failures.withLock { $0["\(error)", default: 0] += 1 }
                    }
                }
            }()
            try await server.untilClientBlocks()
            await server.kill()
            try await Task.sleep(for: .milliseconds(300))
            try await server.restart()
            let add = RedisCommand("XADD", "{q1}in", "1-1", "m", "x")
            _ = try await client.send(add, on: self.tag, options: RedisClient.Options(patience: .seconds(60)))
            #expect(await entry.root[0][1][0][0].string == "1-1")
            // One when the server died, then attempts after growing pauses: 50 ms, 100 ms … on average half of that.
            let found = failures.withLock { $0 }
            #expect(found.values.reduce(0, +) < 60, "\(found)")
            await blocking.close()
        }
    }

    @Test("a read that the server refuses at once is not repeated without a pause")
    func refusedReads() async throws {
        try await withClient { _, client in
            let blocking = client.blockingConnection(for: self.tag)
            let read = RedisCommand("XREADGROUP", "GROUP", "g", "c", "BLOCK", "1000", "STREAMS", "{q1}none", ">")
            let end = ContinuousClock.now + .seconds(1)
            var refusals = 0
            while ContinuousClock.now < end {
                do {
                    _ = try await blocking.send(read, blocking: .seconds(1))
                } catch {
                    #expect((error as? RedisError)?.code == .noGroup)
                    refusals += 1
                }
            }
            // Pauses of up to 50 ms, 100 ms and so on, up to a second: on average half of that.
            #expect((2..<60).contains(refusals))
            // One that is answered begins anew.
            _ = try await client.send(RedisCommand("XGROUP", "CREATE", "{q1}none", "g", "0", "MKSTREAM"), on: self.tag)
            #expect(try await blocking.send(read, blocking: .seconds(1)).root.isNull)
            await blocking.close()
        }
    }

    @Test("a demoted server is left, and its address tried again")
    func readOnly() async throws {
        let attempts = Mutex(0)
        let server = try await ScriptedServer.start { _ in
            let attempt = attempts.withLock { count in
                count += 1
                return count
            }
            return attempt < 3 ? "-READONLY You can't write against a read only replica.\r\n" : "+OK\r\n"
        }
        try await withClient(of: server.url) { client in
            let first = try await client.connection(for: self.tag, on: client.eventLoopGroup.any()).get()
            let reply = client.send(RedisCommand("SET", "{q1}k", "1"), on: self.tag, eventLoop: first.eventLoop)
            #expect(try await reply.get().root.string == "OK")
            let isOpen = try await first.eventLoop.submit { first.isOpen }.get()
            #expect(!isOpen)
        }
        try await server.stop()
    }

    @Test("with a topology that knows more servers, MOVED is followed at once")
    func moved() async throws {
        let new = try await ScriptedServer.start { _ in "+new\r\n" }
        let old = try await ScriptedServer.start { [port = new.port] _ in "-MOVED 1 127.0.0.1:\(port)\r\n" }
        let topology = MovingTopology(.host("127.0.0.1", port: old.port))
        try await withClient(of: old.url, topology: topology) { client in
            let reply = try await client.send(RedisCommand("GET", "{q1}k"), on: self.tag)
            #expect(reply.root.string == "new")
            #expect(topology.endpoint(forSlot: self.tag.slot) == .host("127.0.0.1", port: new.port))
        }
        try await old.stop()
        try await new.stop()
    }

    @Test("commands of one task keep their order, those of many tasks share the connections")
    func concurrency() async throws {
        try await withClient { server, client in
            try await withThrowingTaskGroup { group in
                for task in 0..<20 {
                    group.addTask {
                        for number in 1...50 {
                            let reply = try await client.send(RedisCommand("INCR", .text("{q1}\(task)")), on: self.tag)
                            #expect(reply.root.integer == Int64(number))
                        }
                    }
                }
                try await group.waitForAll()
            }
            let list = try await server.command("CLIENT", "LIST").root.string ?? ""
            let ours = list.split(separator: "\n").count { $0.contains("name=apus-tests") }
            #expect(ours <= client.eventLoopGroup.makeIterator().reduce(0) { count, _ in count + 1 })
        }
    }

    @Test("a closed client takes nothing more")
    func closed() async throws {
        try await withClient { _, client in
            _ = try await client.send(RedisCommand("GET", "{q1}k"), on: self.tag)
            await client.close()
            await expectError(.closed) { _ = try await client.send(RedisCommand("GET", "{q1}k"), on: self.tag) }
        }
    }
}

/// Knows where a slot went.
private final class MovingTopology: RedisTopology {
    private let current: Mutex<RedisEndpoint>

    init(_ endpoint: RedisEndpoint) { self.current = Mutex(endpoint) }

    var connectionPatience: Duration? { .milliseconds(250) }

    func endpoint(forSlot slot: Int) -> RedisEndpoint? { self.current.withLock(\.self) }

    var lastError: RedisError? { nil }

    func holder(ofSlot slot: Int) -> SlotHolder? { nil }

    func moved(slot: Int, to endpoint: RedisEndpoint, by source: RedisEndpoint) -> Bool {
        self.current.withLock { $0 = endpoint }
        return true
    }

    func failed(_ endpoint: RedisEndpoint?) {}

    func masters(within patience: Duration) async throws(RedisError) -> [RedisEndpoint] {
        [self.current.withLock(\.self)]
    }

    func servers(within patience: Duration) async throws(RedisError) -> [RedisEndpoint] {
        [self.current.withLock(\.self)]
    }

    func close() async {}
}
