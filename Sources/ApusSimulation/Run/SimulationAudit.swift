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
            + self.paces()
            + self.simulation.failures + self.webhook()
            + self.answers()
            + (try self.registrations())
            + (try self.badges())
            + (try self.leftovers())
    }

    /// True when one of these faults was there at some moment between two times.
    private func hasIncident(_ events: Set<SimulationPlan.Event>, from start: Int64, to end: Int64) -> Bool {
        self.simulation.incidents.contains { events.contains($0.event) && $0.begin <= end && $0.end >= start }
    }

    /// True when all clocks agree, all the time.
    var isClockSteady: Bool { self.plan.events[.clock] == nil && self.plan.events[.ownClock] == nil }

    /// Returns the simulated seconds at a time.
    private func seconds(_ time: Int64) -> Double { Double((time - Scheduler.startNanoseconds) / 1_000_000) / 1_000 }

    // MARK: Receipts

    /// Every send has one end, and its numbers add up.
    private func ends() -> [String] {
        var complaints: [String] = []
        for send in self.simulation.sends {
            var receipts = self.simulation.receipts[send.key] ?? []
            if self.simulation.replays[send.key] != nil {
                if !self.simulation.hasEndedAgain(send.key) {
                    complaints.append("\(send.key) was replayed, and has no end")
                }
                receipts.removeAll { $0.problem?.code == "poison" }
            }
            if self.plan.hasCopy {
                // It was published again because Redis had forgotten it, and had expired by then; perhaps it had before.
                let isLate = { (receipt: SendReceipt) in receipt.kind == .refused && receipt.problem?.code == "expired"
                }
                let end = receipts.first { !isLate($0) } ?? receipts.first
                receipts.removeAll { isLate($0) && $0 != end }
            }
            if send.usesOwnMailbox, let end = receipts.first(where: { $0.kind == .final }) ?? receipts.first {
                // Each copy of a command that is refused has a receipt of its own there.
                receipts.removeAll { $0.kind == .refused && $0 != end }
            }
            let ids = Set(receipts.map(\.id))
            if ids.isEmpty, send.mayBeForgotten { continue }
            if !self.plan.hasCopy, Set(receipts).count > ids.count {
                complaints.append("\(send.key) has receipts of one id that differ: \(Set(receipts))")
            }
            if ids.count != 1 { complaints.append("\(send.key) has \(ids.count) ends: \(ids.sorted())") }
            for receipt in receipts {
                let sum = receipt.counts.reduce(0) { $0 + $1.count }
                if sum != receipt.planned {
                    complaints.append(
                        "\(send.key): \(receipt.planned) recipients, outcomes of \(sum): \(receipt.counts)"
                    )
                }
                let mayExpire = send.expiry != nil && receipt.problem?.code == "expired"
                let isOfNobody = receipt.planned == 0 && receipt.problem?.code == "no_recipients"
                let isGivenUp = receipt.problem?.code == "poison" && self.mayBeGivenUp(send)
                if let problem = receipt.problem, !send.mayBeCancelled, !mayExpire, !isOfNobody, !isGivenUp {
                    complaints.append("\(send.key) ended with a problem: \(problem)")
                }
            }
            if self.isGivenUp(send), !self.mayBeGivenUp(send) { complaints.append("\(send.key) was given up") }
        }
        return complaints
    }

    /// The deaths of dispatchers after which what they had in hand counts as poison.
    private static let deathsMin = 4

    /// Returns whether a send may be given up: it kills whoever is about to send it, or as many dispatchers as that have died since it began.
    func mayBeGivenUp(_ send: SimulatedSend) -> Bool {
        let deaths = self.simulation.incidents.count { $0.event == .kill && $0.end >= send.begin }
        return send.isPoison || deaths >= Self.deathsMin
    }

    /// Returns whether a send, or a part of it, was given up.
    private func isGivenUp(_ send: SimulatedSend) -> Bool {
        self.simulation.receipts[send.key]?.contains { receipt in
            receipt.problem?.code == "poison"
                || receipt.counts.contains { $0.outcome == .failed && $0.reason == .other }
        } ?? false
    }

    /// Each end of a send was posted.
    private func webhook() -> [String] {
        self.simulation.fleet.webhook.complaints
            + self.simulation.unposted.map { "the receipt \($0.id) of \($0.send) was not posted" }
    }

    /// The requests of a send that a provider has accepted, or whose tokens it has called dead.
    private struct RequestCounts {
        var dead: UInt64 = 0
        var accepted: UInt64 = 0
        /// The accepted ones that were answered.
        var answered: UInt64 = 0
    }

    /// A receipt counts as accepted no more than its provider has accepted and answered, and just that where nothing may be repeated; there it
    /// also counts as many dead tokens as the provider has told.
    private func counts() -> [String] {
        var requests: [SendKey: [Provider: RequestCounts]] = [:]
        let apps = self.appsByToken()
        self.simulation.fleet.simulator.ledger.snapshot.visit { entry in
            guard let send = entry.sendKey(apps) else { return }
            if entry.callsTokenDead { requests[send, default: [:]][entry.provider, default: RequestCounts()].dead += 1 }
            guard entry.isAccepted else { return }
            requests[send, default: [:]][entry.provider, default: RequestCounts()].accepted += 1
            if entry.isAnswered { requests[send]?[entry.provider]?.answered += 1 }
        }
        var complaints: [String] = []
        for send in self.simulation.sends {
            guard let receipt = self.simulation.receipts[send.key]?.first(where: { $0.kind == .final }),
                let end = self.simulation.endings[send.key]
            else { continue }
            let isExact = !self.plan.hasCopy && !self.hasIncident(Self.causes, from: send.begin, to: end)
            for provider in [Provider.apns, .fcm, .webpush] {
                func count(_ outcome: Outcome) -> UInt64 {
                    receipt.counts.reduce(0) { $1.provider == provider && $1.outcome == outcome ? $0 + $1.count : $0 }
                }
                let (accepted, dead) = (count(.accepted), count(.unregistered))
                let known = requests[send.key]?[provider] ?? RequestCounts()
                if isExact ? accepted != known.accepted : accepted > known.answered {
                    complaints.append(
                        "\(send.key) counts \(accepted) accepted by \(provider.name), which has accepted \(known.accepted)"
                    )
                }
                // A push service that fails on purpose does not look at the send.
                let knowsSend = provider != .webpush || self.plan.events[.misjudge] == nil
                if isExact, knowsSend, dead != known.dead {
                    complaints.append(
                        "\(send.key) counts \(dead) dead tokens of \(provider.name), which has told of \(known.dead)"
                    )
                }
            }
        }
        return complaints
    }

    /// The reasons of recipients that may be counted only: no route leads to them, they are not there, or their work was given up.
    private static let unlistedReasons: Set<Reason> = [.deviceGone, .noRoute, .unknown, .other]

    /// Each recipient is listed with one outcome for a publisher who wants to know it.
    private func listings() -> [String] {
        guard !self.plan.hasCopy else { return [] }
        var complaints: [String] = []
        for send in self.simulation.sends where send.listsRecipients {
            guard let receipt = self.simulation.receipts[send.key]?.first(where: { $0.kind == .final }),
                let end = self.simulation.endings[send.key]
            else { continue }
            let listed = self.simulation.listings[send.key] ?? [:]
            let isUnlisted = { (count: OutcomeCount) in Self.unlistedReasons.contains(count.reason) }
            let unlisted = receipt.counts.reduce(0) { isUnlisted($1) ? $0 + $1.count : $0 }
            let count = UInt64(listed.count)
            if count > receipt.planned || count + unlisted < receipt.planned {
                let names = listed.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value.map(\.name).sorted())" }
                complaints.append(
                    "\(send.key) has \(receipt.planned) recipients, \(unlisted) may be counted only, and lists "
                        + "\(count) of \(receipt.counts): \(names.joined(separator: ", "))"
                )
            }
            guard !self.hasIncident(Self.causes, from: send.begin, to: end) else { continue }
            for (name, outcomes) in listed.sorted(by: { $0.key < $1.key }) where outcomes.count > 1 {
                complaints.append("\(send.key) lists \(name) with several outcomes: \(outcomes)")
            }
        }
        return complaints
    }

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
    private static let causes: Set<SimulationPlan.Event> = [
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
    fileprivate var isAnswered: Bool {
        ![Fault.silence, .drop, .halfBody].contains { $0.name == self.fault }
    }
}
