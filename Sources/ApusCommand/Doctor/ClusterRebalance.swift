package import ApusCore
internal import ApusInstallation
package import ApusRedis
internal import ApusTerminal

/// Plans how the slots with data are spread over the masters of a Redis Cluster, and moves them: `apus cluster plan`.
package struct ClusterRebalance: Sendable {
    private let client: RedisClient
    private let survey: ClusterSurvey
    private let data: DataSlots
    private let leaving: Set<RedisEndpoint>
    private let plan: SlotPlan

    /// Surveys the cluster of a client, and plans.
    ///
    /// - Parameter leaving: the addresses of masters that are to be left without slots.
    /// - Throws: `CommandFailure` when there is nothing to plan for, or a slot with data cannot be moved.
    package init(_ client: RedisClient, leaving: Set<RedisEndpoint>) async throws {
        guard client.configuration.deployment == .cluster else {
            throw CommandFailure(
                "Redis is one server: name a Redis Cluster, with redis+cluster:// or rediss+cluster://"
            )
        }
        self.survey = try await ClusterSurvey(client)
        guard let meta = try await ApusMeta.read(from: client) else {
            throw CommandFailure("there is no installation in this Redis: run apus init first")
        }
        self.client = client
        self.data = DataSlots(meta.keyspace)
        self.leaving = leaving
        self.plan = try Self.plan(self.survey.nodes, self.data, leaving)
    }

    private static func plan(
        _ nodes: ClusterNodes,
        _ data: DataSlots,
        _ leaving: Set<RedisEndpoint>,
    ) throws(CommandFailure) -> SlotPlan {
        do throws(SlotPlan.Failure) {
            return try SlotPlan(nodes, data, leaving: leaving)
        } catch {
            switch error {
            case .unowned(let slot):
                throw CommandFailure(
                    "slot \(slot) has no master: run redis-cli --cluster fix once the nodes that had it are back"
                )
            case .away(let endpoint):
                throw CommandFailure(
                    "the master \(endpoint) does not answer: start it, or let a replica take over (apus cluster status)"
                )
            case .unknown(let endpoint):
                throw CommandFailure("\(endpoint) is no master of this cluster: apus cluster status lists them")
            case .noneStays: throw CommandFailure("no master would be left: name fewer with --without")
            }
        }
    }

    /// The number of moves.
    package var count: Int { self.plan.moves.count }

    // MARK: Showing

    /// The plan as lines.
    package var lines: [String] {
        var table = TextTable(["MASTER", ">SHARDS", ">AFTER", ">PARTITIONS", ">AFTER", ">GETS", ">GIVES"])
        for master in self.plan.masters {
            let before = self.plan.before[master.id] ?? SlotPlan.Share()
            let after = self.plan.after[master.id] ?? SlotPlan.Share()
            table.add([
                "\(master.endpoint)", "\(before.shards)", "\(after.shards)", "\(before.partitions)",
                "\(after.partitions)",
                "\(self.plan.moves.count { $0.target == master.id })",
                "\(self.plan.moves.count { $0.source == master.id })",
            ])
        }
        return table.lines + ["", self.summary]
    }

    private var summary: String {
        let (before, after) = self.plan.imbalance
        guard self.count > 0 else {
            return "nothing to move: the fullest master has \(NumberText.decimal(before, 2)) times the mean"
        }
        let slots = self.count == 1 ? "1 slot moves" : "\(NumberText.grouped(self.count)) slots move"
        let begun = self.plan.unfinished == 0 ? "" : ", \(self.plan.unfinished) of which were begun before"
        return "\(slots)\(begun): the fullest master has \(NumberText.decimal(before, 2)) times the mean, then "
            + NumberText.decimal(after, 2)
    }

    /// The plan as JSON.
    package var json: JSONObject {
        let places = Dictionary(self.plan.masters.map { ($0.id, "\($0.endpoint)") }) { $1 }
        let masters = self.plan.masters.map { master -> JSONValue in
            let before = self.plan.before[master.id] ?? SlotPlan.Share()
            let after = self.plan.after[master.id] ?? SlotPlan.Share()
            return .object([
                "node": .string("\(master.endpoint)"),
                "queue_shards": .integer(before.shards), "queue_shards_after": .integer(after.shards),
                "device_partitions": .integer(before.partitions), "device_partitions_after": .integer(after.partitions),
            ])
        }
        let moves = self.plan.moves.map { move -> JSONValue in
            .object([
                "slot": .integer(move.slot), "from": .string(places[move.source] ?? move.source),
                "to": .string(places[move.target] ?? move.target),
            ])
        }
        return [
            "masters": .array(masters), "moves": .array(moves), "unfinished": .integer(self.plan.unfinished),
            "imbalance": NumberText.json(self.plan.imbalance.before, 3),
            "imbalance_after": NumberText.json(self.plan.imbalance.after, 3),
        ]
    }

    // MARK: Moving

    /// Throws when a master that gets slots lacks the functions or a user, or does not answer: what needs these slots would stand still.
    package func checkTargets() throws {
        let version = try Installation.library().version
        let targets = Set(self.plan.moves.map(\.target))
        for member in self.survey.members where targets.contains(member.node.id) {
            switch member.facts {
            case .failure(let error):
                throw CommandFailure(
                    "\(member.node.endpoint), which would get slots, does not answer: \(error.message)"
                )
            case .success(let facts):
                let isEnough = facts.functions.map { $0.major == version.major && $0 >= version } ?? false
                guard isEnough else {
                    throw CommandFailure(
                        "\(member.node.endpoint), which would get slots, lacks Apus' functions: run apus init first"
                    )
                }
                let users = self.survey.usersMissing(on: member.node.id)
                guard users.isEmpty else {
                    throw CommandFailure(
                        "\(member.node.endpoint), which would get slots, refuses who the other masters know: there "
                            + "\(users.joined(separator: ", ")) is missing, or has another password or other rules. Run "
                            + "apus acl set first, or load the ACL file of the others there"
                    )
                }
            }
        }
    }

    /// Moves the slots one after the other while everything runs.
    ///
    /// - Parameter observe: called after each move with the number of moves so far.
    /// - Returns: the number of keys that were moved.
    /// - Throws: `CommandFailure` with the slot that could not be moved; `CancellationError` between two slots.
    package func apply(_ observe: (Int) -> Void) async throws -> Int {
        let mover = SlotMover(self.client)
        var keys = 0
        for (index, move) in self.plan.moves.enumerated() {
            try Task.checkCancellation()
            // A failover in between has changed who gives and who gets.
            let nodes = try await ClusterSurvey.table(self.client).nodes
            guard let target = nodes.first(where: { $0.id == move.target }), target.isMaster, !target.isFailed else {
                throw self.stopped(index, "the master that would get slot \(move.slot) is one no more")
            }
            let owner = nodes.first { $0.isMaster && $0.slots.contains { $0.contains(move.slot) } }
            guard let owner, !owner.isFailed else { throw self.stopped(index, "slot \(move.slot) has no master") }
            // An earlier run ended the move, and its answer was lost.
            guard owner.id != target.id || index < self.plan.unfinished else { continue }
            let others = nodes.filter { $0.isMaster && !$0.isFailed && $0.id != owner.id && $0.id != target.id }
            // A slot that was begun is ended, also when the command is interrupted.
            let task = Task { try await mover.move(move.slot, from: owner, to: target, others: others) }
            do {
                keys += try await task.value
            } catch {
                throw self.stopped(index, "\(error)")
            }
            observe(index + 1)
        }
        return keys
    }

    private func stopped(_ done: Int, _ reason: String) -> CommandFailure {
        let cure = "apus cluster plan --apply goes on from here"
        return CommandFailure("stopped after \(done) of \(self.count) moves: \(reason). After the repair \(cure)")
    }
}
