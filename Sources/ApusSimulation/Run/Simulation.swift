internal import ApusCore
internal import ApusFleet
internal import ApusInstallation
internal import ApusMessages
internal import ApusPublisher
internal import ApusRedis
internal import ApusSimulator
internal import ApusStore
internal import ApusStreams
internal import Logging

/// One simulation: a plan's events happen to a fleet while it sends, then the faults stop, everything ends, and what happened is compared
/// with what may happen.
final class Simulation: @unchecked Sendable {
    static let topic = "news"
    static let users = ["ada", "bob", "cleo", "dan"]
    /// The time after the last end in which nothing more may come.
    private static let tailSeconds: Int64 = 15
    /// The number of such times, where something was left after one.
    private static let tailsMax = 3
    private static let second: Int64 = 1_000_000_000
    /// The nanoseconds between two looks whether everything has ended.
    private static let lookNanoseconds: Int64 = 50_000_000
    /// The share of kills and freezes that come when something was sent to a provider.
    private static let inFlightShare = 0.5
    /// The seconds by which the backend's clock is behind: Redis takes a time to come for now, and then knows no order any more.
    private static let backendDelaySeconds: Int64 = 7_200
    /// The share of devices that register themselves over HTTP.
    private static let httpShare = 0.25
    /// The seconds after which a request over HTTP that was not answered is not carried out any more.
    private static let lateSecondsMax: Int64 = 60
    /// The share of sends that have a time to begin, one to end, or a key that comes again, and the seconds from one time to the next.
    private static let timedShare = 0.15
    private static let timedSeconds: ClosedRange<Int64> = 1...20
    /// The share of sends to devices that name their tokens.
    private static let tokensShare = 0.3
    /// The share of sends with a long text, and its bytes: what is shorter is taken by every provider without being rendered.
    private static let longShare = 0.3
    private static let longBytes = 600
    /// Every so many sends one is of the publisher with mailboxes of its own.
    private static let ownMailboxEvery = 5
    /// Every so many sends one wants to know the outcome of each recipient.
    private static let listedEvery = 4
    /// Every so many sends one counts badges, as long as a device remembers all of these: a send that is repeated after more is counted again.
    private static let badgedEvery = 4
    private static let badgedMax = 8
    /// Every so many sends one has a rate of its own, in recipients per second.
    private static let pacedEvery = 6
    private static let ratePerSecond: UInt32 = 5
    /// The seconds that a service may take to stop.
    private static let drainSeconds: Int64 = 25
    /// The seconds between two looks whether a service has stopped.
    private static let restartSeconds = 0.5
    /// The seconds within which what was written arrives.
    private static let inFlightSeconds = 0.1
    /// The seconds that a request takes, roughly.
    private static let requestSeconds = 0.02
    /// The seconds by which the fleet's clocks are ahead of the providers': further from these its tokens would be refused.
    private static let fleetClockSeconds: ClosedRange<Int64> = -30...60
    /// The longest time between the moves of two keys of a slot, in seconds.
    private static let keyMoveSecondsMax = 0.02
    /// The seconds by which a clock may be ahead of the fleet's that no provider sees.
    private static let ownClockSeconds: ClosedRange<Int64> = -3_600...3_600

    let plan: SimulationPlan
    let fleet: SimulatedFleet
    private let scheduler: Scheduler
    private(set) var devices: [SimulatedDevice] = []
    private(set) var sends: [SimulatedSend] = []
    /// The last entries of the streams of receipts that were read.
    private var cursors: [String: String] = [:]
    /// The final receipts, by send.
    private(set) var receipts: [SendKey: [SendReceipt]] = [:]
    /// The outcomes that were listed one by one, by send and recipient.
    private(set) var listings: [SendKey: [String: Set<Outcome>]] = [:]
    /// The times at which the final receipts were first seen, by send.
    private(set) var endings: [SendKey: Int64] = [:]
    /// The backend that sends the requests of devices.
    let backend: SimulatedBackend
    private var services: [(service: SimulatedService, process: SimulatedProcess)] = []
    private var providerFaults: Set<SimulationPlan.Event> = []
    private var isHealing = false
    private var routes: [(number: RouteNumber, name: String)] = []
    /// The number of times that a master has lost writes.
    private var losses = 0
    /// The pauses of routes, and of sends.
    private(set) var routePauses: [SimulatedPause] = []
    private(set) var sendPauses: [SimulatedPause] = []
    /// The faults that may have kept a dispatcher from writing down what it had sent, or have let two of them send the same.
    private(set) var incidents: [SimulatedIncident] = []
    /// True once nobody has the routes to Google any more.
    private(set) var isRouteRemoved = false
    private var tokensCount = 0
    /// The complaints about what was seen at once.
    private(set) var failures: [String] = []
    /// The number of times that each event took place.
    private(set) var counts: [SimulationPlan.Event: Int] = [:]

