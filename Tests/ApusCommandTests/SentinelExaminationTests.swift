import ApusCommand
import ApusRedis
import ApusService
import ApusTerminal
import ApusTestKit
import Testing

/// Tests what `apus doctor` says of servers that Sentinels watch.
@Suite struct SentinelExaminationTests {
    private static func findings(_ group: RedisSentinels) async throws -> [Diagnosis.Finding] {
        let choice = try RedisChoice(redis: group.url, context: nil, config: nil, environment: [:])
        return await Examination(source: nil, redis: choice, asksOthers: false).run().findings
    }

    @Test func `A replica that is dead is warned of, as is its master, and the other checks go on`() async throws {
        try await RedisSentinels.with { group in
            try await RedisAccess.withClient(group.url) { client in
                _ = try await InstallationSetup(client).perform(queueShards: 1, devicePartitions: 1)
            }
            let master = "\(RedisSentinels.endpoint(group.master))"
            let replica = "\(RedisSentinels.endpoint(group.replicas[0]))"
            func of(_ subject: String, _ check: Diagnosis.Check, _ findings: [Diagnosis.Finding]) -> Diagnosis.Finding?
            {
                findings.first { $0.subject == subject && $0.check == check }
            }
            var findings = try await Self.findings(group)
            for server in [master, replica] {
                #expect(of(server, .connection, findings)?.verdict == .ok, "\(findings)")
                #expect(of(server, .replication, findings)?.verdict == .ok, "\(findings)")
            }
            await group.replicas[0].kill()
            var details: Set<String> = []
            // Its Sentinels take it for alive at first.
            try await eventually("the Sentinels do not reach it", timeout: .seconds(60)) {
                findings = try await Self.findings(group)
                let dead = of(replica, .connection, findings)
                #expect(dead?.verdict == .warn, "\(findings)")
                #expect(of(master, .connection, findings)?.verdict == .ok, "\(findings)")
                #expect(findings.contains { $0.check == .installation && $0.verdict == .ok }, "\(findings)")
                details.formUnion(dead.map { [$0.detail] } ?? [])
                return details.contains { $0.contains("Sentinels do not reach") }
            }
            #expect(of(master, .replication, findings)?.detail == "primary, and no replica follows it")
            #expect(of(replica, .connection, findings)?.cure.contains(RedisSentinels.masterName) == true)
        }
    }
}
