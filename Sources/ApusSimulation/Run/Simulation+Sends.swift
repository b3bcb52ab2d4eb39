internal import ApusCommand
internal import ApusCore
internal import ApusFleet
internal import ApusInstallation
internal import ApusMessages
internal import ApusPublisher
internal import ApusRedis
internal import ApusStreams
internal import Logging

/// Lets publishers and operators do something with sends, and reads their receipts.
extension Simulation {
    /// The share of sends that have a time to begin, one to end, or a key that comes again, and the seconds from one time to the next.
    static let timedShare = 0.15
    static let timedSeconds: ClosedRange<Int64> = 1...20
    /// The share of sends to devices that name their tokens.
    static let tokensShare = 0.3
    /// The share of sends with a long text, and its bytes: what is shorter is taken by every provider without being rendered.
    static let longShare = 0.3
    static let longBytes = 600
    /// Every so many sends one is of the publisher with mailboxes of its own.
    static let ownMailboxEvery = 5
    /// Every so many sends one wants to know the outcome of each recipient.
    static let listedEvery = 4
    /// Every so many sends one counts badges, as long as a device remembers all of these: a send that is repeated after more is counted again.
    static let badgedEvery = 4
    static let badgedMax = 8
    /// Every so many sends one is published over HTTP.
    static let overHTTPEvery = 4
    /// Every so many sends one is written into the mailbox of any shard by its publisher itself.
    static let foreignEvery = 7
    /// Every so many sends one has a rate of its own, in recipients per second.
    static let pacedEvery = 6
    static let ratePerSecond: UInt32 = 5
    /// The times that somebody asks for a change of a send, or of a route, until it is done.
    static let controlsMax = 10

    func planSends(until end: Int64) {
        for number in 0..<self.plan.sends {
            let time = Int64.random(in: self.scheduler.now...end, using: &self.scheduler.random)
            self.scheduler.call(at: time, for: nil) { self.publish(number) }
        }
    }

    /// Draws one to three names, one of which may come twice.
    func names(from all: [String]) -> [String] {
        (0..<Int.random(in: 1...3, using: &self.scheduler.random)).map { _ in
            all[Int.random(in: 0..<all.count, using: &self.scheduler.random)]
        }
    }

    /// Draws one to three devices of an app, named by their ids or by the tokens that they have now.
    func someDevices(of app: String) -> SimulatedSend.Audience {
        let devices = self.devices.filter { $0.app == app }
        let ids = self.names(from: devices.map(\.id))
        let named = devices.filter { $0.latest != nil && ids.contains($0.id) }
        guard !named.isEmpty, self.scheduler.random.chance(Self.tokensShare) else { return .devices(ids) }
        return .tokens(Dictionary(grouping: named, by: \.provider).mapValues { $0.compactMap(\.latest?.token) })
    }

    private func someTopic() -> String {
        let isFirst = self.scheduler.random.chance(0.5)
        return Self.topics[isFirst ? 0 : Int.random(in: 1..<Self.topics.count, using: &self.scheduler.random)]
    }

