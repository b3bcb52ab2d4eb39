internal import ApusCore
internal import Logging
internal import NIOCore

/// Lets faults strike the processes of services.
extension Simulation {
    /// The share of kills and freezes that come when something was sent to a provider.
    static let inFlightShare = 0.5
    /// The seconds within which a service notices that a file has changed.
    static let reloadSeconds = 2.0
    /// The most sends that are poison.
    static let poisonsMax = 2
    /// The seconds that a service may take to stop.
    static let drainSeconds: Int64 = 25
    /// The seconds between two looks whether a service has stopped.
    static let restartSeconds = 0.5
    /// The seconds within which what was written arrives.
    static let inFlightSeconds = 0.1
    /// The seconds that a request takes, roughly.
    static let requestSeconds = 0.02
    /// The seconds by which a clock may be ahead of the fleet's that no provider sees.
    static let ownClockSeconds: ClosedRange<Int64> = -3_600...3_600

    /// The nanoseconds by which the fleet's clocks are ahead of the providers'.
    var clockLead: Int64 { self.scheduler.wallOffset - SimulatedFleet.wallOffset }

    func setOwnClock(_ random: inout SeededGenerator) {
        let index = Int.random(in: 0...self.services.count, using: &random)
        let seconds = Int64.random(in: Self.ownClockSeconds, using: &random)
        guard index < self.services.count else {
            self.someMaster(&random).process.clockError = seconds * Self.second
            return self.note(.ownClock, seconds: Double(self.plan.leaseSeconds))
        }
        let (service, process) = self.services[index]
        switch service {
        case .dispatcher:
            let range = Self.fleetClockSeconds
            process.clockError = -self.clockLead + range.clamped(seconds) * Self.second
        case .feedback, .registration: process.clockError = seconds * Self.second
        }
    }

    func kill(_ random: inout SeededGenerator) {
        let index = Int.random(in: 0..<self.services.count, using: &random)
        guard random.chance(Self.inFlightShare) else { return self.kill(index, &random) }
        var later = random
        self.whenBusy(index, &random) { [self] index in self.kill(index, &later) }
    }

    func kill(_ index: Int, _ random: inout SeededGenerator) {
        guard !self.services[index].process.isDead else { return }
        let victim = self.services[index]
        self.kill(index)
        self.after(Double.random(in: 0.05...8, using: &random)) {
            guard self.services[index].process.isDead else { return }
            self.services[index] = self.started(victim.service)
        }
    }

    func stop(_ random: inout SeededGenerator) {
        let index = Int.random(in: 0..<self.services.count, using: &random)
        guard random.chance(Self.inFlightShare) else { return self.stop(index, &random) }
        var later = random
        self.whenBusy(index, &random) { [self] index in self.stop(index, &later) }
    }

    func kill(_ index: Int) {
        let (service, process) = self.services[index]
        self.fleet.logger.notice("kill of \(process.name) \(process.pid)")
        // Its last bytes still arrive.
        if service == .dispatcher { self.note(.kill, seconds: Self.inFlightSeconds) }
        process.kill()
    }

    func stop(_ index: Int, _ random: inout SeededGenerator) {
        let (_, process) = self.services[index]
        guard !process.isDead, !process.isFrozen, !process.isStopping else { return }
        self.fleet.logger.notice("stop of \(process.name) \(process.pid)")
        process.isStopping = true
        self.fleet.stop(process)
        self.awaitEnd(index, of: process, until: self.scheduler.now + Self.drainSeconds * Self.second)
    }

    /// Starts a service again when it has stopped. One that takes too long is killed, as systemd does it.
    func awaitEnd(_ index: Int, of process: SimulatedProcess, until end: Int64) {
        self.after(Self.restartSeconds) {
            let (service, current) = self.services[index]
            guard current === process, !process.isDead else { return }
            if process.hasEnded {
                process.kill()
                self.services[index] = self.started(service)
            } else if self.scheduler.now >= end {
                self.kill(index)
                self.services[index] = self.started(service)
            } else {
                self.awaitEnd(index, of: process, until: end)
            }
        }
    }

