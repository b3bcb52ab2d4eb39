internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusSimulator
internal import ApusStore
internal import ApusStreams

/// Compares what is stored with what was asked for.
extension SimulationAudit {
    // MARK: Devices

    /// The reasons for which a request may be refused.
    private var refusals: Set<String> {
        // A device that was pruned, or that Redis has forgotten, and a request whose handling was struck down again and again.
        ["unknown_device", "poison"]
    }

    /// Each request has an answer, and each of its entries only one.
    func answers() -> [String] {
        var complaints: [String] = []
        for request in self.simulation.backend.requests {
            let words = "\(request.name) (\(request.action))"
            if request.answer == nil { complaints.append("\(words) has no answer") }
            for (entry, answers) in request.answers.sorted(by: { $0.key < $1.key }) {
                for case .refused(let code) in answers where !self.refusals.contains(code) {
                    complaints.append("\(words) was refused: \(code)")
                }
                // A device that was brought back between two deliveries is known at the second.
                let isOfRestored = self.wereDevicesRestored && answers == [.accepted, .refused(code: "unknown_device")]
                if answers.count > 1, !self.plan.hasCopy, !isOfRestored {
                    complaints.append("\(words) has answers that differ to \(entry): \(answers)")
                }
            }
        }
        return complaints
    }

    /// The registrations are those that were last acknowledged, no token has two devices, and the store agrees with itself.
    func registrations() throws -> [String] {
        let complaints = try self.simulation.fleet.apps.flatMap { try self.registrations(of: $0) }
        guard self.simulation.keyExchange == .current, complaints.isEmpty, self.isJanitorDue else { return complaints }
        // Nothing needs the former key any more.
        try self.simulation.fleet.exchangeKey(.alone)
        return try self.simulation.fleet.apps.flatMap { try self.registrations(of: $0) }
    }

    private func registrations(of app: String) throws -> [String] {
        var complaints: [String] = []
        let check = try self.settledStore(of: app)
        let devices = self.simulation.devices.filter { $0.app == app }
        if check.unencrypted > 0, self.isJanitorDue {
            complaints.append("\(check.unencrypted) records are not encrypted with the current key")
        }
        complaints += check.problems.map { "in the store: \($0)" }
        if check.staleHints > 0, self.isJanitorDue {
            complaints.append("\(check.staleHints) hints that no record bears out are left")
        }
        if check.unsettledTokens > 0, self.isJanitorDue {
            complaints.append("\(check.unsettledTokens) tokens are claimed and not confirmed")
        }
        let names = try self.topicNames(of: app)
        var found: [String: DeviceState] = [:]
        var owners: [String: String] = [:]
        for device in devices {
            guard let record = check.devices[device.id]?.record else { continue }
            let token = device.token(stored: record.token)
            // One master may have forgotten that the token waits, and another the record not: then the janitor ends the suspicion.
            if let suspicion = record.suspicion, self.wereDevicesRestored, self.isJanitorDue {
                complaints.append("\(device.name) was restored, and is suspect: \(suspicion)")
            }
            found[device.id] = DeviceState(token: token, user: record.user, topics: self.topics(record.topics, names))
            if let other = owners.updateValue(device.name, forKey: token) {
                complaints.append("\(device.name) and \(other) have the same token")
            }
        }
        if check.devices.count > found.count {
            complaints.append("there are devices that nobody registered: \(check.devices.keys.sorted())")
        }
        let now = self.scheduler.now
        let tokens = Set(devices.flatMap { $0.states(from: now, to: now).compactMap { $0?.token } })
        for device in devices {
            let possible = device.states(from: now, to: now)
            let state = found[device.id]
            if possible.contains(state) { continue }
            // It was removed by mistake, then another device took its token and is gone by now: nothing is left that says so.
            if let state, self.wereDevicesRestored, !tokens.contains(state.token),
                device.changes.contains(where: { $0.state == state })
            {
                continue
            }
            // It was pruned.
            if state == nil, !self.wereDevicesRestored,
                possible.contains(where: { $0.map { device.deadTokens[$0.token] != nil } ?? false })
            {
                continue
            }
            let words = state.map { "\($0)" } ?? "not there"
            complaints.append("\(device.name) is \(words), and must be one of \(possible)")
        }
        return complaints + self.unpruned(devices, check)
    }