    func publish(_ number: Int) {
        let apps = self.fleet.apps
        let key = SendKey(app: apps[number % apps.count], id: "s\(number / apps.count)")
        let audience: SimulatedSend.Audience =
            switch Int.random(in: 0..<8, using: &self.scheduler.random) {
            case 0: .everyone
            case 1, 2: .topic(self.someTopic())
            case 3, 4: .users(self.names(from: Self.users))
            case 5: .subscribers(of: self.someTopic(), without: self.names(from: Self.users)[0])
            case 6: .providers(self.scheduler.random.chance(0.5) ? [.webpush] : [.apns, .fcm])
            default: self.someDevices(of: key.app)
            }
        let send = SimulatedSend(
            key: key,
            audience: audience,
            lane: self.scheduler.random.chance(0.4) ? .express : .bulk,
            isAtMostOnce: self.scheduler.random.chance(0.2),
            acknowledgement: self.plan.hasCopy && self.scheduler.random.chance(0.3) ? .memory : nil,
            begin: self.scheduler.now
        )
        if self.scheduler.random.chance(Self.timedShare) {
            send.notBefore =
                send.begin + Int64.random(in: Self.timedSeconds, using: &self.scheduler.random) * Self.second
        }
        if self.scheduler.random.chance(Self.timedShare) {
            let start = send.notBefore ?? send.begin
            send.expiry = start + Int64.random(in: Self.timedSeconds, using: &self.scheduler.random) * Self.second
        }
        send.hasTwin = self.scheduler.random.chance(Self.timedShare)
        if self.scheduler.random.chance(Self.longShare) { send.bodyBytes = Self.longBytes }
        let ownNumber = number / apps.count
        if ownNumber % Self.pacedEvery == 0 { send.ratePerSecond = Self.ratePerSecond }
        let isBadged = ownNumber % Self.badgedEvery == 1 && ownNumber < Self.badgedEvery * Self.badgedMax
        send.countsBadges = isBadged && !send.namesTokens
        send.listsRecipients = ownNumber % Self.listedEvery == Self.listedEvery - 1
        // Receipts in a slot of their own are lost with its master where it has no replica.
        let keepsReceipts = self.plan.masters == 1 || !self.plan.hasCopy || self.plan.hasReplica
        send.usesOwnMailbox = ownNumber % Self.ownMailboxEvery == Self.ownMailboxEvery - 1 && keepsReceipts
        send.usesHTTP = ownNumber % Self.overHTTPEvery == Self.overHTTPEvery - 2 && !send.usesOwnMailbox
        if ownNumber % Self.foreignEvery == 1, !send.usesOwnMailbox, !send.usesHTTP {
            send.foreignShard = number % self.fleet.installation.keyspace.queueShards
        }
        // Dispatchers decide which of two commands with one key is the first in such a mailbox, and there may be several. Over HTTP a key becomes
        // the id.
        if send.usesOwnMailbox || send.usesHTTP || send.foreignShard != nil { send.hasTwin = false }
        send.isPoison = self.isNextPoison
        self.isNextPoison = false
        self.sends.append(send)
        self.publish(send)
    }

    /// Publishes a send until somebody confirms it.
    func publish(_ send: SimulatedSend) {
        let fleet = self.fleet
        guard !send.usesHTTP else { return fleet.begin(fleet.outside) { try await self.publishOverHTTP(send) } }
        if let shard = send.foreignShard {
            return fleet.begin(fleet.outside) { try await self.write(send, intoMailboxOf: shard) }
        }
        let publisher = send.usesOwnMailbox ? fleet.namedPublisher : fleet.publisher
        fleet.begin(fleet.outside) {
            var command = send.command(wallOffset: SimulatedFleet.wallOffset)
            while true {
                do {
                    let publication = try await publisher.publish(
                        command,
                        lane: send.lane,
                        acknowledgement: send.acknowledgement
                    )
                    fleet.logger.notice(
                        "published",
                        metadata: [
                            "send": "\(send.key)", "acknowledgement": "\(publication.acknowledgement)",
                            "is_acknowledged": "\(publication.isAcknowledged)",
                            "is_duplicate": "\(publication.isDuplicate)",
                            "writes": "\(fleet.writes)",
                        ]
                    )
                    if publication.send != send.key.id {
                        // Redis has forgotten it, and its twin has its key by now.
                        send.mayBeForgotten = true
                        send.published = send.published ?? self.scheduler.now
                        return
                    }
                    if publication.isAcknowledged {
                        send.published = send.published ?? self.scheduler.now
                        send.writes = publication.acknowledgement == .memory ? fleet.writes : nil
                        send.mayBeForgotten = false
                        break
                    }
                } catch {
                    if self.isTooLate(for: send) { return }
                }
                try await Task.sleep(for: .seconds(1))
            }
            guard send.hasTwin else { return }
            command.id = send.twinID
            _ = try? await publisher.publish(command, lane: send.lane)
        }
    }

    private func publishOverHTTP(_ send: SimulatedSend) async throws {
        let command = send.command(wallOffset: SimulatedFleet.wallOffset)
        while true {
            switch try await self.backend.publish(send, command) {
            case 202:
                send.published = send.published ?? self.scheduler.now
                send.writes = self.plan.hasReplica && self.isLongReplicated ? nil : self.fleet.writes
                send.mayBeForgotten = false
                return
            case nil, 429, .some(500...599): break
            case 422 where self.isTooLate(for: send): return
            // By the clock of the service, which may differ, it is too late.
            case 422 where send.expiry != nil && self.plan.events[.ownClock] != nil: return self.giveUp(send)
            case .some(let status):
                self.failures.append("\(send.key) was refused over HTTP: \(status)")
                return
            }
            if self.isTooLate(for: send) { return }
            try await Task.sleep(for: .seconds(1))
        }
    }