    init(_ plan: SimulationPlan, _ fleet: SimulatedFleet, _ scheduler: Scheduler) {
        self.plan = plan
        self.fleet = fleet
        self.scheduler = scheduler
        self.backend = SimulatedBackend(fleet, scheduler)
    }

    // MARK: The run

    /// Runs everything and returns what must not have happened; nothing when all is well.
    func run() throws -> [String] {
        try self.fleet.setUp(self.plan)
        self.services = (0..<self.plan.dispatchers).map { _ in self.started(.dispatcher) }
        self.services += (0..<self.plan.feedbacks).map { _ in self.started(.feedback) }
        self.services += (0..<self.plan.registrations).map { _ in self.started(.registration) }
        self.fleet.begin(self.fleet.outside) { [backend] in try await backend.readAnswers() }
        try self.registerDevices()
        self.routes = try self.fleet.perform("the list of routes", in: self.fleet.outside) { [fleet] in
            try await fleet.installation.streams.routes.all().map { ($0.number, $0.name) }
        }
        for master in self.fleet.masters { self.attachCopy(master) }
        let end = self.scheduler.now + self.plan.seconds * Self.second
        self.planSends(until: end)
        for event in SimulationPlan.Event.allCases {
            guard let mean = self.plan.events[event] else { continue }
            let number = UInt64(SimulationPlan.Event.allCases.firstIndex(of: event) ?? 0)
            self.repeatedly(mean, until: end, SeededGenerator(seed: self.plan.seed ^ (number &+ 1) &* 0x1_0001)) {
                random in
                self.perform(event, &random)
            }
        }
        self.readReceipts()
        _ = self.scheduler.run(until: { self.scheduler.now >= end }, within: self.plan.seconds * Self.second + 1)
        self.heal()
        let isOver = self.runOn {
            self.sends.allSatisfy { self.isOver($0) } && self.devices.allSatisfy { !$0.isChanging }
        }
        guard isOver else {
            let open = self.sends.filter { !self.isOver($0) }.map { send in
                "\(send.key) (\(send.audience), \(send.published == nil ? "not published" : "published"))"
            }
            let requests = self.backend.unanswered.map { "\($0.id) (\($0.device.name), \($0.action))" }
            let all = (open + requests).joined(separator: ", ")
            return ["without an end \(self.plan.endSeconds) s after the last fault: \(all)"]
                + self.fleet.unfinishedKeys().map { "left in Redis: \($0)" }
        }
        // A send that Redis may have forgotten may be under way, and so may one whose end it has forgotten, or a request that was repeated.
        // A dispatcher may have one in hand whose entry Redis has forgotten, and file its retry late.
        for _ in 0..<Self.tailsMax {
            _ = self.runOn { self.fleet.unfinishedKeys().isEmpty }
            _ = self.scheduler.run(until: { false }, within: Self.tailSeconds * Self.second)
            if self.fleet.unfinishedKeys().isEmpty { break }
        }
        return try SimulationAudit(self, self.scheduler).complaints()
    }