    /// Returns the names of an app's topics, by their numbers.
    private func topicNames(of app: String) throws -> [UInt32: String] {
        let fleet = self.simulation.fleet
        return try fleet.perform("the topics", in: fleet.outside) {
            var names: [UInt32: String] = [:]
            for topic in Simulation.topics {
                guard let number = try await fleet.installation.store.topicNumber(AppID(app), TopicName(topic)) else {
                    continue
                }
                names[number] = names[number].map { "\($0) or \(topic)" } ?? topic
            }
            return names
        }
    }

    /// Returns the topics of a record in the order of all; a number without a name comes last.
    private func topics(_ numbers: [UInt32], _ names: [UInt32: String]) -> [String] {
        let known = Set(numbers.compactMap { names[$0] })
        // One master may have forgotten a number, and another the record not. The topic gets the same number again, which comes from its name.
        let mayBeNameless = self.plan.hasCopy && self.plan.masters > 1
        let unknown = mayBeNameless ? [] : numbers.filter { names[$0] == nil }.map { "the number \($0)" }
        return Simulation.topics.filter { known.contains($0) } + known.subtracting(Simulation.topics).sorted() + unknown
    }

    /// True when an operator has brought back all devices that providers called bad or dead, be they so or not.
    private var wereDevicesRestored: Bool { self.plan.events[.misjudge] != nil }

    /// A device is gone, or suspect, when its provider has said that its token is dead, and nothing of it has changed since the token died.
    private func unpruned(_ devices: [SimulatedDevice], _ check: StoreCheck) -> [String] {
        // One master may have forgotten it, and another may not.
        guard !self.plan.hasCopy || self.plan.hasReplica, !self.wereDevicesRestored else { return [] }
        let dead = self.tokensCalledDead()
        return devices.compactMap { device in
            // A send may have ended for want of its route, before the answer was known to Redis.
            if device.provider == .fcm, self.simulation.isRouteRemoved { return nil }
            guard let record = check.devices[device.id]?.record, record.suspicion == nil else { return nil }
            let token = device.token(stored: record.token)
            guard let diedAt = device.deadTokens[token], dead.contains(TokenDigest(token, provider: device.provider)),
                let last = device.changes.last, let end = last.end, end < diedAt, last.state?.token == token
            else { return nil }
            // The times of requests over HTTP are by Redis' clock, and one that was not answered may be carried out later.
            if device.usesHTTP, !self.isClockSteady || device.quietUntil > diedAt { return nil }
            return "\(device.name) is still there, though its provider has said that its token is dead"
        }
    }

    /// The tokens that a provider has called dead in an answer that a send's end is a proof of.
    private func tokensCalledDead() -> Set<TokenDigest> {
        let sends = self.simulation.sends.filter { send in
            !send.namesTokens && !send.isAtMostOnce && !send.mayBeCancelled && !send.mayBeForgotten
                && send.expiry == nil
                && self.simulation.endings[send.key] != nil
        }
        let (keys, apps) = (Set(sends.map(\.key)), self.appsByToken())
        var tokens: Set<TokenDigest> = []
        self.simulation.fleet.simulator.ledger.snapshot.visit { entry in
            guard let send = entry.sendKey(apps), keys.contains(send), entry.callsTokenDead else { return }
            tokens.insert(entry.digest)
        }
        return tokens
    }

    /// True when the janitor comes again in time: it waits by Redis' clock, so longer once that has gone back.
    private var isJanitorDue: Bool { self.isClockSteady }

    /// The looks at the store until the janitor has tidied up what crashes have left there.
    private static let looksMax = 8
    private static let lookSeconds: Int64 = 15

    private func settledStore(of app: String) throws -> StoreCheck {
        let fleet = self.simulation.fleet
        var looks = 0
        while true {
            let check = try fleet.perform("the check of the store", in: fleet.outside) {
                try await StoreCheck.run(fleet.installation.store, AppID(app), keepsDevices: true)
            }
            looks += 1
            let hasSuspects = self.wereDevicesRestored && check.devices.values.contains { $0.record.suspicion != nil }
            let isTidy =
                check.staleHints == 0 && check.unsettledTokens == 0 && check.unencrypted == 0 && !hasSuspects
            let isSound = check.findings.isEmpty && (isTidy || !self.isJanitorDue)
            if isSound || looks == Self.looksMax { return check }
            _ = self.scheduler.run(until: { false }, within: Self.lookSeconds * 1_000_000_000)
        }
    }

