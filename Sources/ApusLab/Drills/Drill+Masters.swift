internal import ApusCore
internal import ApusRedis
internal import ApusTerminal
internal import ApusTestKit

extension Drill {
    /// The longest time that a slot may be without a master, with a node timeout of two seconds.
    private static let failoverMillisecondsMax = 6_000

    static let masterKilled = Drill(
        "master-killed",
        "kill -9 for one of three Redis masters in the middle of a send; its replica takes over, and it comes back as a replica."
    ) { run in
        try await Self.replacingMaster(run) { environment, victim, replica in
            let start = ContinuousClock.now
            await victim.kill()
            try await environment.redisCluster.untilMaster(replica)
            let milliseconds = Int((ContinuousClock.now - start) / .milliseconds(1))
            environment.report.figures["failover_ms"] = .integer(milliseconds)
            run.say("its replica is the master")
            try await victim.restart()
        }
    }

    static let masterFrozen = Drill(
        "master-frozen",
        "SIGSTOP for one of three Redis masters until its replica has taken over; then it wakes up as a replica."
    ) { run in
        try await Self.replacingMaster(run) { environment, victim, replica in
            victim.suspend()
            defer { victim.resume() }
            try await environment.redisCluster.untilMaster(replica, besides: victim)
            run.say("its replica is the master")
        }
    }

    static let mastersFailedOver = Drill(
        "masters-failed-over",
        "Every one of three Redis masters gives its slots to its replica, one after the other, during a send."
    ) { run in
        let terms = DrillSettings(devices: run.sized(6_000, 100_000), dispatchers: 2, masters: 3)
        return try await DrillEnvironment.with(run, terms) { environment in
            try await environment.publish()
            try await environment.waitForShare(0.1)
            let singles = try await SteadySends(environment.cluster, environment.devices)
            let meanwhile = try await singles.publish("meanwhile") {
                // To and fro: every node is a master and a replica in turn.
                for round in 0..<run.sized(1, 16) {
                    let cluster = environment.redisCluster
                    for (master, replica) in zip(cluster.masters, cluster.replicas) {
                        try await cluster.failOver(from: round.isMultiple(of: 2) ? master : replica)
                    }
                    run.say("every replica has taken over, round \(round + 1)")
                }
            }
            try await environment.finishAndAudit()
            singles.report("meanwhile", meanwhile, in: &environment.report)
            singles.reportShards("meanwhile", meanwhile, in: &environment.report)
        }
    }

    static let mastersAdded = Drill(
        "masters-added",
        "Three Redis masters become six during a send: the slots with data are spread over all of them, key by key."
    ) { run in
        let terms = DrillSettings(devices: run.sized(6_000, 1_000_000), dispatchers: 2, masters: 3, spares: 3)
        return try await DrillEnvironment.with(run, terms) { environment in
            let cluster = environment.redisCluster
            for spare in cluster.spares { try await cluster.join(spare) }
            try await environment.cluster.initializeAgain()
            try await environment.publish()
            try await environment.waitForShare(0.1)
            let accepted = environment.acceptedCount
            let singles = try await SteadySends(environment.cluster, environment.devices)
            var (moves, longest) = (0, 0)
            let meanwhile = try await singles.publish("meanwhile") {
                (moves, longest) = try await environment.cluster.spreadSlots()
            }
            environment.report.require(moves > 0, "there was nothing to move")
            environment.report.figures["moves"] = .integer(moves)
            environment.report.figures["longest_move_ms"] = .integer(longest)
            environment.report.figures["accepted_while_moving"] = .integer(environment.acceptedCount - accepted)
            run.say("the slots are spread over six masters")
            try await environment.finishAndAudit()
            singles.report("meanwhile", meanwhile, in: &environment.report)
        }
    }

    static let sentinelFailover = Drill(
        "sentinel-failover",
        "kill -9 for the Redis master that three Sentinels watch; its replica takes over, and the old one comes back as a master."
    ) { run in
        let terms = DrillSettings(devices: run.sized(6_000, 100_000), dispatchers: 2, hasSentinels: true)
        return try await DrillEnvironment.with(run, terms) { environment in
            let group = environment.redisSentinels
            try await environment.publish()
            try await environment.waitForShare(0.25)
            environment.report.bound += environment.boundOfOneKill * terms.dispatchers
            let start = ContinuousClock.now
            await group.master.kill()
            try await group.untilMaster(group.replicas[0])
            let milliseconds = Int((ContinuousClock.now - start) / .milliseconds(1))
            environment.report.figures["failover_ms"] = .integer(milliseconds)
            run.say("its replica is the master")
            // It calls itself a master until the Sentinels tell it otherwise.
            try await group.master.restart()
            try await environment.finishAndAudit()
            try await eventually("the old master follows the new one") {
                // Sentinels close all its connections when they tell it.
                let role = try? await group.master.command("ROLE").root
                return role?.element(0)?.string == "slave"
            }
            let statistics = try await group.master.command("INFO", "commandstats").root.text()
            let called = statistics.split(whereSeparator: \.isNewline).filter { $0.hasPrefix("cmdstat_fcall:") }
            environment.report.require(called.isEmpty, "the old master took calls after it came back: \(called)")
        }
    }

    /// Lets the replica of one of three masters take over in the middle of a send, and measures single sends of the other masters before
    /// and meanwhile.
    private static func replacingMaster(
        _ run: DrillRun,
        _ replace: (_ environment: DrillEnvironment, _ victim: RedisServer, _ replica: RedisServer) async throws -> Void,
    ) async throws -> DrillReport {
        let terms = DrillSettings(devices: run.sized(6_000, 100_000), dispatchers: 2, masters: 3)
        return try await DrillEnvironment.with(run, terms) { environment in
            let victim = try await environment.redisCluster.owner(ofSlot: environment.slots[0])
            let others = try await SteadySends(environment.cluster, environment.devices, avoiding: victim)
            let before = try await others.publish("before") {
                try await environment.publish()
                try await environment.waitForShare(0.25)
            }
            // Each dispatcher may repeat notifications whose outcomes were not recorded, or not copied to the replica.
            environment.report.bound += environment.boundOfOneKill * terms.dispatchers
            let singles = try await AcknowledgedSends(environment.cluster, environment.devices)
            var acknowledged = AcknowledgedSends.Published()
            let meanwhile = try await others.publish("meanwhile") {
                acknowledged = try await singles.publish("everywhere") {
                    try await replace(environment, victim, try await environment.redisCluster.replica(of: victim))
                }
            }
            try await environment.finishAndAudit()
            await singles.close()
            singles.report(acknowledged, in: &environment.report)
            others.reportShards("meanwhile", meanwhile, in: &environment.report)
            others.report("before", before, in: &environment.report)
            others.report("meanwhile", meanwhile, in: &environment.report)
            environment.report.require("failover_ms", atMost: Self.failoverMillisecondsMax)
            if let usual = environment.report.figures["singles_before_p99_us"]?.int64 {
                let meanwhile = environment.report.figures["singles_meanwhile_p99_us"]?.int64 ?? 0
                let multiple = Double(meanwhile) / Double(max(1, usual))
                environment.report.figures["singles_p99_multiple"] = NumberText.json(multiple, 2)
                environment.report.require("singles_meanwhile_p99_us", atMost: 2 * Int(usual))
            }
        }
    }
}