    /// Runs until a condition holds, or the time is over in which everything ends. It is looked at now and then, not at each step.
    ///
    /// - Returns: true when the condition holds.
    private func runOn(until condition: () -> Bool) -> Bool {
        var next = self.scheduler.now
        return self.scheduler.run(
            until: {
                guard self.scheduler.now >= next else { return false }
                next = self.scheduler.now + Self.lookNanoseconds
                return condition()
            },
            within: self.plan.endSeconds * Self.second
        )
    }

    private func isOver(_ send: SimulatedSend) -> Bool {
        self.receipts[send.key] != nil || (send.published != nil && send.mayBeForgotten)
    }

    private func started(_ service: SimulatedService) -> (service: SimulatedService, process: SimulatedProcess) {
        (service, self.fleet.start(service))
    }

    private func after(_ seconds: Double, _ body: @escaping () -> Void) {
        self.scheduler.call(at: self.scheduler.now + Int64(seconds * 1e9), for: nil, body)
    }

    /// Notes a fault that strikes now.
    private func note(_ event: SimulationPlan.Event, seconds: Double = 0) {
        let now = self.scheduler.now
        self.incidents.append(SimulatedIncident(event: event, begin: now, end: now + Int64(seconds * 1e9)))
    }

    /// Calls a function again and again until a time, with exponentially distributed pauses.
    private func repeatedly(
        _ mean: Double,
        until end: Int64,
        _ random: SeededGenerator,
        _ body: @escaping (inout SeededGenerator) -> Void,
    ) {
        var random = random
        let pause = -mean * Double.random(in: 1e-9..<1, using: &random).logarithm
        self.after(pause) {
            guard self.scheduler.now < end else { return }
            body(&random)
            self.repeatedly(mean, until: end, random, body)
        }
    }

    // MARK: Devices

    private func newToken(_ provider: Provider) -> String {
        self.tokensCount += 1
        let digits = String(self.tokensCount, radix: 16)
        let hexadecimal = String(repeating: "0", count: 64 - digits.utf8.count) + digits
        switch provider {
        case .apns: return hexadecimal
        case .webpush:
            let services = SimulatedBrowser.Service.allCases
            return services[self.tokensCount % services.count].endpoint("browser-\(digits)")
        default: return "fcm:\(hexadecimal)"
        }
    }

    private func newDevice(of app: String, _ provider: Provider, usesHTTP: Bool) -> SimulatedDevice {
        let number = self.devices.count { $0.app == app }
        let device = SimulatedDevice(app: app, id: "d\(number)", provider: provider, usesHTTP: usesHTTP)
        self.devices.append(device)
        return device
    }

    private func registerDevices() throws {
        for number in 0..<self.plan.devices {
            let providers: [Provider] = [.apns, .apns, .fcm, .fcm, .webpush]
            let provider = providers[Int.random(in: 0..<providers.count, using: &self.scheduler.random)]
            let usesHTTP = self.scheduler.random.chance(Self.httpShare)
            let apps = self.fleet.apps
            let device = self.newDevice(of: apps[number % apps.count], provider, usesHTTP: usesHTTP)
            let state = DeviceState(
                token: self.newToken(provider),
                user: Self.users[number / apps.count % Self.users.count],
                isSubscribed: self.scheduler.random.chance(0.7)
            )
            self.change(device, to: state)
        }
        _ = self.scheduler.run(until: { self.devices.allSatisfy { !$0.isChanging } }, within: 60 * Self.second)
        guard self.devices.allSatisfy({ $0.changes.last?.end != nil }) else {
            throw SimulationFailure("the devices could not be registered")
        }
    }

