internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusSimulator
internal import ApusStreams
internal import ApusTerminal
internal import ApusTestKit

extension Drill {
    /// The longest time until a service says that a master has no functions.
    private static let alarmMillisecondsMax = 5_000
    /// The longest time until a shard is served again, after its master is.
    private static let recoveryMillisecondsMax = 2_000
    /// The most connections that one process tries to make in a second to a server that is away.
    private static let triesPerSecondMax = 10.0

    static let slotsHalfMoved = Drill(
        "slots-half-moved",
        "Slots with data stay half moved between two Redis masters for some time during a send, one after the other."
    ) { run in
        let terms = DrillSettings(devices: run.sized(6_000, 100_000), dispatchers: 2, masters: 3)
        return try await DrillEnvironment.with(run, terms) { environment in
            let redis = environment.redisCluster
            try await environment.publish()
            try await environment.waitForShare(0.1)
            let singles = try await SteadySends(environment.cluster, environment.devices)
            let held = Duration.milliseconds(run.sized(300, 2_000))
            let slots = Array(environment.slots.prefix(run.sized(4, environment.slots.count)))
            var (half, rest) = (0, 0)
            let meanwhile = try await singles.publish("meanwhile") {
                for slot in slots {
                    let source = try await redis.owner(ofSlot: slot)
                    guard let target = redis.masters.first(where: { $0 !== source }) else { continue }
                    let count = Int(
                        try await source.command("CLUSTER", "COUNTKEYSINSLOT", .integer(slot)).root.number()
                    )
                    try await redis.beginMove(of: slot, from: source, to: target)
                    half += try await redis.moveKeys(of: slot, count: count / 2, from: source, to: target)
                    try await Task.sleep(for: held)
                    while true {
                        let moved = try await redis.moveKeys(of: slot, count: 100, from: source, to: target)
                        if moved == 0 { break }
                        rest += moved
                    }
                    try await redis.finishMove(of: slot, from: source, to: target)
                    try await redis.untilOwner(target, ofSlot: slot)
                }
            }
            run.say("\(slots.count) slots were half moved for \(held)")
            environment.report.figures["slots"] = .integer(slots.count)
            environment.report.figures["held_ms"] = .integer(Int(held / .milliseconds(1)))
            environment.report.figures["keys_moved_before"] = .integer(half)
            environment.report.figures["keys_moved_after"] = .integer(rest)
            environment.report.require(half > 0 && rest > 0, "no slot was half moved")
            try await environment.finishAndAudit()
            singles.report("meanwhile", meanwhile, in: &environment.report)
            singles.reportShards("meanwhile", meanwhile, in: &environment.report)
        }
    }

    static let joinedWithoutFunctions = Drill(
        "joined-without-functions",
        "A Redis master without functions joins and gets slots with data during a send; then apus init gives it the functions."
    ) { run in
        let terms = DrillSettings(devices: run.sized(6_000, 100_000), dispatchers: 2, masters: 3, spares: 1)
        return try await DrillEnvironment.with(run, terms) { environment in
            let (redis, spare) = (environment.redisCluster, environment.redisCluster.spares[0])
            try await redis.join(spare)
            try await eventually("the new master calls the cluster well") {
                try await spare.command("CLUSTER", "INFO").root.text().contains("cluster_state:ok")
            }
            try await environment.publish()
            try await environment.waitForShare(0.1)
            for slot in environment.slots.suffix(2) { try await redis.move(slot, to: spare) }
            let start = ContinuousClock.now
            // Whichever service meets it first; the others hear of it with their next question to the cluster, within 15 s.
            try await eventually("its functions are missed") {
                for service in environment.dispatchers + [environment.feedback]
                where try await service.metric("apus_redis_servers_without_functions") == 1 {
                    return true
                }
                return false
            }
            environment.report.figures["alarm_ms"] = .integer(Int((ContinuousClock.now - start) / .milliseconds(1)))
            let (before, since) = (try await Self.calls(spare), ContinuousClock.now)
            try await Task.sleep(for: .seconds(run.sized(2, 20)))
            let seconds = (ContinuousClock.now - since) / .seconds(1)
            let perSecond = Double(try await Self.calls(spare) - before) / seconds
            environment.report.figures["calls_per_second_without_functions"] = NumberText.json(perSecond, 1)
            environment.report.require(
                perSecond < 100,
                "\(Int(perSecond)) calls a second came to a master without functions"
            )
            run.say("apus init")
            try await environment.cluster.initializeAgain()
            try await environment.finishAndAudit()
            environment.report.require("alarm_ms", atMost: Self.alarmMillisecondsMax)
        }
    }

