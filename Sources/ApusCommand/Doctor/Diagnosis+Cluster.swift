internal import ApusInstallation
package import ApusRedis
internal import ApusTerminal

extension Diagnosis {
    /// The number of replicas of a master from which the death of one leaves a replica to acknowledge writes.
    static let replicasAdvised = 2

    /// Returns the findings about the nodes of a Redis Cluster together: whether each answers and is followed, whether all hold the same
    /// functions, settings and users, and how the slots are spread. Pure.
    ///
    /// - Parameters:
    ///   - keyspace: the sizes of the installation; nil when they are unknown.
    ///   - version: the version of the functions that this program needs.
    package static func cluster(
        _ survey: ClusterSurvey,
        keyspace: Keyspace?,
        functions version: FunctionLibrary.Version,
    ) -> [Finding] {
        let found =
            Self.silentNodes(survey) + Self.replicas(survey) + Self.functions(survey, version) + Self.settings(survey)
            + Self.users(survey) + Self.slots(survey, keyspace)
        guard found.allSatisfy({ $0.verdict == .ok }) else { return found.filter { $0.verdict != .ok } }
        let masters = survey.members.count(where: \.node.isMaster)
        let text =
            "\(masters) masters and \(survey.members.count - masters) replicas, with the same functions and settings"
        return [Finding(.ok, .cluster, text)] + found
    }

    private static func silentNodes(_ survey: ClusterSurvey) -> [Finding] {
        survey.members.compactMap { member in
            guard case .failure(let error) = member.facts else {
                guard member.node.isFailed else { return nil }
                let cure = "Look at the network between the nodes: the port of the cluster bus must be open, too"
                return Finding(.warn, .cluster, member.place, "it answers, but other nodes call it failed", cure: cure)
            }
            let isNeeded = member.node.isMaster && !member.node.slots.isEmpty
            let detail = "it does not answer: \(error.message)"
            let cure =
                member.node.slots.isEmpty
                ? "Start it, or take it out of the cluster: CLUSTER FORGET \(member.node.id) on every node"
                : "Start it, or let a replica take over: CLUSTER FAILOVER TAKEOVER at the replica, if none did by itself"
            if error.isCredentials {
                let users = "Give it the same users as the others: each node has users of its own"
                return Finding(.fail, .cluster, member.place, "it refuses this user: \(error.message)", cure: users)
            }
            return Finding(isNeeded ? .fail : .warn, .cluster, member.place, detail, cure: cure)
        }
    }

    private static func replicas(_ survey: ClusterSurvey) -> [Finding] {
        var findings: [Finding] = []
        for master in survey.members where master.node.isMaster && !master.node.slots.isEmpty {
            let following = survey.members.filter {
                $0.node.master == master.node.id && $0.answer?.info["master_link_status"] == "up"
            }
            if following.isEmpty {
                let cure = "Add replicas, \(Self.replicasAdvised) of them: its data ends with its machine"
                findings.append(Finding(.warn, .cluster, master.place, "no replica follows this master", cure: cure))
            }
        }
        for member in survey.members where !member.node.isMaster {
            guard let facts = member.answer, facts.info["master_link_status"] != "up" else { continue }
            let cure = "See its log: until it follows, it cannot take over without loss"
            findings.append(
                Finding(.warn, .cluster, member.place, "a replica that does not follow its master", cure: cure)
            )
        }
        return findings
    }

    private static func functions(_ survey: ClusterSurvey, _ version: FunctionLibrary.Version) -> [Finding] {
        survey.members.compactMap { member in
            guard let facts = member.answer else { return nil }
            let found = facts.functions
            if let found, found.major == version.major, found >= version { return nil }
            let text =
                found.map { "its functions are of version \($0), needed is \(version)" }
                ?? "it has none of Apus' functions"
            let cure =
                member.node.isMaster
                ? "Run apus init: it loads them on every master" : "Run apus init, then see that it follows its master"
            let isUsed = member.node.isMaster && !member.node.slots.isEmpty
            return Finding(isUsed ? .fail : .warn, .cluster, member.place, text, cure: cure)
        }
    }

    private static func settings(_ survey: ClusterSurvey) -> [Finding] {
        ClusterSurvey.settingNames.compactMap { name in
            let values = survey.members.compactMap { member in
                member.answer?.settings?[name].map { (place: member.place, value: $0) }
            }
            guard let (usual, others) = Self.difference(values) else { return nil }
            let text =
                "\(name) is \(usual) on most nodes, but "
                + others.map { "\($0.value) on \($0.place)" }.joined(separator: ", ")
            return Finding(
                .warn,
                .cluster,
                name,
                text,
                cure: "Set the same on every node: any of them may become a master"
            )
        }
    }

    private static func users(_ survey: ClusterSurvey) -> [Finding] {
        let known = survey.members.compactMap { member in member.answer?.users.map { (member.place, $0) } }
        return Set(known.flatMap { $0.1.keys }).sorted().compactMap { name in
            let values = known.map { (place: $0.0, value: $0.1[name] ?? "") }
            guard let (_, others) = Self.difference(values) else { return nil }
            let places = others.map(\.place).joined(separator: ", ")
            let text = "the user \(name) is missing, or has another password or other rules, on \(places)"
            let cure =
                "Set the same users on every node (ACL LOAD of the same file): a replica that becomes a master refuses who it does not know"
            return Finding(.warn, .cluster, "user \(name)", text, cure: cure)
        }
    }

    /// Returns the most frequent value and those that differ from it; nil when all are the same.
    private static func difference(
        _ values: [(place: String, value: String)]
    ) -> (usual: String, others: [(place: String, value: String)])? {
        let counts = Dictionary(grouping: values, by: \.value).mapValues(\.count)
        guard counts.count > 1, let usual = counts.max(by: { ($0.value, $1.key) < ($1.value, $0.key) })?.key else {
            return nil
        }
        return (usual, values.filter { $0.value != usual })
    }

    private static func slots(_ survey: ClusterSurvey, _ keyspace: Keyspace?) -> [Finding] {
        var findings: [Finding] = []
        let held = Set(survey.members.filter(\.node.isMaster).flatMap { $0.node.slots.joined() })
        if held.count < HashTag.slotCount {
            let text = "\(NumberText.grouped(HashTag.slotCount - held.count)) of 16,384 slots have no master"
            let cure = "redis-cli --cluster fix, after the nodes that had them are back"
            findings.append(Finding(.fail, .cluster, "slots", text, cure: cure))
        }
        guard let keyspace else { return findings }
        do throws(SlotPlan.Failure) {
            let plan = try SlotPlan(survey.nodes, DataSlots(keyspace))
            if plan.unfinished > 0 {
                let text = "\(plan.unfinished) moves of slots were begun and not ended: what needs these slots waits"
                findings.append(Finding(.fail, .cluster, "slots", text, cure: "apus cluster plan --apply ends them"))
            }
            let (before, after) = plan.imbalance
            let share = NumberText.decimal(before, 2)
            if plan.moves.count > plan.unfinished, before > 1.10 * after {
                let text = "the fullest master has \(share) times the mean of shards and partitions"
                findings.append(
                    Finding(.warn, .cluster, "slots", text, cure: "apus cluster plan --apply spreads them evenly")
                )
            } else if plan.unfinished == 0 {
                findings.append(
                    Finding(
                        .ok,
                        .cluster,
                        "slots",
                        "the fullest master has \(share) times the mean of shards and partitions"
                    )
                )
            }
        } catch {
            // A slot without a master or a silent one is reported above.
        }
        return findings
    }
}
