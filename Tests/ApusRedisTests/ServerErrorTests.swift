import ApusRedis
import ApusTestKit
import NIOCore
import Testing

/// Each error, provoked on a real server.
@Suite("Errors of a real server")
struct ServerErrorTests {
    private let tag = HashTag("q1")
    private let never = RedisClient.Options(patience: .zero)

    @Test("full memory refuses what fills and takes what drains, at once")
    func outOfMemory() async throws {
        try await withClient { server, client in
            _ = try await client.send(RedisCommand("XADD", "{q1}in", "1-0", "m", "x"), on: self.tag)
            _ = try await server.command("CONFIG", "SET", "maxmemory", "1")
            let error = await expectError(.outOfMemory) {
                _ = try await client.send(RedisCommand("XADD", "{q1}in", "*", "m", "x"), on: self.tag)
            }
            #expect(error?.isRetryable == false)
            #expect(try await client.send(RedisCommand("XDEL", "{q1}in", "1-0"), on: self.tag).root.integer == 1)
        }
    }

    @Test("keys of two slots are our own mistake, which a plain server would hide")
    func crossSlot() async throws {
        try await withClient { _, client in
            await expectError(.crossSlot) {
                _ = try await client.send(RedisCommand("MSET", "{q1}a", "1", "{q2}b", "2"), on: self.tag)
            }
        }
    }

    @Test("groups that are gone, there already, or of the wrong type")
    func groups() async throws {
        try await withClient { _, client in
            let read = RedisCommand("XREADGROUP", "GROUP", "g", "c", "STREAMS", "{q1}in", ">")
            let create = RedisCommand("XGROUP", "CREATE", "{q1}in", "g", "0", "MKSTREAM")
            let error = await expectError(.noGroup) { _ = try await client.send(read, on: self.tag) }
            #expect(error?.isGroupGone == true)
            _ = try await client.send(create, on: self.tag)
            await expectError(.groupExists) { _ = try await client.send(create, on: self.tag) }
            await expectError(.wrongType) { _ = try await client.send(RedisCommand("GET", "{q1}in"), on: self.tag) }
        }
    }

    @Test("a read that blocks is woken by an entry, and thrown out when its stream or its group goes")
    func blockedRead() async throws {
        try await withClient { server, client in
            let create = RedisCommand("XGROUP", "CREATE", "{q1}in", "g", "0", "MKSTREAM")
            let read = RedisCommand(
                "XREADGROUP",
                "GROUP",
                "g",
                "c",
                "COUNT",
                "1",
                "BLOCK",
                "30000",
                "STREAMS",
                "{q1}in",
                ">",
            )
            let blocking = client.blockingConnection(for: self.tag)
            func whileBlocked(_ act: () async throws -> Void) async throws -> RESPReply {
                async let reply = blocking.send(read, blocking: .seconds(30))
                try await server.untilClientBlocks()
                try await act()
                return try await reply
            }
            _ = try await client.send(create, on: self.tag)
            let entry = try await whileBlocked {
                _ = try await client.send(RedisCommand("XADD", "{q1}in", "7-1", "m", "hello"), on: self.tag)
            }
            #expect(entry.root[0][1][0][0].string == "7-1")
            #expect(entry.root[0][1][0][1][1].string == "hello")
            await expectError(.unblocked) {
                _ = try await whileBlocked { _ = try await client.send(RedisCommand("DEL", "{q1}in"), on: self.tag) }
            }
            _ = try await client.send(create, on: self.tag)
            await expectError(.noGroup) {
                _ = try await whileBlocked {
                    _ = try await client.send(RedisCommand("XGROUP", "DESTROY", "{q1}in", "g"), on: self.tag)
                }
            }
            // Nothing for a while is an answer as well: null.
            _ = try await client.send(create, on: self.tag)
            let short = RedisCommand("XREADGROUP", "GROUP", "g", "c", "BLOCK", "10", "STREAMS", "{q1}in", ">")
            #expect(try await blocking.send(short, blocking: .milliseconds(10)).root.isNull)
            await blocking.close()
            await expectError(.closed) { _ = try await blocking.send(short, blocking: .milliseconds(10)) }
        }
    }

    @Test("who may neither CLIENT nor INFO reads and waits all the same")
    func fewestRights() async throws {
        try await RedisServer.with { server in
            _ = try await server.command(
                "ACL",
                "SETUSER",
                "reader",
                "on",
                ">secret",
                "~{q1}*",
                "+xreadgroup",
                "+xgroup",
                "+xadd"
            )
            try await withClient(of: "unix://reader:secret@\(server.socketPath)") { client in
                // Not known, which is the same whenever it is asked.
                let server = try await client.serverIdentity(for: self.tag)
                let create = RedisCommand("XGROUP", "CREATE", "{q1}in", "g", "0", "MKSTREAM")
                _ = try await client.send(create, on: self.tag)
                let blocking = client.blockingConnection(for: self.tag)
                let wait = RedisCommand("XREADGROUP", "GROUP", "g", "c", "BLOCK", "500", "STREAMS", "{q1}in", ">")
                async let empty = blocking.send(wait, blocking: .milliseconds(500), server: server)
                // Nobody tells it to end sooner; it ends when its time runs out.
                await blocking.interrupt()
                #expect(try await empty.root.isNull)
                _ = try await client.send(RedisCommand("XADD", "{q1}in", "*", "m", "1"), on: self.tag)
                let found = try await blocking.send(wait, blocking: .milliseconds(500), server: server)
                #expect(found.root.count == 1)
                await blocking.close()
            }
        }
    }

