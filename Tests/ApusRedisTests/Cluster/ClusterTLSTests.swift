import ApusRedis
import ApusTLS
import ApusTestKit
import Testing

/// The client against a real Redis Cluster whose nodes speak TLS, as a user with a password.
@Suite(.serialized) struct ClusterTLSTests {
    private static let patient = RedisClient.Options(isIdempotent: true, patience: .seconds(60))
    private static let tags = (0..<9).map { HashTag("q\($0)") }

    @Test func `Every node is reached over TLS with a password, also the one that takes over`() async throws {
        var options = try RedisTLSTests.options(.peer)
        options.settings["tls-replication"] = "yes"
        options.settings["user"] = "apus on >se&cret ~* +@all"
        // A handshake of TLS between nodes takes long on a busy machine.
        try await RedisCluster.with(nodeTimeout: 5_000, options) { cluster in
            // Without a password one may look after the cluster, and sees no data.
            for node in cluster.nodes {
                _ = try await node.command("ACL", "SETUSER", "default", "-@read", "-@write")
            }
            func url(_ login: String) -> String {
                cluster.tlsURL.replacing("rediss+cluster://", with: "rediss+cluster://\(login)")
            }
            try await withClient(of: url("apus:se%26cret@")) { client in
                for (number, tag) in Self.tags.enumerated() {
                    let set = RedisCommand("SET", .text("\(tag)k"), .integer(number))
                    _ = try await client.send(set, on: tag, options: Self.patient)
                }
                let servers = try await client.servers()
                #expect(Set(servers) == Set(cluster.nodes.compactMap(\.tlsPort).map { .host("127.0.0.1", port: $0) }))
                for server in servers {
                    let user = try await client.send(RedisCommand("ACL", "WHOAMI"), to: server, options: Self.patient)
                    #expect(user.root.string == "apus")
                }
                let master = cluster.masters[0]
                let tag = try #require(
                    Self.tags.first {
                        client.topology.endpoint(forSlot: $0.slot) == .host("127.0.0.1", port: master.tlsPort ?? 0)
                    }
                )
                _ = try await client.send(RedisCommand("WAIT", 1, 10_000), on: tag, options: Self.patient)
                await master.kill()
                _ = try await client.send(
                    RedisCommand("SET", .text("\(tag)k"), "again"),
                    on: tag,
                    options: Self.patient
                )
                let owner = client.topology.endpoint(forSlot: tag.slot)
                #expect(cluster.replicas.contains { owner == .host("127.0.0.1", port: $0.tlsPort ?? 0) })
            }
            for (login, code) in [("apus:wrong@", RedisError.Code.wrongPassword), ("", .noPermission)] {
                try await withClient(of: url(login), configure: { $0.patience = .seconds(2) }) { client in
                    await expectError(code) {
                        _ = try await client.send(RedisCommand("GET", .text("\(Self.tags[1])k")), on: Self.tags[1])
                    }
                }
            }
        }
    }
}
