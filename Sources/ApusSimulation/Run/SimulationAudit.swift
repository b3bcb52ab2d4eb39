internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusSimulator
internal import ApusStreams

/// Compares what happened in a simulation with what may happen.
struct SimulationAudit {
    /// The longest time for which a service is frozen, in seconds.
    static let freezeSecondsMax = 20.0

    let simulation: Simulation
    let scheduler: Scheduler
    let plan: SimulationPlan

    init(_ simulation: Simulation, _ scheduler: Scheduler) {
        self.simulation = simulation
        self.scheduler = scheduler
        self.plan = simulation.plan
    }

    /// Returns what must not have happened.
    func complaints() throws -> [String] {
        self.ends() + self.counts() + self.listings() + self.deliveries() + self.routePauses() + self.sendPauses()
            + self.paces() + (try self.statuses())
            + self.simulation.failures + self.webhook()
            + self.answers()
            + (try self.registrations())
            + (try self.badges())
            + (try self.leftovers())
    }

    /// True when one of these faults was there at some moment between two times.
    func hasIncident(_ events: Set<SimulationPlan.Event>, from start: Int64, to end: Int64) -> Bool {
        self.simulation.incidents.contains { events.contains($0.event) && $0.begin <= end && $0.end >= start }
    }

    /// True when all clocks agree, all the time.
    var isClockSteady: Bool { self.plan.events[.clock] == nil && self.plan.events[.ownClock] == nil }

    /// Returns the simulated seconds at a time.
    private func seconds(_ time: Int64) -> Double { Double((time - Scheduler.startNanoseconds) / 1_000_000) / 1_000 }

    // MARK: Deliveries

    private struct Key: Hashable {
        let send: SendKey
        let token: TokenDigest
    }

    /// The time for which a recipient may be sent to after it has stopped matching: its record is read again after two seconds, and what is
    /// checked may take a while to arrive. Somebody who is frozen writes later what was checked before.
    private func allowance(at time: Int64) -> Int64 {
        let nanoseconds: Int64 = 4_000_000_000
        let frozen = nanoseconds + Int64(Self.freezeSecondsMax * 1e9)
        return self.hasIncident([.freeze], from: time - frozen, to: time) ? frozen : nanoseconds
    }

    /// The faults after which it may be unknown what a provider has accepted, and those after which two dispatchers may send the same.
    static let causes: Set<SimulationPlan.Event> = [
        .kill, .freeze, .cut, .silence, .redisLoss, .clock, .ownClock,
    ]

    /// A request that a provider has accepted.
    private struct Acceptance {
        let time: Int64
        let isAnswered: Bool
    }

    /// The events after which a dispatcher does not know any more what it has sent.
    private static let departures: Set<SimulationPlan.Event> = [.kill, .freeze, .stop, .route, .poison]

    /// True when marks of a send at most once may be lost: those of a server without a replica, with whoever made its units.
    private var mayForgetMarks: Bool {
        guard self.plan.hasCopy, !self.plan.hasReplica else { return false }
        return self.plan.dispatchers > 1 || !Self.departures.isDisjoint(with: self.plan.events.keys)
    }

    private func deliveries() -> [String] {
        var complaints: [String] = []
        var acceptances: [Key: [Acceptance]] = [:]
        let devices = self.devicesByToken()
        let apps = self.appsByToken()
        for send in self.simulation.sends {
            self.simulation.fleet.simulator.ledger.snapshot.visitAccepted(of: send.key.id) { token, wall, isAnswered in
                // A send of another app may have the same id.
                guard apps[token].map({ $0 == send.key.app }) ?? true else { return }
                let time = self.simulation.fleet.machineTime(ofWall: wall)
                let acceptance = Acceptance(time: time, isAnswered: isAnswered)
                acceptances[Key(send: send.key, token: token), default: []].append(acceptance)
                guard let owners = devices[token] else {
                    return complaints.append("\(send.key) reached a token that nobody has had")
                }
                let names = owners.map(\.device.name).joined(separator: ", ")
                let allowance = self.allowance(at: time)
                let matches = owners.contains { device, text in
                    if send.namesTokens { return send.names(text, of: device.provider) }
                    return device.states(from: time - allowance, to: time).contains {
                        send.reaches(device, $0) && $0?.token == text
                    }
                }
                if !matches {
                    let seconds = Double(time - Scheduler.startNanoseconds) / 1e9
                    let states = owners.map { $0.device.states(from: time - allowance, to: time) }
                    complaints.append(
                        "\(send.key) (\(send.audience)) reached \(names) at \(seconds) s, which was \(states)"
                    )
                }
                if let cancelled = send.cancelled, time > cancelled + allowance {
                    complaints.append("\(send.key) reached \(names) after it was cancelled")
                }
                if let problem = self.problem(of: send, at: time) {
                    complaints.append("\(send.key) reached \(names) at \(self.seconds(time)) s, \(problem)")
                }
            }
            // A key that Redis has forgotten is new to it.
            guard send.hasTwin, !self.plan.hasCopy else { continue }
            self.simulation.fleet.simulator.ledger.snapshot.visitAccepted(of: send.twinID) { token, _, _ in
                guard apps[token] == send.key.app else { return }
                complaints.append("\(send.twinID) went out, which has the key of \(send.key)")
            }
        }
        return complaints + self.strays(apps) + self.repeats(acceptances, devices)
            + self.lost(Set(acceptances.keys))
    }