    /// Writes a send into the mailbox of a shard until Redis confirms it. What becomes of it is written in its home, so a loss of any master from then
    /// on may be one of it.
    private func write(_ send: SimulatedSend, intoMailboxOf shard: Int) async throws {
        let streams = self.fleet.installation.streams
        let keys = streams.keys(shard: shard)
        let message = try send.command(wallOffset: SimulatedFleet.wallOffset).encode()
        let command = RedisCommand("XADD", .text(keys.mailbox(send.lane)), "*", "m", .bytes(message))
        while (try? await streams.client.send(command, on: keys.tag)) == nil {
            if self.isTooLate(for: send) { return }
            try await Task.sleep(for: .seconds(1))
        }
        self.fleet.logger.notice("written", metadata: ["send": "\(send.key)", "shard": "\(keys.tag)"])
        send.published = send.published ?? self.scheduler.now
        send.writes = self.fleet.masters.map { _ in .max }
    }

    /// Returns whether a send that was not confirmed has expired by the publisher's clock; then it is given up, and may be known to nobody.
    private func isTooLate(for send: SimulatedSend) -> Bool {
        guard let expiry = send.expiry, self.scheduler.now + self.clockLead >= expiry else { return false }
        self.giveUp(send)
        return true
    }

    private func giveUp(_ send: SimulatedSend) {
        send.mayBeForgotten = true
        send.published = send.published ?? self.scheduler.now
    }

    /// Reads receipts for ever.
    func readReceipts() {
        let fleet = self.fleet
        fleet.begin(fleet.outside) {
            let streams = fleet.installation.streams
            while true {
                for shard in 0..<streams.keyspace.queueShards {
                    let keys = streams.keys(shard: shard)
                    await self.readReceipts(in: keys.receipts, on: keys.tag)
                }
                let own = SimulatedFleet.namedReceipts
                await self.readReceipts(in: own, on: HashTag(ofKey: own))
                try await Task.sleep(for: .seconds(1))
            }
        }
    }

    func readReceipts(in stream: String, on tag: HashTag) async {
        let losses = self.losses
        let (receipts, cursor) = await self.fleet.receipts(in: stream, on: tag, after: self.cursors[stream] ?? "0")
        if self.losses == losses { self.cursors[stream] = cursor }
        for receipt in receipts {
            let send = SendKey(app: receipt.app, id: receipt.send)
            self.fleet.logger.notice("receipt \(receipt.kind) of \(send)")
            for outcome in receipt.recipients {
                let name = outcome.device.isEmpty ? "\(outcome.place)" : outcome.device
                self.listings[send, default: [:]][name, default: []].insert(outcome.outcome)
            }
            guard receipt.kind == .final || receipt.kind == .refused, !receipt.tellsOfRepetition else { continue }
            self.receipts[send, default: []].append(receipt)
            if self.endings[send] == nil { self.endings[send] = self.scheduler.now }
        }
    }

    /// Lets an operator replay all dead letters.
    func replayLetters() throws {
        let letters = DeadLetters(self.fleet.installation.streams)
        let someone = Operator("simulation", through: .commandLine)
        let replayed = try self.fleet.perform("the replay of dead letters", in: self.fleet.outside) {
            var replayed: [SendKey] = []
            try await letters.forEachPart(DeadLetters.Filter()) { part in
                for (letter, result) in zip(part, try await letters.replay(part, by: someone)) where result.isReplayed {
                    guard case .command(let command) = letter.message else { continue }
                    replayed.append(SendKey(app: command.app, id: command.id))
                }
            }
            return replayed
        }
        for send in replayed { self.replays[send] = self.scheduler.now }
    }

    /// Returns whether a replayed send has had an end that is not the one of its dead letter.
    func hasEndedAgain(_ send: SendKey) -> Bool {
        self.receipts[send]?.contains { $0.problem?.code != "poison" } ?? false
    }

    /// The ends of sends that the webhook must have, and has not.
    var unposted: [SimulatedWebhook.TakenReceipt] {
        // Redis may have forgotten one before it was posted.
        guard self.plan.hasWebhook, !self.plan.hasCopy else { return [] }
        let ends = self.sends.filter { !$0.usesOwnMailbox }.flatMap { send in
            (self.receipts[send.key] ?? []).map { SimulatedWebhook.TakenReceipt(send: send.key, id: $0.id) }
        }
        return ends.filter { !self.fleet.webhook.taken.contains($0) }
    }