    /// Changes a device's registration: it is asked for until it is accepted.
    ///
    /// - Parameters:
    ///   - action: the request; nil to register the device with all that it has, or to delete it.
    ///   - former: the device that had its token, which is taken from it.
    private func change(
        _ device: SimulatedDevice,
        to state: DeviceState?,
        by action: RegistrationCommand.Action? = nil,
        from former: SimulatedDevice? = nil,
    ) {
        guard self.canChange(device) else { return }
        device.begin(state, at: self.scheduler.now)
        former?.begin(nil, at: self.scheduler.now)
        let fleet = self.fleet
        let waits = self.plan.hasCopy && self.plan.hasReplica && self.scheduler.random.chance(0.5)
        let losses = self.losses
        fleet.begin(fleet.outside) {
            let whole = device.request(for: state)
            let isReplicated =
                device.usesHTTP
                ? try await self.requestOverHTTP(whole, device)
                : try await self.request(action ?? whole, otherwise: whole, device, waitsForReplica: waits)
            let writes = isReplicated && self.isLongReplicated ? nil : fleet.writes
            device.end(at: self.scheduler.now, writes: writes)
            former?.end(at: self.scheduler.now, writes: writes)
            // The answer may have been written on one master before another one forgot what it speaks of. Over HTTP it may also speak of what
            // was written to the same one before: nobody compares servers there.
            guard self.plan.masters > 1 || device.usesHTTP, self.losses > losses else { return }
            for device in [device, former] { device?.forget(after: -1, of: 0) }
        }
    }

    /// True when a device may ask for something new.
    private func canChange(_ device: SimulatedDevice) -> Bool {
        !device.isChanging && device.quietUntil <= self.scheduler.now
    }

    /// Asks for a change through the register stream until it is accepted.
    ///
    /// - Parameter whole: what is asked for when there is no such device: it was pruned, or Redis has forgotten it.
    /// - Returns: true when a replica has the change.
    private func request(
        _ action: RegistrationCommand.Action,
        otherwise whole: RegistrationCommand.Action,
        _ device: SimulatedDevice,
        waitsForReplica: Bool,
    ) async throws -> Bool {
        let fleet = self.fleet
        let wall = self.scheduler.now + SimulatedFleet.wallOffset - Self.backendDelaySeconds * Self.second
        let asOf = UnixMilliseconds(wall / 1_000_000)
        var action = action
        while true {
            let ticket = waitsForReplica ? fleet.barrier.ticket() : nil
            if case .refused(let code) = try await self.backend.answer(to: action, of: device, asOf: asOf) {
                if code == "unknown_device" { action = whole }
                try await Task.sleep(for: .milliseconds(500))
                continue
            }
            guard let ticket else { return false }
            let installation = fleet.installation
            let slots = (0..<installation.keyspace.devicePartitions).map { installation.store.keys.tag($0) }
            do {
                try await fleet.barrier.wait(for: slots, acknowledgedAt: nil, since: ticket)
                return true
            } catch {}
        }
    }

    /// Asks for a change over HTTP until it is accepted.
    ///
    /// - Returns: true when a replica has the change, if there is one.
    private func requestOverHTTP(_ action: RegistrationCommand.Action, _ device: SimulatedDevice) async throws -> Bool {
        let (answer, isLate) = try await self.backend.answer(toHTTP: action, of: device)
        if case .refused(let status) = answer {
            self.failures.append("\(device.name) was refused over HTTP: \(status)")
        }
        if isLate { device.quietUntil = self.scheduler.now + Self.lateSecondsMax * Self.second }
        return self.plan.hasReplica
    }

    /// True when everybody knows that each master has a replica, and waits for it.
    private var isLongReplicated: Bool {
        self.fleet.masters.allSatisfy { master in
            guard let copy = master.server.copy, copy.isReplica else { return false }
            return self.scheduler.now - master.copySince > Int64(ReplicaBarrier.replicaNewsLifetime / .nanoseconds(1))
        }
    }

    // MARK: Sends

    private func planSends(until end: Int64) {
        for number in 0..<self.plan.sends {
            let time = Int64.random(in: self.scheduler.now...end, using: &self.scheduler.random)
            self.scheduler.call(at: time, for: nil) { self.publish(number) }
        }
    }

    /// Draws one to three names, one of which may come twice.
    private func names(from all: [String]) -> [String] {
        (0..<Int.random(in: 1...3, using: &self.scheduler.random)).map { _ in
            all[Int.random(in: 0..<all.count, using: &self.scheduler.random)]
        }
    }