    @Test("user, password and rights")
    func credentials() async throws {
        try await RedisServer.with { server in
            _ = try await server.command(
                "ACL",
                "SETUSER",
                "reader",
                "on",
                ">s3cret@:",
                "~{q1}*",
                "+get",
                "+client|setname",
            )
            func url(_ login: String) -> String { "unix://\(login)\(server.socketPath)" }
            try await withClient(of: url("reader:s3cret%40%3A@")) { client in
                let isMissing = try await client.send(RedisCommand("GET", "{q1}k"), on: self.tag).root.isNull
                #expect(isMissing)
                let error = await expectError(.noPermission) {
                    _ = try await client.send(RedisCommand("SET", "{q1}k", "1"), on: self.tag)
                }
                #expect(error?.isCredentials == true)
                await expectError(.noPermission) {
                    _ = try await client.send(RedisCommand("GET", "{q2}k"), on: self.tag)
                }
            }
            try await withClient(of: url("reader:wrong@")) { client in
                await expectError(.wrongPassword) {
                    _ = try await client.send(RedisCommand("GET", "{q1}k"), on: self.tag)
                }
                // The next attempt is not due for seconds: the reason is told again, without bothering the server.
                let options = RedisClient.Options(patience: .zero)
                await expectError(.wrongPassword) {
                    _ = try await client.send(RedisCommand("GET", "{q1}k"), on: self.tag, options: options)
                }
            }
            _ = try await server.command("CONFIG", "SET", "requirepass", "other")
            try await withClient(of: server.url) { client in
                await expectError(.noAuthentication) {
                    _ = try await client.send(RedisCommand("GET", "{q1}k"), on: self.tag)
                }
            }
            try await withClient(of: url(":other@")) { client in
                let isMissing = try await client.send(RedisCommand("GET", "{q1}k"), on: self.tag).root.isNull
                #expect(isMissing)
            }
        }
    }

    @Test("a server that reads its data is waited for")
    func loading() async throws {
        let settings = ["key-load-delay": "100", "loading-process-events-interval-bytes": "1024"]
        try await withClient(RedisServer.Options(settings: settings)) { server, client in
            _ = try await server.command("DEBUG", "POPULATE", "15000")
            // About two seconds of loading, told by a connection that is there already.
            let connection = try await connect(server.url)
            async let reload = server.command("DEBUG", "RELOAD")
            var seen: RedisError?
            try await eventually("the server is loading") {
                do {
                    _ = try await connection.send(RedisCommand("GET", "{q1}k")).get()
                } catch {
                    seen = error as? RedisError
                }
                return seen != nil
            }
            #expect(seen?.code == .loading)
            let patient = RedisClient.Options(patience: .seconds(30))
            let reply = try await client.send(RedisCommand("SET", "{q1}k", "1"), on: self.tag, options: patient)
            #expect(reply.root.string == "OK")
            _ = try await reload
            try await connection.close().get()
        }
    }

    @Test("a script that runs for too long is waited for")
    func busy() async throws {
        try await withClient(RedisServer.Options(settings: ["busy-reply-threshold": "20"])) { server, client in
            _ = try await client.send(RedisCommand("SET", "{q1}k", "1"), on: self.tag)
            let connection = try await connect(server.url)
            let runaway = connection.send(RedisCommand("EVAL", "while true do end", "0"), timeout: .minutes(1))
            try await eventually("the server is busy") {
                do {
                    _ = try await client.send(RedisCommand("GET", "{q1}k"), on: self.tag, options: self.never)
                    return false
                } catch let error as RedisError {
                    return error.code == .busy
                }
            }
            async let patient = client.send(
                RedisCommand("GET", "{q1}k"),
                on: self.tag,
                options: RedisClient.Options(patience: .seconds(30)),
            )
            let killer = try await connect(server.url)
            _ = try await killer.send(RedisCommand("SCRIPT", "KILL")).get()
            #expect(try await patient.root.string == "1")
            await expectError(.server) { _ = try await runaway.get() }
            try await connection.close().get()
            try await killer.close().get()
        }
    }

    @Test("too few replicas, a slot without a server")
    func cluster() async throws {
        try await withClient { server, client in
            let set = RedisCommand("SET", "{q1}k", "1")
            _ = try await server.command("CONFIG", "SET", "min-replicas-to-write", "1")
            await expectError(.noReplicas) { _ = try await client.send(set, on: self.tag, options: self.never) }
            _ = try await server.command("CONFIG", "SET", "min-replicas-to-write", "0")
            _ = try await server.command("CLUSTER", "DELSLOTS", .integer(self.tag.slot))
            await expectError(.clusterDown) { _ = try await client.send(set, on: self.tag, options: self.never) }
            let patient = RedisClient.Options(patience: .seconds(30))
            async let reply = client.send(set, on: self.tag, options: patient)
            _ = try await server.command("CLUSTER", "ADDSLOTS", .integer(self.tag.slot))
            #expect(try await reply.root.string == "OK")
        }
    }

    @Test("a function that is not there")
    func functionMissing() async throws {
        try await withClient { _, client in
            await expectError(.functionMissing) { _ = try await client.call("apus1_nothing", on: self.tag, keys: []) }
        }
    }
}
