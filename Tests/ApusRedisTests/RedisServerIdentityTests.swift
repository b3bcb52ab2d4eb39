import ApusRedis
import ApusTestKit
import Testing

@Suite struct RedisServerIdentityTests {
    @Test func `A command for one server is not sent to the one that took its place`() async throws {
        try await withClient(.init(isAppendOnly: true)) { server, client in
            let tag = HashTag(ofKey: "{a}key")
            let first = try await client.serverIdentity(for: tag)
            #expect(first.description.count == 40)
            let command = RedisCommand("INCR", "{a}key")
            let options = RedisClient.Options(server: first)
            #expect(try await client.send(command, on: tag, options: options).root.integer == 1)
            try await server.restart()
            await expectError(.serverChanged) {
                // A try that finds the old connection closing says so; the next one finds the new server.
                do throws(RedisError) {
                    _ = try await client.send(command, on: tag, options: options)
                } catch  where error.code == .disconnected {
                    _ = try await client.send(command, on: tag, options: options)
                }
            }
            let second = try await client.serverIdentity(for: tag)
            #expect(second != first)
            // Another loop's connection may not have noticed yet that its server is gone: then the command was not sent.
            var count: Int64?
            try await eventually("every connection leads to the new server") {
                do {
                    count = try await client.send(command, on: tag, options: .init(server: second)).root.integer
                } catch let error as RedisError {
                    guard error.code == .serverChanged || error.code == .disconnected else { throw error }
                }
                return count != nil
            }
            #expect(count == 2)
        }
    }

    @Test func `An interruption ends a blocked read, and not the next one`() async throws {
        try await withClient { server, client in
            let connection = client.blockingConnection(for: HashTag(ofKey: "{a}list"))
            let command = RedisCommand("BLPOP", "{a}list", "60")
            // Nothing is blocked yet: that is no failure.
            await connection.interrupt()
            let read = Task { try await connection.send(command, blocking: .seconds(60)).root.isNull }
            let start = ContinuousClock.now
            try await server.untilClientBlocks()
            await connection.interrupt()
            #expect(try await read.value)
            #expect(ContinuousClock.now - start < .seconds(50))
            _ = try await server.command("RPUSH", "{a}list", "x")
            #expect(try await connection.send(command, blocking: .seconds(60)).root[1].string == "x")
            await connection.close()
        }
    }
}