    /// Makes the next send poison. Unlike a fault it does not end: whoever handles its units must give them up.
    func poison(_ random: SeededGenerator) {
        guard self.sends.count(where: \.isPoison) < Self.poisonsMax else { return }
        self.isNextPoison = true
        let word = Array(SimulatedSend.poison.utf8)
        var random = random
        self.fleet.network.isDeadly = { [self] sender, receiver, bytes in
            guard receiver === self.fleet.providers else { return false }
            guard !self.poisoned.contains(ObjectIdentifier(sender)) else { return true }
            guard bytes.readableBytesView.firstRange(of: word) != nil,
                let index = self.services.firstIndex(where: { $0.process === sender })
            else { return false }
            self.fleet.logger.notice("\(sender.name) \(sender.pid) dies of poison")
            self.poisoned.insert(ObjectIdentifier(sender))
            self.after(0) { self.kill(index, &random) }
            return true
        }
    }

    /// Exchanges the key of records in the two steps that Security tells of; the janitor encrypts what is left.
    func exchangeKey(_ random: inout SeededGenerator) {
        guard self.plan.isEncrypted, self.keyExchange == nil else { return }
        var later = random
        self.exchangeKey(.learning, &random) { self.exchangeKey(.current, &later) {} }
    }

    private func exchangeKey(
        _ step: SimulatedFleet.KeyExchange,
        _ random: inout SeededGenerator,
        _ done: @escaping () -> Void
    ) {
        do { try self.fleet.exchangeKey(step) } catch { preconditionFailure("the keys cannot be written: \(error)") }
        self.keyExchange = step
        var left = self.services.count
        for (_, process) in self.services {
            self.after(Double.random(in: 0...Self.reloadSeconds, using: &random)) {
                self.reload(process) {
                    left -= 1
                    if left == 0 { done() }
                }
            }
        }
    }

    /// Lets a process read its settings again, once it is not frozen. One that is dead has read them when it starts again.
    private func reload(_ process: SimulatedProcess, _ done: @escaping () -> Void) {
        guard !process.isFrozen || process.isDead else {
            return self.after(Self.reloadSeconds) { self.reload(process, done) }
        }
        if !process.isDead { self.fleet.reload(process) }
        done()
    }

    func freeze(_ random: inout SeededGenerator) {
        let index = Int.random(in: 0..<self.services.count, using: &random)
        guard random.chance(Self.inFlightShare) else { return self.freeze(index, &random) }
        var later = random
        self.whenBusy(index, &random) { [self] index in self.freeze(index, &later) }
    }

    func freeze(_ index: Int, _ random: inout SeededGenerator) {
        let (service, process) = self.services[index]
        guard !process.isDead, !process.isFrozen, !self.isHealing else { return }
        self.fleet.logger.notice("freeze of \(process.name) \(process.pid)")
        process.freeze()
        let seconds = Double.random(in: 0.2...SimulationAudit.freezeSecondsMax, using: &random)
        if service == .dispatcher { self.note(.freeze, seconds: seconds) }
        self.after(seconds) { process.thaw() }
    }

    /// Calls a function with the number of a service at a moment when it is likely to be in the middle of something.
    func whenBusy(_ index: Int, _ random: inout SeededGenerator, _ body: @escaping (Int) -> Void) {
        guard self.services[index].service == .registration else { return self.whenSending(&random, body) }
        let pause = Double.random(in: 0...Self.requestSeconds, using: &random)
        self.backend.onRequest = {
            self.backend.onRequest = {}
            self.after(pause) {
                guard !self.isHealing else { return }
                body(index)
            }
        }
    }

    /// Calls a function with the number of the next service that sends something to a provider, while the answer may be under way.
    func whenSending(_ random: inout SeededGenerator, _ body: @escaping (Int) -> Void) {
        let pause = Double.random(in: 0...0.005, using: &random)
        self.fleet.network.watch = { sender, receiver in
            guard receiver === self.fleet.providers,
                let index = self.services.firstIndex(where: { $0.process === sender })
            else { return false }
            self.after(pause) {
                guard !self.isHealing else { return }
                body(index)
            }
            return true
        }
    }
}

extension ClosedRange<Int64> {
    fileprivate func clamped(_ value: Int64) -> Int64 { Swift.min(Swift.max(value, self.lowerBound), self.upperBound) }
}
