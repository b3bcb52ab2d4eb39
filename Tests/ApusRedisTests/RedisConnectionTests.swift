import ApusRedis
import ApusTestKit
import NIOCore
import NIOPosix
import Testing

@Suite("Redis connection")
struct RedisConnectionTests {
    @Test("ten thousand commands in one go are answered in their order")
    func pipelining() async throws {
        try await RedisServer.with { server in
            let connection = try await connect(server.url)
            let replies = try await connection.eventLoop.flatSubmit {
                let sent = (0..<10_000).map { _ in connection.send(RedisCommand("INCR", "{q1}counter")) }
                return EventLoopFuture.whenAllSucceed(sent, on: connection.eventLoop)
            }.get()
            #expect(replies.map(\.root.integer) == (1...10_000).map { Int64($0) })
            try await connection.close().get()
        }
    }

    @Test("a large value comes back as it went")
    func largeValue() async throws {
        try await RedisServer.with { server in
            let connection = try await connect(server.tcpURL)
            let value = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
            _ = try await connection.send(RedisCommand("SET", "k", .bytes(value))).get()
            let reply = try await connection.send(RedisCommand("GET", "k")).get()
            #expect(reply.root.bytes == value)
            try await connection.close().get()
        }
    }

    @Test("the queue has an end, and is open again afterwards")
    func full() async throws {
        try await RedisServer.with { server in
            let connection = try await connect(server.url) { $0.pendingCommandsMax = 100 }
            let results = try await connection.eventLoop.flatSubmit {
                let sent = (0..<101).map { _ in connection.send(RedisCommand("INCR", "{q1}counter")) }
                return EventLoopFuture.whenAllComplete(sent, on: connection.eventLoop)
            }.get()
            #expect(results.filter { (try? $0.get()) != nil }.count == 100)
            #expect(throws: RedisError(.full, "100 commands wait for their answers")) { try results[100].get() }
            #expect(try await connection.send(RedisCommand("INCR", "{q1}counter")).get().root.integer == 101)
            try await connection.close().get()
        }
    }

    @Test("a transaction is whole, whoever else uses the connection")
    func transaction() async throws {
        try await RedisServer.with { server in
            let connection = try await connect(server.url)
            let increment = RedisCommand("INCR", "{q1}c")
            let transactions = (0..<50).map { _ in connection.sendTransaction([increment, increment]) }
            for (index, transaction) in transactions.enumerated() {
                let counts = try await transaction.get().root.children.map(\.integer)
                #expect(counts == [Int64(index * 2 + 1), Int64(index * 2 + 2)])
            }
            await expectError(.crossSlot) {
                _ = try await connection.sendTransaction([increment, RedisCommand("MSET", "a", "1", "b", "2")]).get()
            }
            await expectError(.server) { _ = try await connection.sendTransaction([RedisCommand("NONSENSE")]).get() }
            #expect(try await connection.send(RedisCommand("GET", "{q1}c")).get().root.integer == 100)
            try await connection.close().get()
        }
    }

    @Test("a frozen server is given up after the time-out, and the outcome is unknown")
    func frozen() async throws {
        try await RedisServer.with { server in
            // Long enough that both commands leave before, on a busy machine too.
            let connection = try await connect(server.url) { $0.requestTimeout = .seconds(3) }
            server.suspend()
            let first = connection.send(RedisCommand("SET", "k", "1"))
            let second = connection.send(RedisCommand("SET", "k", "2"), timeout: .minutes(1))
            let error = await expectError(.timedOut) { _ = try await first.get() }
            #expect(error?.isOutcomeUnknown == true)
            // The commands behind it fail too, whatever their own timeouts.
            await expectError(.timedOut) { _ = try await second.get() }
            try await connection.closeFuture.get()
            await expectError(.notConnected) { _ = try await connection.send(RedisCommand("PING")).get() }
            server.resume()
            // Given up, yet executed: why only idempotent commands may be repeated.
            try await eventually("the server executes what it had received") {
                ["1", "2"].contains(try await server.command("GET", "k").root.string ?? "")
            }
        }
    }

    @Test("an idle connection notices that its server hangs")
    func halfOpen() async throws {
        try await RedisServer.with { server in
            let connection = try await connect(server.tcpURL) {
                $0.keepAlive = .milliseconds(50)
                $0.requestTimeout = .seconds(1)
            }
            // Alive beyond several questions.
            try await Task.sleep(for: .milliseconds(300))
            #expect(try await connection.eventLoop.submit { connection.isOpen }.get())
            server.suspend()
            try await connection.closeFuture.get()
            server.resume()
        }
    }

    @Test("a server that takes connections and says nothing is not connected")
    func silent() async throws {
        let server = try await ScriptedServer.start(answersGreeting: false) { _ in nil }
        await expectError(.notConnected) {
            _ = try await connect(server.url) { $0.connectTimeout = .milliseconds(100) }
        }
        try await server.stop()
    }

    @Test("nobody listens")
    func nobody() async throws {
        let port = try FreePort.find()
        await expectError(.notConnected) { _ = try await connect("redis://127.0.0.1:\(port)") }
        await expectError(.notConnected) { _ = try await connect("unix:///nowhere/at/all") }
        let refused = await #expect(throws: RedisError.self) { _ = try await connect("redis://127.0.0.1:\(port)") }
        #expect(refused?.message == "127.0.0.1:\(port): Connection refused")
        let missing = await #expect(throws: RedisError.self) { _ = try await connect("unix:///nowhere/at/all") }
        #expect(missing?.message.hasSuffix(": No such file or directory") == true, "\(missing?.message ?? "")")
    }

    @Test("answers that are no RESP2 end the connection", arguments: ["HTTP/1.1 400\r\n", "%1\r\n", "+OK\r\n+OK\r\n"])
    func violation(answer: String) async throws {
        let server = try await ScriptedServer.start { _ in answer }
        let connection = try await connect(server.url)
        let reply = connection.send(RedisCommand("GET", "k"))
        if answer.hasPrefix("+OK") {
            #expect(try await reply.get().root.string == "OK")
        } else {
            await expectError(.protocolViolation) { _ = try await reply.get() }
        }
        try await connection.closeFuture.get()
        try await server.stop()
    }

    @Test("the owner closes it")
    func ownerCloses() async throws {
        let server = try await ScriptedServer.start { _ in nil }
        let connection = try await connect(server.url)
        let reply = connection.send(RedisCommand("GET", "k"))
        try await connection.close().get()
        await expectError(.disconnected) { _ = try await reply.get() }
        try await connection.close().get()
        try await server.stop()
    }

    @Test("a connection has its name")
    func name() async throws {
        try await RedisServer.with { server in
            let connection = try await connect(server.url)
            #expect(try await connection.send(RedisCommand("CLIENT", "GETNAME")).get().root.string == "apus-tests")
            try await connection.close().get()
        }
    }
}