    /// Returns the number of functions that a server was asked for.
    private static func calls(_ server: RedisServer) async throws -> Int {
        let statistics = try await server.command("INFO", "commandstats").root.text()
        return statistics.split(whereSeparator: \.isNewline).filter { $0.hasPrefix("cmdstat_fcall") }
            .flatMap { $0.split(whereSeparator: { ":,".contains($0) }) }
            .filter { $0.hasPrefix("calls=") }
            .reduce(0) { $0 + (Int($1.dropFirst(6)) ?? 0) }
    }

    static let mastersDown = Drill(
        "masters-down",
        "One of three Redis masters is away when dispatchers start, and comes back; then two are away, and come back during a send."
    ) { run in
        let terms = DrillSettings(
            devices: run.sized(6_000, 100_000),
            dispatchers: 0,
            isAppendOnly: true,
            masters: 3,
            replicas: 0,
        )
        return try await DrillEnvironment.with(run, terms) { environment in
            let redis = environment.redisCluster
            // The one with the numbers of routes: dispatchers start by the copies of it.
            let victim = redis.masters[0]
            await victim.kill()
            let counter = try await ConnectionCounter.start(port: victim.port)
            for _ in 0..<2 { try await environment.startDispatcher() }
            run.say("two dispatchers started without one of three masters")
            let others = try await SteadySends(environment.cluster, environment.devices, avoiding: victim)
            var tries = 0.0
            let one = try await others.publish("one-down") {
                let (before, since) = (counter.count, ContinuousClock.now)
                try await Task.sleep(for: .seconds(run.sized(3, 20)))
                let seconds = (ContinuousClock.now - since) / .seconds(1)
                // Two dispatchers, feedback, and this process.
                tries = Double(counter.count - before) / seconds / 4
            }
            environment.report.figures["tries_per_second_and_process"] = NumberText.json(tries, 2)
            environment.report.require(
                tries <= Self.triesPerSecondMax,
                "\(NumberText.json(tries, 1).text) connections a second and process were tried to a master that is away",
            )
            await counter.stop()
            try await victim.restart()
            try await environment.noteRecovery("one_back", of: victim)

            for master in redis.masters.prefix(2) { await master.kill() }
            try await Task.sleep(for: .seconds(run.sized(2, 10)))
            run.say("two of three masters are away")
            for master in redis.masters.prefix(2) { try await master.restart() }
            try await environment.noteRecovery("two_back", of: victim)
            try await environment.publish()
            try await environment.finishAndAudit()
            others.report("one-down", one, in: &environment.report)
            for name in ["one_back_ms", "two_back_ms"] {
                environment.report.require(name, atMost: Self.recoveryMillisecondsMax)
            }
        }
    }
}

extension DrillEnvironment {
    /// Publishes a send at home on a master that is back, and records how long it takes from when the cluster is well until it is accepted.
    fileprivate func noteRecovery(_ name: String, of master: RedisServer) async throws {
        try await eventually("every node calls the cluster well") {
            for node in self.redisCluster.masters {
                let information = try await node.command("CLUSTER", "INFO").root.text()
                guard information.contains("cluster_state:ok") else { return false }
            }
            return true
        }
        let start = ContinuousClock.now
        let topology = self.cluster.client.topology
        let ids = (0...).lazy.map { "\(name)-\($0)" }
        let id = ids.first { id in
            let home = self.cluster.installation.streams.home(app: LocalCluster.app, id).tag
            return topology.endpoint(forSlot: home.slot) == RedisCluster.endpoint(master)
        }
        guard let id else { preconditionFailure("ids have homes everywhere") }
        try await eventually("\(id) is taken") {
            (try? await self.cluster.send(.devices([self.devices[0].id]), id: id, lane: .express)) != nil
                || self.cluster.simulator.ledger.snapshot.firstAcceptances[id] != nil
        }
        try await eventually("\(id) is accepted") {
            self.cluster.simulator.ledger.snapshot.firstAcceptances[id] != nil
        }
        self.report.figures["\(name)_ms"] = .integer(Int((ContinuousClock.now - start) / .milliseconds(1)))
        self.run.say("\(name): served again")
    }
}