    /// Draws one to three devices of an app, named by their ids or by the tokens that they have now.
    private func someDevices(of app: String) -> SimulatedSend.Audience {
        let devices = self.devices.filter { $0.app == app }
        let ids = self.names(from: devices.map(\.id))
        let named = devices.filter { $0.latest != nil && ids.contains($0.id) }
        guard !named.isEmpty, self.scheduler.random.chance(Self.tokensShare) else { return .devices(ids) }
        return .tokens(Dictionary(grouping: named, by: \.provider).mapValues { $0.compactMap(\.latest?.token) })
    }

    private func publish(_ number: Int) {
        let apps = self.fleet.apps
        let key = SendKey(app: apps[number % apps.count], id: "s\(number / apps.count)")
        let audience: SimulatedSend.Audience =
            switch Int.random(in: 0..<8, using: &self.scheduler.random) {
            case 0: .everyone
            case 1, 2: .topic
            case 3, 4: .users(self.names(from: Self.users))
            case 5: .topicWithout(self.names(from: Self.users)[0])
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
        // Dispatchers decide which of two commands with one key is the first, and there may be several.
        if send.usesOwnMailbox { send.hasTwin = false }
        self.sends.append(send)
        self.publish(send)
    }

    /// Publishes a send until somebody confirms it.
    private func publish(_ send: SimulatedSend) {
        let fleet = self.fleet
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
                    // It is too late by the publisher's clock, which does not take it any more.
                    if let expiry = send.expiry, self.scheduler.now + self.clockLead >= expiry {
                        send.mayBeForgotten = true
                        send.published = send.published ?? self.scheduler.now
                        return
                    }
                }
                try await Task.sleep(for: .seconds(1))
            }
            guard send.hasTwin else { return }
            command.id = send.twinID
            _ = try? await publisher.publish(command, lane: send.lane)
        }
    }

    /// Reads receipts for ever.
    private func readReceipts() {
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

    private func readReceipts(in stream: String, on tag: HashTag) async {
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
            guard receipt.kind == .final || receipt.kind == .refused, !receipt.isOfRepetition else { continue }
            self.receipts[send, default: []].append(receipt)
            if self.endings[send] == nil { self.endings[send] = self.scheduler.now }
        }
    }

    // MARK: Events

    private func perform(_ event: SimulationPlan.Event, _ random: inout SeededGenerator) {
        self.counts[event, default: 0] += 1
        self.fleet.logger.notice("event: \(event.rawValue)")
        switch event {
        case .kill: self.kill(&random)
        case .freeze: self.freeze(&random)
        case .stop: self.stop(&random)
        case .cut:
            guard self.fleet.network.count > 0 else { return }
            let index = Int.random(in: 0..<self.fleet.network.count, using: &random)
            if self.fleet.network.isEnd(self.fleet.providers, of: index) { self.note(.cut) }
            self.fleet.network.cut(index)
        case .redisCut, .redisDown, .redisBusy, .redisLoss, .copyLag, .redisFull, .redisError, .redisScript:
            self.perform(event, on: self.someMaster(&random), &random)
        case .slotMove: self.moveSlot(&random)
        case .late:
            self.fleet.network.faults.slowShare = Double.random(in: 0...0.3, using: &random)
            self.after(Double.random(in: 0.5...5, using: &random)) { self.fleet.network.faults.slowShare = 0 }
        case .refuse, .silence, .slow, .goAway:
            self.providerFaults.insert(event)
            self.setProviderFaults(&random)
            var later = random
            let seconds = Double.random(in: 0.5...15, using: &random)
            self.note(event, seconds: seconds)
            self.after(seconds) {
                guard !self.isHealing else { return }
                self.providerFaults.remove(event)
                self.setProviderFaults(&later)
            }
        case .clock:
            // Further from the providers' clock its tokens would be refused.
            let seconds = Int64.random(in: Self.fleetClockSeconds, using: &random)
            self.scheduler.wallOffset = SimulatedFleet.wallOffset + seconds * Self.second
            self.note(.clock, seconds: Double(self.plan.leaseSeconds))
        case .uninstall, .rotate, .login, .logout, .topic, .delete, .reinstall: self.changeSomeDevice(event, &random)
        case .pause: self.pauseRoute(&random)
        case .hold, .cancel: self.control(event, &random)
        case .again:
            guard !self.sends.isEmpty else { return }
            self.publish(self.sends[Int.random(in: 0..<self.sends.count, using: &random)])
        case .ownClock: self.setOwnClock(&random)
        case .route:
            guard !self.isRouteRemoved else { return }
            self.isRouteRemoved = true
            do {
                try self.fleet.writeConfiguration(self.plan, hasFCM: false)
            } catch {
                preconditionFailure("the configuration cannot be written: \(error)")
            }
            for index in self.services.indices where self.services[index].service == .dispatcher {
                self.kill(index, &random)
            }
        }
    }

    // MARK: Redis

    private func someMaster(_ random: inout SeededGenerator) -> SimulatedMaster {
        self.fleet.masters[Int.random(in: 0..<self.fleet.masters.count, using: &random)]
    }

    private func perform(
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

    private func attachCopy(_ master: SimulatedMaster) {
        guard self.plan.hasCopy, master.server.copy == nil else { return }
        // A file is synced every second.
        let microseconds = self.plan.hasReplica ? 100...20_000 : 200_000...500_000 as ClosedRange<Int64>
        master.server.attach(
            lag: Int64.random(in: microseconds, using: &self.scheduler.random),
            isReplica: self.plan.hasReplica
        )
        master.copySince = self.scheduler.now
    }

    private func loseWrites(_ master: SimulatedMaster, _ random: inout SeededGenerator) {
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

    private func refuse(_ master: SimulatedMaster, _ random: inout SeededGenerator) {
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
    private func moveSlot(_ random: inout SeededGenerator) {
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

    private func moveKeys(of slot: Int, from source: Int, to target: Int, _ random: SeededGenerator) {
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

    private func endMove(of slot: Int, _ giver: SimulatedMaster, _ taker: SimulatedMaster) {
        self.fleet.cluster?.endMove(of: slot)
        self.fleet.logger.notice("slot \(slot) has moved")
        giver.server.redirectReaders()
        taker.writesOwed = taker.writes
        for master in [giver, taker] { master.moves -= 1 }
    }

    // MARK: Processes

    /// The nanoseconds by which the fleet's clocks are ahead of the providers'.
    private var clockLead: Int64 { self.scheduler.wallOffset - SimulatedFleet.wallOffset }

    private func setOwnClock(_ random: inout SeededGenerator) {
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

    private func kill(_ random: inout SeededGenerator) {
        let index = Int.random(in: 0..<self.services.count, using: &random)
        guard random.chance(Self.inFlightShare) else { return self.kill(index, &random) }
        var later = random
        self.whenBusy(index, &random) { [self] index in self.kill(index, &later) }
    }

    private func kill(_ index: Int, _ random: inout SeededGenerator) {
        guard !self.services[index].process.isDead else { return }
        let victim = self.services[index]
        self.kill(index)
        self.after(Double.random(in: 0.05...8, using: &random)) {
            guard self.services[index].process.isDead else { return }
            self.services[index] = self.started(victim.service)
        }
    }

    private func stop(_ random: inout SeededGenerator) {
        let index = Int.random(in: 0..<self.services.count, using: &random)
        guard random.chance(Self.inFlightShare) else { return self.stop(index, &random) }
        var later = random
        self.whenBusy(index, &random) { [self] index in self.stop(index, &later) }
    }

    private func kill(_ index: Int) {
        let (service, process) = self.services[index]
        self.fleet.logger.notice("kill of \(process.name) \(process.pid)")
        // Its last bytes still arrive.
        if service == .dispatcher { self.note(.kill, seconds: Self.inFlightSeconds) }
        process.kill()
    }

    private func stop(_ index: Int, _ random: inout SeededGenerator) {
        let (_, process) = self.services[index]
        guard !process.isDead, !process.isFrozen, !process.isStopping else { return }
        self.fleet.logger.notice("stop of \(process.name) \(process.pid)")
        process.isStopping = true
        self.fleet.stop(process)
        self.awaitEnd(index, of: process, until: self.scheduler.now + Self.drainSeconds * Self.second)
    }

    /// Starts a service again when it has stopped. One that takes too long is killed, as systemd does it.
    private func awaitEnd(_ index: Int, of process: SimulatedProcess, until end: Int64) {
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

    private func freeze(_ random: inout SeededGenerator) {
        let index = Int.random(in: 0..<self.services.count, using: &random)
        guard random.chance(Self.inFlightShare) else { return self.freeze(index, &random) }
        var later = random
        self.whenBusy(index, &random) { [self] index in self.freeze(index, &later) }
    }

    private func freeze(_ index: Int, _ random: inout SeededGenerator) {
        let (service, process) = self.services[index]
        guard !process.isDead, !process.isFrozen, !self.isHealing else { return }
        self.fleet.logger.notice("freeze of \(process.name) \(process.pid)")
        process.freeze()
        let seconds = Double.random(in: 0.2...SimulationAudit.freezeSecondsMax, using: &random)
        if service == .dispatcher { self.note(.freeze, seconds: seconds) }
        self.after(seconds) { process.thaw() }
    }

    /// Calls a function with the number of a service at a moment when it is likely to be in the middle of something.
    private func whenBusy(_ index: Int, _ random: inout SeededGenerator, _ body: @escaping (Int) -> Void) {
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
    private func whenSending(_ random: inout SeededGenerator, _ body: @escaping (Int) -> Void) {
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

    private func setProviderFaults(_ random: inout SeededGenerator) {
        var plan = FaultPlan(seed: random.next())
        for route in [FaultRoute.apns, .fcm, .webpush] {
            var rates = FaultRates()
            if self.providerFaults.contains(.refuse) {
                rates.tooManyRequests = Double.random(in: 0...0.3, using: &random)
                rates.unavailable = Double.random(in: 0...0.3, using: &random)
                rates.internalError = Double.random(in: 0...0.1, using: &random)
            }
            if self.providerFaults.contains(.silence) {
                rates.silence = Double.random(in: 0...0.1, using: &random)
                rates.drop = Double.random(in: 0...0.1, using: &random)
                rates.refusal = Double.random(in: 0...0.1, using: &random)
            }
            if self.providerFaults.contains(.slow) {
                rates.delayMilliseconds = Int64.random(in: 100...3_000, using: &random)
                rates.jitterMilliseconds = Int64.random(in: 0...3_000, using: &random)
            }
            if self.providerFaults.contains(.goAway) {
                rates.goAwayAfterRequests = Int.random(in: 1...20, using: &random)
            }
            plan[route] = rates
        }
        self.fleet.simulator.setFaults(plan)
    }

    private func changeSomeDevice(_ event: SimulationPlan.Event, _ random: inout SeededGenerator) {
        let device = self.devices[Int.random(in: 0..<self.devices.count, using: &random)]
        guard self.canChange(device) else { return }
        let user = Self.users[Int.random(in: 0..<Self.users.count, using: &random)]
        guard var state = device.latest else {
            return self.change(
                device,
                to: DeviceState(token: self.newToken(device.provider), user: user, isSubscribed: true)
            )
        }
        switch event {
        case .uninstall:
            guard device.deadTokens[state.token] == nil else { return }
            device.deadTokens[state.token] = self.scheduler.now
            let since = UnixMilliseconds((self.scheduler.now + self.scheduler.wallOffset) / 1_000_000)
            return self.fleet.simulator.declare(.dead(since: since), of: state.token, provider: device.provider)
        case .rotate: state.token = self.newToken(device.provider)
        case .login: state.user = user
        case .logout: state.user = ""
        case .topic: state.isSubscribed.toggle()
        case .reinstall:
            // If Redis forgets its last change, it keeps the token before.
            guard let last = device.changes.last, last.end != nil, !self.plan.hasCopy || last.writes == nil else {
                return
            }
            // It uses the same way, since the times of requests over HTTP are by Redis' clock, those of the backend by its own.
            let successor = self.newDevice(of: device.app, device.provider, usesHTTP: device.usesHTTP)
            successor.deadTokens = device.deadTokens
            return self.change(successor, to: state, from: device)
        default: return self.change(device, to: nil)
        }
        // A part changes another state than is thought when Redis has forgotten a change before it.
        let isWhole = self.plan.hasCopy || random.chance(0.5)
        self.change(device, to: state, by: isWhole ? nil : device.request(for: event, state))
    }

    private func pauseRoute(_ random: inout SeededGenerator) {
        let route = self.routes[Int.random(in: 0..<self.routes.count, using: &random)]
        // A pause that is over while an earlier one goes on would end it.
        guard !self.routePauses.contains(where: { $0.name == route.name && !$0.isOver }) else { return }
        let pause = SimulatedPause(name: route.name)
        self.routePauses.append(pause)
        // An operator does not wait for a replica to have it.
        self.control(route.number, .pause) { pause.begin(at: self.scheduler.now, writes: self.fleet.writes) }
        self.after(Double.random(in: 0.5...20, using: &random)) {
            pause.end(at: self.scheduler.now)
            self.control(route.number, .resume) { pause.isOver = true }
        }
    }

    private func control(
        _ route: RouteNumber,
        _ command: RouteControlCommand,
        done: @escaping @Sendable () -> Void = {},
    ) {
        let fleet = self.fleet
        fleet.begin(fleet.outside) {
            for _ in 0..<10 {
                if (try? await fleet.installation.streams.routes.control(route, command)) != nil { return done() }
                try await Task.sleep(for: .seconds(1))
            }
        }
    }

    private func control(_ event: SimulationPlan.Event, _ random: inout SeededGenerator) {
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
        guard !self.sendPauses.contains(where: { $0.name == send.key.description && !$0.isOver }) else { return }
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

    private func control(
        _ send: SimulatedSend,
        _ command: SendControlCommand,
        done: @escaping @Sendable () -> Void = {}
    ) {
        let fleet = self.fleet
        fleet.begin(fleet.outside) {
            let control = fleet.installation.streams.control
            for _ in 0..<10 {
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

    // MARK: The end

    /// Ends all faults.
    private func heal() {
        self.isHealing = true
        self.fleet.network.watch = nil
        self.backend.onRequest = {}
        self.fleet.simulator.clearFaults()
        self.fleet.network.faults = SimulatedNetwork.Faults()
        for master in self.fleet.masters {
            master.process.thaw()
            if master.process.clockError != 0 { self.note(.ownClock, seconds: Double(self.plan.leaseSeconds)) }
            master.process.clockError = 0
            master.server.refusal = nil
            master.server.demote(false)
            master.server.model.isMadeFull = false
            master.server.silenceCopy(false)
        }
        for (index, entry) in self.services.enumerated() {
            entry.process.thaw()
            entry.process.clockError = 0
            if entry.process.isDead { self.services[index] = self.started(entry.service) }
        }
        // The operator lets everything go on, after the commands that are still under way.
        self.after(15) {
            for pause in self.routePauses + self.sendPauses { pause.end(at: self.scheduler.now) }
            for route in self.routes { self.control(route.number, .resume) }
            for send in self.sends { self.control(send, .resume) }
        }
    }
}

extension SendReceipt {
    /// True when it says that the same command, under the same id, was there before: it is no end of the send.
    fileprivate var isOfRepetition: Bool { self.kind == .refused && self.duplicateOf == self.send }
}

extension ClosedRange<Int64> {
    fileprivate func clamped(_ value: Int64) -> Int64 { Swift.min(Swift.max(value, self.lowerBound), self.upperBound) }
}

extension Double {
    /// The natural logarithm.
    fileprivate var logarithm: Double {
        // ln(m·2^e) = e·ln 2 + 2·artanh((m-1)/(m+1)).
        let ratio = (self.significand - 1) / (self.significand + 1)
        var (sum, power) = (0.0, ratio)
        for number in stride(from: 1, through: 41, by: 2) {
            sum += power / Double(number)
            power *= ratio * ratio
        }
        return Double(self.exponent) * 0.693_147_180_559_945_3 + 2 * sum
    }
}
