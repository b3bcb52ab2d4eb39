package import ApusCore
internal import ApusInstallation
package import ApusRedis
internal import ApusTerminal

/// Shows the nodes of a Redis Cluster and the findings about them: `apus cluster status`.
package struct ClusterReport: Sendable {
    private let survey: ClusterSurvey
    private let shares: [String: SlotPlan.Share]
    /// The findings about the nodes together.
    package let findings: [Diagnosis.Finding]

    /// Creates a report. Pure.
    ///
    /// - Parameters:
    ///   - keyspace: the sizes of the installation; nil where there is none yet.
    ///   - version: the version of the functions that this program needs.
    package init(_ survey: ClusterSurvey, keyspace: Keyspace?, functions version: FunctionLibrary.Version) {
        self.survey = survey
        self.findings = Diagnosis.cluster(survey, keyspace: keyspace, functions: version)
        let data = keyspace.map(DataSlots.init)
        self.shares = Dictionary(
            survey.members.map { member in
                let slots = member.node.slots.joined()
                let share = SlotPlan.Share(
                    shards: slots.count { if case .shard? = data?[$0] { true } else { false } },
                    partitions: slots.count { if case .partition? = data?[$0] { true } else { false } },
                )
                return (member.node.id, share)
            }
        ) { $1 }
    }

    /// Surveys the cluster of a client.
    ///
    /// - Throws: the reason why no node answers.
    package init(_ client: RedisClient) async throws {
        let survey = try await ClusterSurvey(client)
        // A part of the cluster may be away, and the sizes with it.
        let meta = try? await ApusMeta.read(from: client)
        self.init(survey, keyspace: meta?.keyspace, functions: try Installation.library().version)
    }

    /// True when a finding is not in order.
    package var hasConcerns: Bool { self.findings.contains { $0.verdict != .ok } }

    /// The nodes and findings as lines.
    package var lines: [String] {
        var table = TextTable([
            "NODE", "ROLE", "STATE", ">SLOTS", ">SHARDS", ">PARTITIONS", ">MEMORY", ">OFFSET", ">LAG", "FUNCTIONS",
            "VERSION",
        ])
        for member in self.survey.members {
            let share = self.shares[member.node.id] ?? SlotPlan.Share()
            let isMaster = member.node.isMaster
            let facts = member.answer
            table.add([
                isMaster ? member.place : "  \(member.place)",
                isMaster ? "master" : "replica",
                facts == nil ? "silent" : member.node.isFailed ? "failed" : "ok",
                isMaster ? NumberText.grouped(member.node.slots.reduce(0) { $0 + $1.count }) : "",
                isMaster ? "\(share.shards)" : "",
                isMaster ? "\(share.partitions)" : "",
                facts?.number("used_memory").map(Self.mebibytes) ?? "",
                facts?.number("master_repl_offset").map { NumberText.grouped($0) } ?? "",
                self.lag(of: member).map { NumberText.grouped($0) } ?? "",
                facts.map { $0.functions.map { "\($0)" } ?? "none" } ?? "",
                facts?.info["redis_version"] ?? "",
            ])
        }
        let concerns = self.findings.filter { $0.verdict != .ok }.flatMap { finding in
            let subject = finding.subject.isEmpty ? "" : "\(finding.subject): "
            return ["\(finding.verdict.rawValue)  \(subject)\(finding.detail)"]
                + (finding.cure.isEmpty ? [] : ["      → \(finding.cure)"])
        }
        return table.lines + [""] + (concerns.isEmpty ? self.findings.map { "ok    \($0.detail)" } : concerns)
    }

    /// The nodes and findings as JSON.
    package var json: JSONObject {
        let nodes = self.survey.members.map { member -> JSONValue in
            let share = self.shares[member.node.id] ?? SlotPlan.Share()
            var object: JSONObject = [
                "node": .string(member.place), "id": .string(member.node.id),
                "role": .string(member.node.isMaster ? "master" : "replica"),
                "failed": .bool(member.node.isFailed),
            ]
            if member.node.isMaster {
                object["slots"] = .integer(member.node.slots.reduce(0) { $0 + $1.count })
                object["queue_shards"] = .integer(share.shards)
                object["device_partitions"] = .integer(share.partitions)
                object["open_slots"] = .array(member.node.openSlots.map { .integer($0.slot) })
            } else if let master = self.survey.members.first(where: { $0.node.id == member.node.master }) {
                object["master"] = .string(master.place)
            }
            switch member.facts {
            case .failure(let error): object["error"] = .string(error.message)
            case .success(let facts):
                object["version"] = .string(facts.info["redis_version"] ?? "")
                object["functions"] = facts.functions.map { .string("\($0)") } ?? .null
                object["memory_bytes"] = .integer(facts.number("used_memory") ?? 0)
                object["replication_offset"] = .integer(facts.number("master_repl_offset") ?? 0)
                if let lag = self.lag(of: member) { object["lag_bytes"] = .integer(lag) }
            }
            return .object(object)
        }
        return [
            "nodes": .array(nodes), "findings": Diagnosis(self.findings).json["findings"] ?? .array([]),
        ]
    }

    /// The bytes of replication that a replica is behind its master; nil for a master, and where one of them does not answer. They were
    /// asked one after the other, so a busy master shows some.
    private func lag(of member: ClusterSurvey.Member) -> Int64? {
        guard !member.node.isMaster, let own = member.answer?.number("slave_repl_offset"),
            let master = self.survey.members.first(where: { $0.node.id == member.node.master }),
            let offset = master.answer?.number("master_repl_offset")
        else { return nil }
        return max(0, offset - own)
    }

    private static func mebibytes(_ bytes: Int64) -> String { "\(NumberText.grouped(bytes / 1_048_576)) MiB" }
}
