internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusSimulator
internal import ApusStore
internal import ApusStreams

/// Compares what happened in a simulation with what may happen.
struct Verdict {
    /// The longest time for which a service is frozen, in seconds.
    static let freezeSecondsMax = 20.0

    private let trial: Trial
    private let scheduler: Scheduler
    private let plan: TrialPlan

    init(_ trial: Trial, _ scheduler: Scheduler) {
        self.trial = trial
        self.scheduler = scheduler
        self.plan = trial.plan
    }

    /// Returns what must not have happened.
    func complaints() throws -> [String] {
        self.ends() + self.deliveries() + self.pauses() + (try self.registrations()) + (try self.leftovers())
    }

    // MARK: Receipts

    /// Every send has one end, and its numbers add up.
    private func ends() -> [String] {
        var complaints: [String] = []
        for send in self.trial.sends {
            let receipts = self.trial.receipts[send.id] ?? []
            let ids = Set(receipts.map(\.id))
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
        let causes: [TrialPlan.Event] = [
            .kill, .freeze, .cut, .redisCut, .redisDown, .redisBusy, .late, .silence, .goAway, .clock,
        ]
        return causes.contains { self.plan.events[$0] != nil }
    }

    private func deliveries() -> [String] {
        var complaints: [String] = []
        var counts: [Key: Int] = [:]
        let phones = self.phonesByToken()
        for send in self.trial.sends {
            self.trial.world.simulator.ledger.snapshot.visitAccepted(of: send.id) { token, wall, _ in
                counts[Key(send: send.id, token: token), default: 0] += 1
                let time = self.trial.world.machineTime(ofWall: wall)
                guard let (phone, text) = phones[token] else {
                    return complaints.append("\(send.id) reached a token that nobody has had")
                }
                let states = phone.states(from: time - self.allowance, to: time)
                if !states.contains(where: { send.reaches(phone.id, $0) && $0?.token == text }) {
                    let seconds = Double(time - Scheduler.startNanoseconds) / 1e9
                    complaints.append(
                        "\(send.id) (\(send.audience)) reached \(phone.id) at \(seconds) s, which was \(states)"
                    )
                }
                if let cancelled = send.cancelled, time > cancelled + self.allowance {
                    complaints.append("\(send.id) reached \(phone.id) after it was cancelled")
                }
            }
        }
        for (key, count) in counts where count > 1 {
            guard let send = self.trial.sends.first(where: { $0.id == key.send }) else { continue }
            let name = phones[key.token]?.phone.id ?? "?"
            if send.isAtMostOnce { complaints.append("\(send.id), at most once, reached \(name) \(count) times") }
            if !self.mayRepeat { complaints.append("\(send.id) reached \(name) \(count) times without a cause") }
        }
        return complaints + self.lost(counts)
    }

    private func phonesByToken() -> [TokenDigest: (phone: Phone, token: String)] {
        var phones: [TokenDigest: (phone: Phone, token: String)] = [:]
        for phone in self.trial.phones {
            for state in phone.changes.compactMap(\.state) {
                phones[TokenDigest(state.token, provider: phone.provider)] = (phone, state.token)
            }
        }
        return phones
    }

    /// Everybody who matched from the beginning to the end was reached.
    private func lost(_ counts: [Key: Int]) -> [String] {
        var complaints: [String] = []
        for send in self.trial.sends where !send.mayBeCancelled {
            guard let end = self.trial.endings[send.id] else { continue }
            // A send at most once may be lost with its answer, and does not follow one that leaves open whether it was taken.
            if send.isAtMostOnce, self.mayRepeat || self.plan.events[.refuse] != nil { continue }
            for phone in self.trial.phones {
                let states = phone.states(from: send.begin, to: end)
                guard let first = states[0], states.allSatisfy({ $0 == first }), send.reaches(phone.id, first),
                    phone.deadTokens[first.token] == nil
                else { continue }
                let key = Key(send: send.id, token: TokenDigest(first.token, provider: phone.provider))
                if counts[key] == nil {
                    complaints.append(
                        "\(send.id) (\(send.audience)) never reached \(phone.id), which was \(first); answers: "
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
        let causes: [TrialPlan.Event] = [.freeze, .cut, .redisCut, .redisDown, .redisBusy, .late, .slow, .clock]
        guard causes.allSatisfy({ self.plan.events[$0] == nil }) else { return [] }
        var complaints: [String] = []
        self.trial.world.simulator.ledger.snapshot.visit { entry in
            guard let send = entry.send, entry.status != 0 else { return }
            let time = self.trial.world.machineTime(ofWall: entry.timeNanoseconds)
            for pause in self.trial.pauses where pause.route == "\(World.app)/\(entry.provider.name)/production" {
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
        self.trial.world.simulator.ledger.snapshot.visit { entry in
            guard entry.send == key.send, entry.digest == key.token else { return }
            let time = self.trial.world.machineTime(ofWall: entry.timeNanoseconds)
            answers.append("\(entry.status) at \(Double((time - Scheduler.startNanoseconds) / 1_000_000) / 1_000)")
        }
        return answers.isEmpty ? "none" : answers.joined(separator: ", ")
    }

    private func outcomes(of send: SimulatedSend) -> String {
        (self.trial.receipts[send.id]?.first?.counts ?? []).map { count in
            "\(count.count) \(count.provider.name) \(count.outcome.name) \(count.reason.name)"
        }.joined(separator: ", ")
    }

    // MARK: Leftovers

    /// No device was deleted whose token works.
    private func registrations() throws -> [String] {
        let (world, app) = (self.trial.world, World.app)
        var complaints: [String] = []
        for phone in self.trial.phones {
            guard let last = phone.changes.last, last.end != nil, let state = last.state,
                phone.deadTokens[state.token] == nil
            else { continue }
            let found = try world.perform("the device \(phone.id)", in: world.outside) {
                try await world.installation.store.get(AppID(app), DeviceID(phone.id))
            }
            guard let found else {
                complaints.append("\(phone.id) was deleted, and its token works")
                continue
            }
            if found.record.user != state.user { complaints.append("\(phone.id) has another user than \(state.user)") }
        }
        return complaints
    }

    /// Nothing of the sends is left in Redis but what is kept on purpose.
    private func leftovers() throws -> [String] {
        self.trial.world.unfinishedKeys().map { "left in Redis: \($0)" }
    }
}