    // MARK: Badges

    /// A device that was there all the time, and whose tokens no other had, counts each send that reached it, once, and none that did not
    /// mean it.
    private func badges(of app: String) throws -> [String] {
        let owners = self.devicesByToken()
        let devices = self.simulation.devices.filter { device in
            device.app == app && device.deadTokens.isEmpty
                && device.changes.allSatisfy { change in
                    change.state.map { owners[TokenDigest($0.token, provider: device.provider)]?.count == 1 } ?? false
                }
        }
        let sends = self.simulation.sends.filter { $0.key.app == app && $0.countsBadges }
        guard !devices.isEmpty, !sends.isEmpty else { return [] }
        let fleet = self.simulation.fleet
        let ids = devices.map(\.id)
        let counts = try fleet.perform("the badges", in: fleet.outside) {
            let store = fleet.installation.store
            var counts: [Int?] = []
            for device in try await store.resolve(AppID(app), devices: ids.map { try DeviceID($0) }) {
                if let device { counts.append(Int(try await store.badge(of: device))) } else { counts.append(nil) }
            }
            return counts
        }
        var reached: [TokenDigest: Set<SendKey>] = [:]
        for send in sends {
            fleet.simulator.ledger.snapshot.visitAccepted(of: send.key.id) { token, _, _ in
                reached[token, default: []].insert(send.key)
            }
        }
        return zip(devices, counts).compactMap { device, count in
            // One that is gone is told by its registration.
            guard let count else { return nil }
            let tokens = Set(device.changes.compactMap { $0.state?.token })
            let counted = tokens.reduce(into: Set<SendKey>()) { counted, token in
                counted.formUnion(reached[TokenDigest(token, provider: device.provider)] ?? [])
            }
            let least = device.provider == .apns ? counted.count : 0
            let most = sends.count { send in
                device.states(from: send.begin, to: .max).contains { send.reaches(device, $0) }
            }
            guard !(least...max(least, most)).contains(count) else { return nil }
            return "\(device.name) has the badge \(count); \(least) sends have reached it, and \(most) have meant it"
        }
    }

    /// The badges are what the sends make them.
    func badges() throws -> [String] {
        // A badge is forgotten with its device.
        guard !self.plan.hasCopy, !self.wereDevicesRestored else { return [] }
        return try self.simulation.fleet.apps.flatMap { try self.badges(of: $0) }
    }

    // MARK: Leftovers

    /// Nothing of the sends is left in Redis but what is kept on purpose.
    func leftovers() throws -> [String] {
        let fleet = self.simulation.fleet
        var complaints = fleet.unfinishedKeys().map { "left in Redis: \($0)" }
        // The ledger of a send whose outcomes Redis has forgotten stays until it is swept, hours later.
        if !self.plan.hasCopy { complaints += fleet.keysKeptForever().map { "kept for ever in Redis: \($0)" } }
        let streams = fleet.installation.streams
        let letters = try fleet.perform("the dead letters", in: fleet.outside) {
            var letters: [DeadLetter] = []
            for shard in 0..<streams.keyspace.queueShards {
                letters += try await streams.deadLetters.page(shard: shard, before: "+").letters.map(\.letter)
            }
            return letters
        }
        // Changes of devices that are not there are refused by letters.
        return complaints
            + letters.filter { !$0.stream.hasSuffix("register") && !self.isOfPoison($0) }
            .map { "a dead letter of \($0.stream): \($0)" }
    }

    private func isOfPoison(_ letter: DeadLetter) -> Bool {
        let unit = (try? WorkUnit.decode(letter.payload))?.send
        let command = (try? SendCommand.decode(letter.payload)).map { SendKey(app: $0.app, id: $0.id) }
        return letter.cause == .poison
            && self.simulation.sends.contains { send in
                let twin = SendKey(app: send.key.app, id: send.twinID)
                return [unit, command].contains { $0 == send.key || $0 == twin } && self.mayBeGivenUp(send)
            }
    }
}
