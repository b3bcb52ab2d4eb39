internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusSimulator
internal import ApusStore
internal import ApusStreams

/// Compares what happened in a simulation with what may happen.
struct SimulationAudit {
    /// The longest time for which a service is frozen, in seconds.
    static let freezeSecondsMax = 20.0

    private let simulation: Simulation
    private let scheduler: Scheduler
    private let plan: SimulationPlan

    init(_ simulation: Simulation, _ scheduler: Scheduler) {
        self.simulation = simulation
        self.scheduler = scheduler
        self.plan = simulation.plan
    }

    /// Returns what must not have happened.
    func complaints() throws -> [String] {
        self.ends() + self.deliveries() + self.pauses() + (try self.registrations()) + (try self.leftovers())
    }

    // MARK: Receipts

    /// Every send has one end, and its numbers add up.
    private func ends() -> [String] {
        var complaints: [String] = []
        for send in self.simulation.sends {
            let receipts = (self.simulation.receipts[send.id] ?? []).filter { !self.isRepeat($0) }
            let ids = Set(receipts.map(\.id))
            if ids.isEmpty, send.mayBeForgotten { continue }
            if !self.plan.hasCopy, Set(receipts).count > ids.count {
                complaints.append("\(send.id) has receipts of one id that differ: \(Set(receipts))")
            }
            if ids.count != 1 { complaints.append("\(send.id) has \(ids.count) ends: \(ids.sorted())") }
            for receipt in receipts {
                let sum = receipt.counts.reduce(0) { $0 + $1.count }
                if sum != receipt.planned {
                    complaints.append(
                        "\(send.id): \(receipt.planned) recipients, outcomes of \(sum): \(receipt.counts)"
                    )
                }
                if let problem = receipt.problem, !send.mayBeCancelled {
                    complaints.append("\(send.id) ended with a problem: \(problem)")
                }
            }
        }
        return complaints
    }

    /// True for the receipt of a command that was published again because Redis had forgotten that it has it, while dispatchers had not.
    private func isRepeat(_ receipt: SendReceipt) -> Bool {
        self.plan.hasCopy && receipt.kind == .refused && receipt.duplicateOf == receipt.send
    }

    // MARK: Deliveries

    private struct Key: Hashable {
        let send: String
        let token: TokenDigest
    }

    /// The time for which a recipient may be sent to after it has stopped matching: its record is read again after two seconds, and what is
    /// checked may take a while to arrive.
    private var allowance: Int64 {
        var seconds = 2.0 + 2.0
        if self.plan.events[.freeze] != nil { seconds += Self.freezeSecondsMax }
        return Int64(seconds * 1e9)
    }

    /// True when something happens that may make a service repeat what a provider has accepted.
    private var mayRepeat: Bool {
        let causes: [SimulationPlan.Event] = [
            .kill, .freeze, .cut, .late, .silence, .goAway, .clock, .redisLoss, .ownClock, .route,
        ]
        return causes.contains { self.plan.events[$0] != nil }
    }

    /// True when marks of a send at most once may be lost: those of a server without a replica, with whoever made its units.
    private var mayForgetMarks: Bool {
        guard self.plan.hasCopy, !self.plan.hasReplica else { return false }
        return self.plan.dispatchers > 1 || self.plan.events[.kill] != nil || self.plan.events[.freeze] != nil
    }

    private func deliveries() -> [String] {
        var complaints: [String] = []
        var counts: [Key: Int] = [:]
        let devices = self.devicesByToken()
        for send in self.simulation.sends {
            self.simulation.fleet.simulator.ledger.snapshot.visitAccepted(of: send.id) { token, wall, _ in
                counts[Key(send: send.id, token: token), default: 0] += 1
                let time = self.simulation.fleet.machineTime(ofWall: wall)
                guard let (device, text) = devices[token] else {
                    return complaints.append("\(send.id) reached a token that nobody has had")
                }
                let states = device.states(from: time - self.allowance, to: time)
                if !states.contains(where: { send.reaches(device.id, $0) && $0?.token == text }) {
                    let seconds = Double(time - Scheduler.startNanoseconds) / 1e9
                    complaints.append(
                        "\(send.id) (\(send.audience)) reached \(device.id) at \(seconds) s, which was \(states)"
                    )
                }
                if let cancelled = send.cancelled, time > cancelled + self.allowance {
                    complaints.append("\(send.id) reached \(device.id) after it was cancelled")
                }
            }
        }
        for (key, count) in counts where count > 1 {
            guard let send = self.simulation.sends.first(where: { $0.id == key.send }) else { continue }
            let name = devices[key.token]?.device.id ?? "?"
            if send.isAtMostOnce, !self.mayForgetMarks {
                complaints.append("\(send.id), at most once, reached \(name) \(count) times")
            }
            if !self.mayRepeat { complaints.append("\(send.id) reached \(name) \(count) times without a cause") }
        }
        return complaints + self.lost(counts)
    }

