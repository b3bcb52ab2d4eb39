import ApusCommand
import ApusCore
import ApusRedis
import Testing

/// Tests the diagnosis of a cluster's nodes together, from what they say of themselves.
@Suite struct ClusterDiagnosisTests {
    private static let version = FunctionLibrary.Version(major: 2, minor: 0)
    private static let keyspace = Keyspace(queueShards: 6, devicePartitions: 6)

    private static func endpoint(_ number: Int) -> RedisEndpoint { .host("10.0.0.\(number)", port: 6_379) }

    /// Three masters with equal ranges and a replica each: 1, 2, 3 and 4, 5, 6.
    private static func members() -> [ClusterSurvey.Member] {
        (1...6).map { number in
            let isMaster = number <= 3
            let range = (number - 1) * HashTag.slotCount / 3...number * HashTag.slotCount / 3 - 1
            let node = ClusterNodes.Node(
                id: "n\(number)",
                endpoint: Self.endpoint(number),
                address: Self.endpoint(number),
                isMaster: isMaster,
                isFailed: false,
                master: isMaster ? nil : "n\(number - 3)",
                epoch: 1,
                slots: isMaster ? [range] : [],
            )
            let info =
                isMaster
                ? ["master_repl_offset": "1000", "used_memory": "1048576"]
                : ["master_link_status": "up", "slave_repl_offset": "900", "master_repl_offset": "900"]
            let facts = ClusterSurvey.Facts(
                info: info,
                functions: Self.version,
                settings: ["maxmemory": "0", "appendonly": "yes"],
                users: ["default": "user default on", "apus": "user apus on #12"],
            )
            return ClusterSurvey.Member(node, .success(facts))
        }
    }

    private static func findings(_ change: (inout [ClusterSurvey.Member]) -> Void) -> [Diagnosis.Finding] {
        var members = Self.members()
        change(&members)
        return Diagnosis.cluster(ClusterSurvey(members), keyspace: Self.keyspace, functions: Self.version)
    }

    private static func changing(_ member: inout ClusterSurvey.Member, _ change: (inout ClusterSurvey.Facts) -> Void) {
        member.facts = member.facts.map { facts in
            var facts = facts
            change(&facts)
            return facts
        }
    }

    @Test func `A cluster as it should be has nothing to cure`() {
        let findings = Self.findings { _ in }
        #expect(findings.allSatisfy { $0.verdict == .ok && $0.cure.isEmpty && $0.check == .cluster })
        #expect(findings.first?.detail.hasPrefix("3 masters and 3 replicas") == true)
        let report = ClusterReport(ClusterSurvey(Self.members()), keyspace: Self.keyspace, functions: Self.version)
        #expect(!report.hasConcerns)
        // Each master is followed by its replica, which is a hundred bytes behind.
        #expect(report.lines[1].contains("10.0.0.1:6379") && report.lines[2].contains("10.0.0.4:6379"))
        #expect(report.lines[2].contains(" 100 ") && report.lines[1].contains(" 1 MiB "))
        #expect(report.json["nodes"]?.array?.count == 6)
    }

    @Test func `A master lacks the users that all others with slots have alike, as far as they are known`() {
        func missing(_ changes: (member: Int, user: String, rules: String?)...) -> [String] {
            var members = Self.members()
            for change in changes { Self.changing(&members[change.member]) { $0.users?[change.user] = change.rules } }
            return ClusterSurvey(members).usersMissing(on: "n3")
        }
        func missing(withUsers users: [String: String]?, of member: Int) -> [String] {
            var members = Self.members()
            Self.changing(&members[member]) { $0.users = users }
            return ClusterSurvey(members).usersMissing(on: "n3")
        }
        #expect(missing() == [])
        #expect(missing(withUsers: ["other": "user other on"], of: 2) == ["apus", "default"])
        #expect(missing((2, "apus", "user apus on #13")) == ["apus"])
        #expect(missing(withUsers: nil, of: 2) == [])
        // One that differs on the others, too, is nobody's fault here; a replica tells nothing.
        #expect(missing((1, "apus", "user apus on #13")) == [])
        #expect(missing((3, "more", "user more on")) == [])
        #expect(missing((2, "default", nil)) == ["default"])
        // A master whose users may not be read is left out.
        var members = Self.members()
        Self.changing(&members[0]) { $0.users = nil }
        Self.changing(&members[2]) { $0.users?["default"] = nil }
        #expect(ClusterSurvey(members).usersMissing(on: "n3") == ["default"])
    }

    @Test func `Whatever differs or is missing is named with its cure`() {
        func sole(_ change: (inout [ClusterSurvey.Member]) -> Void) -> Diagnosis.Finding? {
            let found = Self.findings(change)
            #expect(found.count == 1, "\(found)")
            return found.first
        }
        var found = sole { Self.changing(&$0[4]) { $0.settings?["maxmemory"] = "100" } }
        #expect(found?.verdict == .warn && found?.detail.contains("100 on 10.0.0.5:6379") == true)
        found = sole { Self.changing(&$0[4]) { $0.users?["apus"] = "user apus on #13" } }
        #expect(found?.subject == "user apus" && found?.detail.contains("10.0.0.5:6379") == true)
        // No digest of a password is shown.
        #expect(found?.sentence.contains("#1") == false)
        found = sole { Self.changing(&$0[1]) { $0.functions = nil } }
        #expect(found?.verdict == .fail && found?.cure.contains("apus init") == true)
        found = sole { Self.changing(&$0[1]) { $0.functions = .init(major: 1, minor: 9) } }
        #expect(found?.detail.contains("1.9") == true)
        found = sole { $0[2].node.openSlots = [.init(slot: 16_000, isImported: false, peer: "n1")] }
        #expect(found?.verdict == .fail && found?.detail.contains("begun and not ended") == true)
        found = sole { $0[0].node.isFailed = true }
        #expect(found?.detail.contains("other nodes call it failed") == true)
        // A node that may not be asked for its settings and users differs from nobody.
        #expect(
            Self.findings { Self.changing(&$0[3]) { ($0.settings, $0.users) = (nil, nil) } }.allSatisfy {
                $0.verdict == .ok
            }
        )
    }

    @Test func `A silent master fails, and its replica is not missed`() {
        let silent = Self.findings { $0[1].facts = .failure(RedisError(.notConnected, "refused")) }
        #expect(silent.count == 1 && silent[0].verdict == .fail && silent[0].subject == "10.0.0.2:6379")
        let refused = Self.findings { $0[1].facts = .failure(RedisError(.wrongPassword, "WRONGPASS")) }
        #expect(refused.first?.cure.contains("same users") == true)
        let alone = Self.findings { $0[4].facts = .failure(RedisError(.notConnected, "refused")) }
        #expect(alone.map(\.verdict) == [.warn, .warn] && alone.contains { $0.detail.contains("no replica follows") })
        let unlinked = Self.findings { Self.changing(&$0[4]) { $0.info["master_link_status"] = "down" } }
        #expect(unlinked.count == 2 && unlinked.contains { $0.detail.contains("does not follow its master") })
    }

    @Test func `Slots without a master and an uneven spread are told`() {
        let missing = Self.findings { $0[2].node.slots = [] }
        #expect(
            missing.contains {
                $0.verdict == .fail && $0.detail.contains("5,462 of 16,384 slots") || $0.detail.contains("5,461 of")
            }
        )
        let uneven = Self.findings { members in
            members[0].node.slots += members[1].node.slots
            members[1].node.slots = []
        }
        #expect(uneven.contains { $0.verdict == .warn && $0.cure.contains("apus cluster plan --apply") })
    }
}