    func breakWebhook(_ random: inout SeededGenerator) {
        self.fleet.webhook.fault = SimulatedWebhook.Fault.allCases.randomElement(using: &random)
        self.after(Double.random(in: 0.5...15, using: &random)) { self.fleet.webhook.fault = nil }
    }

    func pauseRoute(_ random: inout SeededGenerator) {
        let route = self.routes[Int.random(in: 0..<self.routes.count, using: &random)]
        // A pause that is over while an earlier one goes on would end it.
        guard !self.routePauses.contains(where: { $0.name == route.name && !$0.isOver }) else { return }
        let pause = SimulatedPause(name: route.name)
        self.routePauses.append(pause)
        self.control(route.number, .pause) {
            pause.begin(at: self.scheduler.now, writes: self.isLongReplicated ? nil : self.fleet.writes)
        }
        self.after(Double.random(in: 0.5...20, using: &random)) {
            pause.end(at: self.scheduler.now)
            self.control(route.number, .resume) { pause.isOver = true }
        }
    }

    func control(
        _ route: RouteNumber,
        _ command: RouteControlCommand,
        done: @escaping @Sendable () -> Void = {},
    ) {
        let fleet = self.fleet
        fleet.begin(fleet.outside) {
            for _ in 0..<Self.controlsMax {
                if (try? await fleet.installation.streams.routes.control(route, command)) != nil { return done() }
                try await Task.sleep(for: .seconds(1))
            }
        }
    }

    func control(_ event: SimulationPlan.Event, _ random: inout SeededGenerator) {
        guard !self.sends.isEmpty else { return }
        let send = self.sends[Int.random(in: 0..<self.sends.count, using: &random)]
        guard event == .hold else {
            send.mayBeCancelled = true
            return self.control(send, .cancel) {
                guard send.cancelled == nil else { return }
                send.cancelled = self.scheduler.now
                let isReplicated = self.fleet.masters.allSatisfy { $0.server.copy?.isReplica ?? false }
                send.cancelledWrites = isReplicated ? nil : self.fleet.writes
            }
        }
        guard !self.sendPauses.contains(where: { $0.name == send.key.description && !$0.isOver }),
            send.quietUntil <= self.scheduler.now
        else { return }
        let pause = SimulatedPause(name: send.key.description)
        self.sendPauses.append(pause)
        self.control(send, .pause) {
            pause.begin(at: self.scheduler.now, writes: self.isLongReplicated ? nil : self.fleet.writes)
        }
        self.after(Double.random(in: 0.5...20, using: &random)) {
            pause.end(at: self.scheduler.now)
            self.control(send, .resume) { pause.isOver = true }
        }
    }

    func control(
        _ send: SimulatedSend,
        _ command: SendControlCommand,
        done: @escaping @Sendable () -> Void = {}
    ) {
        let fleet = self.fleet
        guard !send.usesHTTP else {
            return fleet.begin(fleet.outside) {
                if try await self.controlOverHTTP(send, command) { done() }
            }
        }
        fleet.begin(fleet.outside) {
            let control = fleet.installation.streams.control
            for _ in 0..<Self.controlsMax {
                do {
                    guard let found = try await control.find(app: send.key.app, send: send.key.id) else { return }
                    if case .ok = try await control.apply(command, to: send.key, at: found.places) { done() }
                    return
                } catch {
                    try await Task.sleep(for: .seconds(1))
                }
            }
        }
    }
}

extension Simulation {
    /// Asks over HTTP for a change of a send until somebody answers.
    ///
    /// - Returns: true when it has taken effect.
    private func controlOverHTTP(_ send: SimulatedSend, _ command: SendControlCommand) async throws -> Bool {
        for _ in 0..<Self.controlsMax {
            switch try await self.backend.control(send.key, command) {
            case .status(200): return true
            // It is not there yet, or goes to a few devices at once, or has ended.
            case .status(404), .status(409): return false
            case .status(let status) where status < 500 && status != 429:
                self.failures.append("the \(command.name) of \(send.key) was refused over HTTP: \(status)")
                return false
            case .unanswered: send.quietUntil = self.scheduler.now + Self.lateSecondsMax * Self.second
            default: break
            }
            try await Task.sleep(for: .seconds(1))
        }
        return false
    }
}