    private func devicesByToken() -> [TokenDigest: (device: SimulatedDevice, token: String)] {
        var devices: [TokenDigest: (device: SimulatedDevice, token: String)] = [:]
        for device in self.simulation.devices {
            for state in device.changes.compactMap(\.state) {
                devices[TokenDigest(state.token, provider: device.provider)] = (device, state.token)
            }
        }
        return devices
    }

    /// Everybody who matched from the beginning to the end was reached.
    private func lost(_ counts: [Key: Int]) -> [String] {
        var complaints: [String] = []
        for send in self.simulation.sends where !send.mayBeCancelled && !send.mayBeForgotten {
            guard let end = self.simulation.endings[send.id] else { continue }
            // A send at most once may be lost with its answer, and does not follow one that leaves open whether it was taken.
            if send.isAtMostOnce, self.mayRepeat || self.plan.events[.refuse] != nil { continue }
            for device in self.simulation.devices {
                if device.provider == .fcm, self.simulation.isRouteRemoved { continue }
                let states = device.states(from: send.begin, to: end)
                guard let first = states[0], states.allSatisfy({ $0 == first }), send.reaches(device.id, first),
                    device.deadTokens[first.token] == nil
                else { continue }
                let key = Key(send: send.id, token: TokenDigest(first.token, provider: device.provider))
                if counts[key] == nil {
                    complaints.append(
                        "\(send.id) (\(send.audience)) never reached \(device.id), which was \(first); answers: "
                            + "\(self.answers(to: key)); outcomes of the send: \(self.outcomes(of: send))"
                    )
                }
            }
        }
        return complaints
    }

    // MARK: Operators

    /// The time after which a pause is in force at dispatchers that reach Redis.
    private static let pauseNanoseconds: Int64 = 2_000_000_000

    /// Nothing goes out on a paused route, unless a dispatcher cannot know of the pause.
    private func pauses() -> [String] {
        let causes: [SimulationPlan.Event] = [
            .freeze, .cut, .redisCut, .redisDown, .redisBusy, .late, .slow, .clock, .redisLoss, .copyLag, .redisFull,
            .redisError, .redisScript, .ownClock,
        ]
        guard causes.allSatisfy({ self.plan.events[$0] == nil }) else { return [] }
        var complaints: [String] = []
        self.simulation.fleet.simulator.ledger.snapshot.visit { entry in
            guard let send = entry.send, entry.status != 0 else { return }
            let time = self.simulation.fleet.machineTime(ofWall: entry.timeNanoseconds)
            for pause in self.simulation.pauses
            where pause.route == "\(SimulatedFleet.app)/\(entry.provider.name)/production" {
                guard let begin = pause.begin, time > begin + Self.pauseNanoseconds, time < pause.end ?? .max else {
                    continue
                }
                complaints.append("\(send) went out on \(pause.route), which was paused")
            }
        }
        return complaints
    }

    /// The answers of the provider about a recipient, with the seconds of each.
    private func answers(to key: Key) -> String {
        var answers: [String] = []
        self.simulation.fleet.simulator.ledger.snapshot.visit { entry in
            guard entry.send == key.send, entry.digest == key.token else { return }
            let time = self.simulation.fleet.machineTime(ofWall: entry.timeNanoseconds)
            answers.append("\(entry.status) at \(Double((time - Scheduler.startNanoseconds) / 1_000_000) / 1_000)")
        }
        return answers.isEmpty ? "none" : answers.joined(separator: ", ")
    }

    private func outcomes(of send: SimulatedSend) -> String {
        (self.simulation.receipts[send.id]?.first?.counts ?? []).map { count in
            "\(count.count) \(count.provider.name) \(count.outcome.name) \(count.reason.name)"
        }.joined(separator: ", ")
    }

    // MARK: Leftovers

    /// Returns the devices that were deleted although their tokens work.
    private func registrations() throws -> [String] {
        let (fleet, app) = (self.simulation.fleet, SimulatedFleet.app)
        var complaints: [String] = []
        for device in self.simulation.devices {
            guard let last = device.changes.last, last.end != nil, let state = last.state,
                device.deadTokens[state.token] == nil
            else { continue }
            let found = try fleet.perform("the device \(device.id)", in: fleet.outside) {
                try await fleet.installation.store.get(AppID(app), DeviceID(device.id))
            }
            guard let found else {
                complaints.append("\(device.id) was deleted, and its token works")
                continue
            }
            if found.record.user != state.user { complaints.append("\(device.id) has another user than \(state.user)") }
        }
        return complaints
    }

    /// Nothing of the sends is left in Redis but what is kept on purpose.
    private func leftovers() throws -> [String] {
        self.simulation.fleet.unfinishedKeys().map { "left in Redis: \($0)" }
    }
}
