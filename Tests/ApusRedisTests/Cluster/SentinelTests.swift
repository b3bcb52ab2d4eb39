import ApusCore
import ApusRedis
import ApusTLS
import ApusTestKit
import Foundation
import NIOCore
import Testing

/// The client against a real master, a replica and three real Sentinels.
@Suite(.serialized) struct SentinelTests {
    private let tag = HashTag("q0")
    /// Time enough for a failover on a loaded machine.
    private static let patient = RedisClient.Options(isIdempotent: true, patience: .seconds(60))

    /// Adds one. A master passes `INCRBYFLOAT` on as the `SET` of its outcome, so a replica counts no call of it.
    private func increment(_ client: RedisClient) async throws -> Int64? {
        let command = RedisCommand("INCRBYFLOAT", "{q0}n", 1)
        return Int64(try await client.send(command, on: self.tag, options: Self.patient).root.text())
    }

    /// The calls of a command that a server has executed since it started.
    private static func calls(_ command: String, _ server: RedisServer) async throws -> Int {
        let text = try await server.command("INFO", "commandstats").root.text()
        let line = text.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_\(command):calls=") }
        return line.flatMap { Int($0.drop { $0 != "=" }.dropFirst().prefix { $0 != "," }) } ?? 0
    }

    @Test func `A master is killed, the writes go on at its replica, and the old one that comes back gets none`()
        async throws
    {
        try await RedisSentinels.with { group in
            try await withClient(of: group.url) { client in
                #expect(try await self.increment(client) == 1)
                #expect(try await client.masters() == [RedisSentinels.endpoint(group.master)])
                let both = [group.master, group.replicas[0]].map(RedisSentinels.endpoint)
                #expect(try await client.servers() == both)
                // Without it the write may be lost, which is another test.
                _ = try await group.master.command("WAIT", 1, 10_000)
                await group.master.kill()
                #expect(try await self.increment(client) == 2)
                try await group.untilMaster(group.replicas[0])
                #expect(try await client.masters() == [RedisSentinels.endpoint(group.replicas[0])])
                #expect(client.topology.holder(ofSlot: 0) == nil, "a change counts as a failover")

                try await group.master.restart()
                let role = try await group.master.command("ROLE").root
                #expect(role.element(0)?.string == "master", "it does not know better")
                // Every connection is made anew, again and again, until the old master has learned what it is.
                var written: Int64 = 2
                while try await group.master.command("ROLE").root.element(0)?.string == "master" {
                    await client.reconnect(for: self.tag, olderThan: .zero)
                    written += 1
                    #expect(try await self.increment(client) == written)
                }
                #expect(written > 2)
                #expect(try await Self.calls("incrbyfloat", group.master) == 0)
            }
        }
    }

    @Test func `A frozen master is left, and its client writes to the new one`() async throws {
        try await RedisSentinels.with { group in
            try await withClient(of: group.url, configure: impatient) { client in
                #expect(try await self.increment(client) == 1)
                _ = try await group.master.command("WAIT", 1, 10_000)
                group.master.suspend()
                defer { group.master.resume() }
                #expect(try #require(await self.increment(client)) >= 2)
                #expect(try await client.masters() == [RedisSentinels.endpoint(group.replicas[0])])
            }
        }
    }

    @Test func `One Sentinel of three may be away, two may not`() async throws {
        try await RedisSentinels.with { group in
            await group.sentinels[0].kill()
            try await withClient(of: group.url) { client in _ = try await self.increment(client) }
            await group.sentinels[1].kill()
            try await withClient(of: group.url, configure: { $0.patience = .zero }) { client in
                // The last one may be busy with the loss of the others.
                try await eventually("the error counts them") {
                    let error = await expectError(.notConnected) { _ = try await client.masters() }
                    return error?.message.contains("1 names 127.0.0.1:\(group.master.port), 2 do not answer") == true
                }
                await expectError(.notConnected) { _ = try await client.send(RedisCommand("PING"), on: self.tag) }
            }
            await group.sentinels[2].kill()
            try await withClient(of: group.url, configure: { $0.patience = .zero }) { client in
                let error = await expectError(.notConnected) { _ = try await client.masters() }
                #expect(error?.message.hasPrefix("no Sentinel answers (127.0.0.1:") == true)
            }
        }
    }

    @Test func `Sentinels that are gone do not stop a client that has its connection`() async throws {
        try await RedisSentinels.with { group in
            try await withClient(of: group.url) { client in
                #expect(try await self.increment(client) == 1)
                for sentinel in group.sentinels { await sentinel.kill() }
                try await eventually("the client has noticed") { client.topology.lastError != nil }
                let eventLoop = client.eventLoopGroup.next()
                let made = try? await client.connection(for: self.tag, on: eventLoop).get()
                // The loop that had a connection still writes; no loop makes a new one.
                #expect(made == nil || client.topology.endpoint(forSlot: 0) == RedisSentinels.endpoint(group.master))
                try await group.sentinels[0].launch()
                try await group.sentinels[1].launch()
                #expect(try await self.increment(client) == 2)
            }
        }
    }

