internal import ApusCore
internal import ApusFleet
internal import Logging

/// Lets faults strike the masters of Redis.
extension Simulation {
    /// The longest time between the moves of two keys of a slot, in seconds.
    static let keyMoveSecondsMax = 0.02

    func someMaster(_ random: inout SeededGenerator) -> SimulatedMaster {
        self.fleet.masters[Int.random(in: 0..<self.fleet.masters.count, using: &random)]
    }

    func perform(
        _ event: SimulationPlan.Event,
        on master: SimulatedMaster,
        _ random: inout SeededGenerator,
    ) {
        let (server, process) = (master.server, master.process)
        switch event {
        case .redisDown:
            self.fleet.network.refuse(
                master.port,
                until: self.scheduler.now + Int64(Double.random(in: 0.1...10, using: &random) * 1e9)
            )
            self.fleet.network.cutAll(of: process)
        case .redisBusy:
            guard !process.isFrozen else { return }
            process.freeze()
            self.after(Double.random(in: 0.5...16, using: &random)) { process.thaw() }
        case .redisLoss: self.loseWrites(master, &random)
        case .copyLag:
            server.silenceCopy(true)
            self.after(Double.random(in: 0.5...20, using: &random)) { server.silenceCopy(false) }
        case .redisFull:
            server.model.isMadeFull = true
            self.after(Double.random(in: 0.5...15, using: &random)) { server.model.isMadeFull = false }
        case .redisError: self.refuse(master, &random)
        case .redisScript:
            guard !process.isFrozen else { return }
            process.freeze()
            let busy = Double.random(in: 0.5...10, using: &random)
            // Redis tells nobody before.
            self.after(5) {
                guard !self.isHealing else { return }
                server.refusal = .busy
                process.thaw()
                self.after(busy) { server.refusal = nil }
            }
        default: self.fleet.network.cutAll(of: process)
        }
    }

    func attachCopy(_ master: SimulatedMaster) {
        guard self.plan.hasCopy, master.server.copy == nil else { return }
        // A file is synced every second.
        let microseconds = self.plan.hasReplica ? 100...20_000 : 200_000...500_000 as ClosedRange<Int64>
        master.server.attach(
            lag: Int64.random(in: microseconds, using: &self.scheduler.random),
            isReplica: self.plan.hasReplica
        )
        master.copySince = self.scheduler.now
    }

    func loseWrites(_ master: SimulatedMaster, _ random: inout SeededGenerator) {
        guard master.mayLoseWrites, let index = self.fleet.masters.firstIndex(where: { $0 === master }) else { return }
        let seconds = Double.random(in: 0.01...6, using: &random)
        self.note(.redisLoss, seconds: seconds + Double(self.plan.leaseSeconds))
        self.fleet.network.refuse(master.port, until: self.scheduler.now + Int64(seconds * 1e9))
        self.fleet.network.cutAll(of: master.process)
        master.process.thaw()
        let writes = master.server.failOver(runID: RedisModel.identity(random.next()))
        self.fleet.logger.notice("master \(index) has kept \(writes) of \(master.writes) writes")
        for device in self.devices { device.forget(after: writes, of: index) }
        for send in self.sends { send.forget(after: writes, of: index) }
        for pause in self.routePauses + self.sendPauses {
            pause.forget(after: writes, of: index, at: self.scheduler.now)
        }
        self.losses += 1
        // New entries may have ids below those that are forgotten.
        self.cursors = [:]
        self.backend.readAgain()
        let pause = self.plan.hasReplica ? Double.random(in: 0.5...8, using: &random) : 0
        self.after(pause) { self.attachCopy(master) }
    }

    func refuse(_ master: SimulatedMaster, _ random: inout SeededGenerator) {
        let server = master.server
        let seconds = Double.random(in: 0.3...8, using: &random)
        switch Int.random(in: 0..<3, using: &random) {
        case 0:
            server.demote(true)
            return self.after(seconds) { server.demote(false) }
        case 1:
            self.fleet.network.cutAll(of: master.process)
            server.refusal = .loading
        default: server.refusal = .masterDown
        }
        self.after(seconds) { server.refusal = nil }
    }

    /// Begins to move a slot with data to another master.
    func moveSlot(_ random: inout SeededGenerator) {
        let slots = self.fleet.slots
        guard let cluster = self.fleet.cluster, !slots.isEmpty else { return }
        let slot = slots[Int.random(in: 0..<slots.count, using: &random)]
        let source = cluster.owner(of: slot)
        let step = Int.random(in: 1..<cluster.ports.count, using: &random)
        let target = (source + step) % cluster.ports.count
        guard cluster.target(of: slot) == nil else { return }
        cluster.beginMove(of: slot, to: target)
        self.fleet.logger.notice("slot \(slot) moves from master \(source) to \(target)")
        for index in [source, target] { self.fleet.masters[index].moves += 1 }
        self.moveKeys(of: slot, from: source, to: target, random)
    }

    func moveKeys(of slot: Int, from source: Int, to target: Int, _ random: SeededGenerator) {
        var random = random
        self.after(Double.random(in: 0...Self.keyMoveSecondsMax, using: &random)) {
            let (giver, taker) = (self.fleet.masters[source], self.fleet.masters[target])
            // A frozen master neither gives nor takes.
            if !giver.process.isFrozen, !taker.process.isFrozen {
                let keys = giver.server.model.keys(ofSlot: slot)
                guard let key = keys.randomElement(using: &random) else { return self.endMove(of: slot, giver, taker) }
                giver.server.model.give(key, to: taker.server.model)
            }
            self.moveKeys(of: slot, from: source, to: target, random)
        }
    }

    func endMove(of slot: Int, _ giver: SimulatedMaster, _ taker: SimulatedMaster) {
        self.fleet.cluster?.endMove(of: slot)
        self.fleet.logger.notice("slot \(slot) has moved")
        giver.server.redirectReaders()
        taker.writesOwed = taker.writes
        for master in [giver, taker] { master.moves -= 1 }
    }
}
