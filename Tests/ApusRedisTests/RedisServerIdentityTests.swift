import ApusRedis
import ApusTestKit
import NIOCore
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

    @Test func `Behind one address, a connection to another server than a command is for is replaced`() async throws {
        let (tag, ping) = (HashTag(ofKey: "{a}key"), RedisCommand("PING"))
        try await RedisServer.with { old in
            try await RedisServer.with { new in
                let proxy = try await RedisProxy.start(to: old.port)
                try await withClient(of: proxy.url) { client in
                    let eventLoop = client.eventLoopGroup.any()
                    let blocking = client.blockingConnection(for: tag, on: eventLoop)
                    _ = try await client.send(ping, on: tag, eventLoop: eventLoop).get()
                    _ = try await blocking.send(ping, blocking: .zero)
                    proxy.redirect(to: new.port)
                    var found: RedisServerIdentity?
                    try await withClient(of: new.tcpURL) { found = try await $0.serverIdentity(for: tag) }
                    let server = try #require(found)
                    try await eventually("the loop's connection leads to the new server") {
                        do {
                            let options = RedisClient.Options(isIdempotent: true, server: server)
                            _ = try await client.send(ping, on: tag, options: options, eventLoop: eventLoop).get()
                            return true
                        } catch let error as RedisError where error.code == .serverChanged {
                            return false
                        }
                    }
                    try await eventually("so does the connection of blocking reads") {
                        do throws(RedisError) {
                            _ = try await blocking.send(ping, blocking: .zero, server: server)
                            return true
                        } catch  where error.code == .serverChanged {
                            return false
                        }
                    }
                    await blocking.close()
                }
                await proxy.stop()
            }
        }
    }

    @Test func `A command for the server that had an address before ends no connection to the present one`()
        async throws
    {
        let tag = HashTag(ofKey: "{a}key")
        try await RedisServer.with { old in
            try await RedisServer.with { new in
                let proxy = try await RedisProxy.start(to: old.port)
                try await withClient(of: proxy.url) { client in
                    let eventLoop = client.eventLoopGroup.any()
                    func connection() async throws -> Int64? {
                        let question = RedisCommand("CLIENT", "ID")
                        return try await client.send(question, on: tag, eventLoop: eventLoop).get().root.integer
                    }
                    let former = try await client.serverIdentity(for: tag)
                    proxy.redirect(to: new.port)
                    await client.reconnect(for: tag, olderThan: .zero)
                    let first = try await connection()
                    // The age of the connection does not matter.
                    try await Task.sleep(for: .milliseconds(150))
                    let options = RedisClient.Options(server: former)
                    await expectError(.serverChanged) {
                        let ping = RedisCommand("PING")
                        _ = try await client.send(ping, on: tag, options: options, eventLoop: eventLoop).get()
                    }
                    #expect(try await connection() == first)
                }
                await proxy.stop()
            }
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