    /// Nothing reaches a token of an app that has no such send.
    private func strays(_ apps: [TokenDigest: String]) -> [String] {
        let sends = Set(self.simulation.sends.flatMap { [$0.key, SendKey(app: $0.key.app, id: $0.twinID)] })
        var complaints: [String] = []
        self.simulation.fleet.simulator.ledger.snapshot.visit { entry in
            guard let send = entry.sendKey(apps), !sends.contains(send) else { return }
            complaints.append("\(send) went out, which is no send of that app")
        }
        return complaints
    }

    /// The time after its expiry in which something of a send may still arrive.
    private static let lateNanoseconds: Int64 = 3_000_000_000

    /// Returns in words why a send must not go out at a time; nil if it may, or where clocks differ. Times of commands are in milliseconds.
    private func problem(of send: SimulatedSend, at time: Int64) -> String? {
        guard self.isClockSteady else { return nil }
        if let notBefore = send.notBefore, time < notBefore - 1_000_000 { return "before its time" }
        guard let expiry = send.expiry, time > expiry + Self.lateNanoseconds,
            !self.hasIncident([.freeze], from: time - Self.lateNanoseconds, to: time)
        else { return nil }
        return "after it had expired"
    }

    /// A recipient is reached again only if the answer was lost, or a fault came between that may repeat it.
    private func repeats(_ acceptances: [Key: [Acceptance]], _ devices: [TokenDigest: [Owner]]) -> [String] {
        var complaints: [String] = []
        for (key, all) in acceptances where all.count > 1 {
            guard let send = self.simulation.sends.first(where: { $0.key == key.send }) else { continue }
            // A send may find a token with its former device, and then with its new one.
            guard let owners = devices[key.token], owners.count == 1 else { continue }
            let name = owners[0].device.name
            if send.isAtMostOnce, !self.mayForgetMarks {
                complaints.append("\(send.key), at most once, reached \(name) \(all.count) times")
            }
            let sorted = all.sorted { $0.time < $1.time }
            for (first, second) in zip(sorted, sorted.dropFirst()) where first.isAnswered {
                guard !self.hasIncident(Self.causes, from: first.time, to: second.time) else { continue }
                let times = "\(self.seconds(first.time)) s and \(self.seconds(second.time)) s"
                complaints.append("\(send.key) reached \(name) at \(times) without a cause")
            }
        }
        return complaints
    }

    /// A device that has had a token.
    typealias Owner = (device: SimulatedDevice, token: String)

    /// The devices that have had a token: an app that was installed anew has the one of the device before it.
    func devicesByToken() -> [TokenDigest: [Owner]] {
        var devices: [TokenDigest: [Owner]] = [:]
        for device in self.simulation.devices {
            for token in Set(device.changes.compactMap { $0.state?.token }) {
                devices[TokenDigest(token, provider: device.provider), default: []].append((device, token))
            }
        }
        return devices
    }

    /// The apps of tokens: each token is one app's.
    func appsByToken() -> [TokenDigest: String] {
        self.devicesByToken().compactMapValues { $0.first?.device.app }
    }

    /// Everybody who matched from the beginning to the end was reached.
    private func lost(_ reached: Set<Key>) -> [String] {
        var complaints: [String] = []
        for send in self.simulation.sends
        where !send.mayBeCancelled && !send.mayBeForgotten && send.expiry == nil {
            let replay = self.simulation.replays[send.key]
            guard replay != nil || !self.isGivenUp(send), var end = self.simulation.endings[send.key] else { continue }
            // One that was replayed reaches those who have matched since then.
            if replay != nil { end = self.scheduler.now }
            let begin = replay ?? send.begin
            // Devices are gone, or suspect, until they are brought back at the end.
            if self.hasIncident([.misjudge], from: 0, to: end) { continue }
            // A send at most once may be lost with its answer, and does not follow one that leaves open whether it was taken.
            if send.isAtMostOnce, self.hasIncident(Self.causes.union([.refuse]), from: begin, to: end) { continue }
            for device in self.simulation.devices {
                if device.provider == .fcm, self.simulation.isRouteRemoved { continue }
                let states = device.states(from: begin, to: end)
                guard let first = states[0], states.allSatisfy({ $0 == first }), send.reaches(device, first),
                    device.deadTokens[first.token] == nil
                else { continue }
                let key = Key(send: send.key, token: TokenDigest(first.token, provider: device.provider))
                if !reached.contains(key) {
                    complaints.append(
                        "\(send.key) (\(send.audience)) never reached \(device.name), which was \(first); answers: "
                            + "\(self.answers(to: key)); outcomes of the send: \(self.outcomes(of: send))"
                    )
                }
            }
        }
        return complaints
    }

    // MARK: Operators

    /// The time after which a pause is in force at all dispatchers: nobody sends without a lease, which is short.
    private static let pauseNanoseconds: Int64 = 2_000_000_000

