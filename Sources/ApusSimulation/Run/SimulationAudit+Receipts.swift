internal import ApusCore
internal import ApusMessages
internal import ApusSimulator
internal import ApusStreams

/// Compares the ends of sends with what providers were asked.
extension SimulationAudit {
    /// Every send has one end, and its numbers add up.
    func ends() -> [String] {
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
            if send.usesOwnMailbox || send.foreignShard != nil,
                let end = receipts.first(where: { $0.kind == .final }) ?? receipts.first
            {
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
    func isGivenUp(_ send: SimulatedSend) -> Bool {
        self.simulation.receipts[send.key]?.contains { receipt in
            receipt.problem?.code == "poison"
                || receipt.counts.contains { $0.outcome == .failed && $0.reason == .other }
        } ?? false
    }

    /// A send that has ended is told over HTTP as its receipt says.
    func statuses() throws -> [String] {
        // A receipt is looked for by the time at which its command was written, and where the send's id puts it: a key may put it elsewhere.
        guard !self.plan.hasCopy, self.isClockSteady else { return [] }
        let (fleet, backend) = (self.simulation.fleet, self.simulation.backend)
        return try self.simulation.sends.compactMap { send in
            guard !send.usesOwnMailbox, !send.hasTwin, let receipts = self.simulation.receipts[send.key],
                let receipt = receipts.first, Set(receipts).count == 1
            else { return nil }
            let status = try fleet.perform("the status of \(send.key)", in: fleet.outside) {
                try await backend.status(of: send.key)
            }
            guard let status else { return "nothing is known over HTTP of \(send.key), which has ended: \(receipt)" }
            let state = status["state"]?.string ?? ""
            // The state says of a cancelled send what its receipt has as a problem.
            let problem = status["problem"]?["code"]?.string ?? (state == "cancelled" ? state : nil)
            let states: Set = receipt.kind == .refused ? ["refused"] : ["done", "cancelled"]
            let isRight =
                states.contains(state) && problem == receipt.problem?.code
                && status["planned"]?.int64 == Int64(receipt.planned)
                && Outcome.allCases.allSatisfy { outcome in
                    let count = receipt.counts.reduce(0) { $1.outcome == outcome ? $0 + $1.count : $0 }
                    return status[outcome.name]?.int64 == Int64(count)
                }
            return isRight ? nil : "\(send.key) is told over HTTP as \(status.text), and its receipt is \(receipt)"
        }
    }

    /// Each end of a send was posted.
    func webhook() -> [String] {
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
    func counts() -> [String] {
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
    /// The reasons of recipients that may be counted only because their send ended while the server that has their devices was away.
    private static let unreadReasons: Set<Reason> = [.cancelled, .payload]

    /// Each recipient is listed with one outcome for a publisher who wants to know it.
    func listings() -> [String] {
        guard !self.plan.hasCopy else { return [] }
        var complaints: [String] = []
        for send in self.simulation.sends where send.listsRecipients {
            guard let receipt = self.simulation.receipts[send.key]?.first(where: { $0.kind == .final }),
                let end = self.simulation.endings[send.key]
            else { continue }
            let listed = self.simulation.listings[send.key] ?? [:]
            let mayBeUnlisted = Self.unlistedReasons.union(self.plan.masters > 1 ? Self.unreadReasons : [])
            let isUnlisted = { (count: OutcomeCount) in mayBeUnlisted.contains(count.reason) }
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
}
