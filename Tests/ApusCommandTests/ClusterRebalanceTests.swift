import ApusCommand
import ApusRedis
import ApusTerminal
import ApusTestKit
import Testing

/// Tests what a master needs before `apus cluster plan --apply` gives it slots.
@Suite struct ClusterRebalanceTests {
    @Test func `A master that lacks a user of the others gets no slots before it has the same`() async throws {
        try await RedisCluster.with(masters: 2, replicas: 0, spares: 1) { cluster in
            // Each with a client of its own, as commands are.
            func initialize() async throws {
                try await RedisAccess.withClient(cluster.url) { client in
                    _ = try await InstallationSetup(client).perform(queueShards: 6, devicePartitions: 6)
                }
            }
            func refusal() async throws -> String? {
                try await RedisAccess.withClient(cluster.url) { client in
                    let rebalance = try await ClusterRebalance(client, leaving: [])
                    #expect(rebalance.count > 0)
                    do {
                        try rebalance.checkTargets()
                        return nil
                    } catch {
                        return "\(error)"
                    }
                }
            }
            func setUser(_ password: RedisArgument, on node: RedisServer) async throws {
                _ = try await node.command("ACL", "SETUSER", "apus-dispatcher", "reset", "on", password, "~*", "+@all")
            }
            try await initialize()
            for master in cluster.masters { try await setUser(">one", on: master) }
            let joined = cluster.spares[0]
            try await cluster.join(joined)
            #expect(try await refusal()?.contains("run apus init first") == true)
            try await initialize()
            for password in [nil, ">two"] as [RedisArgument?] {
                if let password { try await setUser(password, on: joined) }
                let refused = try await refusal()
                #expect(refused?.contains("127.0.0.1:\(joined.port)") == true, "\(refused ?? "")")
                #expect(refused?.contains("apus-dispatcher") == true && refused?.contains("apus acl set") == true)
            }
            try await setUser(">one", on: joined)
            #expect(try await refusal() == nil)
        }
    }
}