    /// Nothing goes out on a paused route, whether a dispatcher reaches Redis or not.
    private func routePauses() -> [String] {
        var complaints: [String] = []
        let apps = self.appsByToken()
        self.simulation.fleet.simulator.ledger.snapshot.visit { entry in
            guard let send = entry.sendKey(apps), entry.status != 0 else { return }
            let time = self.simulation.fleet.machineTime(ofWall: entry.timeNanoseconds)
            for pause in self.simulation.routePauses
            where pause.name == "\(send.app)/\(entry.provider.name)/production" {
                guard pause.isInForce(at: time, for: Self.pauseNanoseconds) else { continue }
                complaints.append("\(send) went out on \(pause.name), which was paused")
            }
        }
        return complaints
    }

    /// The faults after which requests arrive together that were sent at their pace, or after which permits are forgotten.
    private static let crowds: Set<SimulationPlan.Event> = [
        .freeze, .cut, .silence, .goAway, .late, .slow, .redisLoss, .redisBusy, .redisScript, .clock, .ownClock,
    ]
    /// The time over which the pace of a send is measured, in seconds, and the requests that it may be ahead.
    private static let paceSeconds: Int64 = 2
    private static let requestsAhead = 4

    /// A send with a rate of its own goes out no faster.
    private func paces() -> [String] {
        guard Self.crowds.isDisjoint(with: self.plan.events.keys) else { return [] }
        let apps = self.appsByToken()
        var times: [SendKey: [Int64]] = [:]
        self.simulation.fleet.simulator.ledger.snapshot.visit { entry in
            guard let send = entry.sendKey(apps), entry.status != 0 else { return }
            times[send, default: []].append(entry.timeNanoseconds)
        }
        return self.simulation.sends.filter { $0.ratePerSecond > 0 }.compactMap { send in
            let times = (times[send.key] ?? []).sorted()
            let most = Int(send.ratePerSecond) * Int(Self.paceSeconds) + Self.requestsAhead
            for (index, time) in times.enumerated() where index >= most {
                guard time - times[index - most] < Self.paceSeconds * 1_000_000_000 else { continue }
                let seconds = self.seconds(self.simulation.fleet.machineTime(ofWall: time))
                return "\(send.key) had more than \(most) requests in \(Self.paceSeconds) s, until \(seconds) s"
            }
            return nil
        }
    }

    /// The time after which nothing of a paused send goes out: units ask again after a second, none goes on for more than half of one without
    /// an answer, and what is handed over to a connection is written within two.
    private static let sendPauseNanoseconds: Int64 = 4_000_000_000

    /// Nothing of a paused send goes out. A dispatcher that was frozen for less than its lease asks again only after a moment.
    private func sendPauses() -> [String] {
        var complaints: [String] = []
        let apps = self.appsByToken()
        self.simulation.fleet.simulator.ledger.snapshot.visit { entry in
            guard let send = entry.sendKey(apps), entry.status != 0 else { return }
            let time = self.simulation.fleet.machineTime(ofWall: entry.timeNanoseconds)
            guard
                self.simulation.sendPauses.contains(where: {
                    $0.name == send.description && $0.isInForce(at: time, for: Self.sendPauseNanoseconds)
                }),
                !self.hasIncident([.freeze], from: time - Self.sendPauseNanoseconds, to: time)
            else { return }
            complaints.append("\(send) went out at \(self.seconds(time)) s while it was paused")
        }
        return complaints
    }

    /// The answers of the provider about a recipient, with the seconds of each.
    private func answers(to key: Key) -> String {
        var answers: [String] = []
        self.simulation.fleet.simulator.ledger.snapshot.visit { entry in
            guard entry.send == key.send.id, entry.digest == key.token else { return }
            let time = self.simulation.fleet.machineTime(ofWall: entry.timeNanoseconds)
            answers.append("\(entry.status) at \(self.seconds(time))")
        }
        return answers.isEmpty ? "none" : answers.joined(separator: ", ")
    }

    private func outcomes(of send: SimulatedSend) -> String {
        (self.simulation.receipts[send.key]?.first?.counts ?? []).map { count in
            "\(count.count) \(count.provider.name) \(count.outcome.name) \(count.reason.name)"
        }.joined(separator: ", ")
    }
}

extension LedgerEntry {
    /// Returns the send of the app that the token is of; nil when either is not known.
    func sendKey(_ apps: [TokenDigest: String]) -> SendKey? {
        guard let send = self.send, let app = apps[self.digest] else { return nil }
        return SendKey(app: app, id: send)
    }

    /// True when the client was told that the token is dead, be it so or not.
    var callsTokenDead: Bool {
        let statuses = self.provider == .webpush ? [404, 410] : self.provider == .apns ? [410] : [404]
        return (self.fault == nil || self.isMisjudgement) && statuses.contains(self.status)
    }

    /// True when the client was told something of the token that is not so.
    private var isMisjudgement: Bool { self.fault == "reason" }

    /// True when the client was answered.
    var isAnswered: Bool {
        ![Fault.silence, .drop, .halfBody].contains { $0.name == self.fault }
    }
}