    @Test func `A wrong name, a wrong address and a missing password each name their cure`() async throws {
        var options = RedisSentinels.Options()
        options.password = "a+b&c"
        try await RedisSentinels.with(options) { group in
            let bare = group.url
            let named = bare.replacing("/\(RedisSentinels.masterName)", with: "")
            let secret = "?sentinel_password=a%2Bb%26c"
            try await withClient(of: bare + secret) { client in _ = try await self.increment(client) }
            try await withClient(of: bare) { client in
                let error = await expectError(.noAuthentication) { _ = try await client.masters() }
                #expect(error?.message.contains("sentinel_password") == true)
            }
            try await withClient(of: named + "/other" + secret) { client in
                let error = await expectError(.configuration) { _ = try await client.masters() }
                #expect(error?.message.contains("no Sentinel has a master named 'other'") == true)
            }
            let server = "redis+sentinel://127.0.0.1:\(group.master.port)/\(RedisSentinels.masterName)"
            try await withClient(of: server, configure: { $0.patience = .zero }) { client in
                let error = await expectError(.notConnected) { _ = try await client.masters() }
                #expect(error?.message.contains("it is no Sentinel but a Redis server") == true)
            }
        }
    }

    @Test func `A replica that the Sentinels do not reach is left out, and named`() async throws {
        try await RedisSentinels.with { group in
            try await withClient(of: group.url) { client in
                let (master, replica) = (
                    RedisSentinels.endpoint(group.master), RedisSentinels.endpoint(group.replicas[0])
                )
                #expect(try await client.servers() == [master, replica])
                #expect(client.topology.failedServers.isEmpty)
                await group.replicas[0].kill()
                try await eventually("it is left out") { try await client.servers() == [master] }
                #expect(client.topology.failedServers == [replica])
                try await group.replicas[0].restart()
                try await eventually("it is there again") { try await client.servers() == [master, replica] }
                #expect(client.topology.failedServers.isEmpty)
            }
        }
    }

    @Test func `A user without the permission for ROLE is told so`() async throws {
        try await RedisSentinels.with { group in
            let rules = ["SETUSER", "apus", "on", ">secret", "~*", "+@all", "-role"].map { RedisArgument.text($0) }
            let connection = try await connect(group.master.url)
            _ = try await connection.send(RedisCommand("ACL", rules)).get()
            try await connection.close().get()
            let url = group.url.replacing("redis+sentinel://", with: "redis+sentinel://apus:secret@")
            try await withClient(of: url) { client in
                let error = await expectError(.noPermission) {
                    _ = try await client.send(RedisCommand("PING"), on: self.tag)
                }
                #expect(error?.message.contains("+role") == true)
            }
        }
    }

    @Test func `Everything works over TLS with passwords for servers and Sentinels`() async throws {
        let now = UnixMilliseconds(Int64(Date().timeIntervalSince1970 * 1_000))
        let validity = CertificateValidity(days: 1, from: now)
        let authority = try CertificateAuthority(name: "Apus test", validity: validity)
        let profile = CertificateProfile(
            .server,
            commonName: "redis",
            dnsNames: ["redis.test"],
            ipAddresses: ["127.0.0.1"],
            validity: validity
        )
        let identity = try authority.issue(profile)
        let servers = RedisServer.Options(
            tls: RedisServer.Options.TLS(
                certificatePEM: identity.certificateChainPEM,
                privateKeyPEM: identity.privateKeyPEM,
                certificateAuthorityPEM: authority.certificatePEM,
            )
        )
        var options = RedisSentinels.Options()
        options.password = "watch"
        try await RedisSentinels.with(options, servers: servers) { group in
            for server in [group.master] + group.replicas {
                _ = try await server.command("ACL", "SETUSER", "apus", "on", ">secret", "~*", "+@all")
            }
            let url =
                group.url.replacing("rediss+sentinel://", with: "rediss+sentinel://apus:secret@")
                + "&sentinel_password=watch"
            try await withClient(of: url) { client in
                #expect(try await self.increment(client) == 1)
                _ = try await group.master.command("WAIT", 1, 10_000)
                await group.master.kill()
                #expect(try #require(await self.increment(client)) >= 1)
                #expect(try await client.masters() == [RedisSentinels.endpoint(group.replicas[0])])
            }
        }
    }
}
