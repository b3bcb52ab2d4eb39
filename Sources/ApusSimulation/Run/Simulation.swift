internal import ApusCore
internal import ApusFleet
internal import ApusInstallation
internal import ApusMessages
internal import ApusSimulator
internal import ApusStreams
internal import Logging

/// One simulation: a plan's events happen to a fleet while it sends, then the faults stop, everything ends, and what happened is compared
/// with what may happen.
final class Simulation: @unchecked Sendable {
    /// The topics: most devices are in the first one, few in the others, which get their numbers while other things happen.
    static let topics = ["news"] + (1...15).map { "topic-\($0)" }
    static let users = ["ada", "bob", "cleo", "dan"]
    /// The time after the last end in which nothing more may come.
    static let tailSeconds: Int64 = 15
    /// The number of such times, where something was left after one.
    static let tailsMax = 3
    static let second: Int64 = 1_000_000_000
    /// The nanoseconds between two looks whether everything has ended.
    static let lookNanoseconds: Int64 = 50_000_000
    /// The seconds by which the fleet's clocks are ahead of the providers': further from these its tokens would be refused.
    static let fleetClockSeconds: ClosedRange<Int64> = -30...60

    let plan: SimulationPlan
    let fleet: SimulatedFleet
    let scheduler: Scheduler
    var devices: [SimulatedDevice] = []
    var sends: [SimulatedSend] = []
    /// The last entries of the streams of receipts that were read.
    var cursors: [String: String] = [:]
    /// The final receipts, by send.
    var receipts: [SendKey: [SendReceipt]] = [:]
    /// The outcomes that were listed one by one, by send and recipient.
    var listings: [SendKey: [String: Set<Outcome>]] = [:]
    /// The times at which the final receipts were first seen, by send.
    var endings: [SendKey: Int64] = [:]
    /// The backend that sends the requests of devices.
    let backend: SimulatedBackend
    var services: [(service: SimulatedService, process: SimulatedProcess)] = []
    var providerFaults: Set<SimulationPlan.Event> = []
    var isHealing = false
    var routes: [(number: RouteNumber, name: String)] = []
    /// The providers that call tokens bad or dead by mistake, with their word for it.
    var misjudging: [FaultRoute: String] = [:]
    /// The number of times that a master has lost writes.
    var losses = 0
    /// The pauses of routes, and of sends.
    var routePauses: [SimulatedPause] = []
    var sendPauses: [SimulatedPause] = []
    /// The faults that may have kept a dispatcher from writing down what it had sent, or have let two of them send the same.
    var incidents: [SimulatedIncident] = []
    /// True when the next send is poison.
    var isNextPoison = false
    /// The dispatchers that are about to die of poison.
    var poisoned: Set<ObjectIdentifier> = []
    /// The sends whose commands an operator has replayed once they killed nobody any more, with the time.
    var replays: [SendKey: Int64] = [:]
    /// The users whom the backend forgets.
    var forgottenUsers: [SimulatedForgetting] = []
    /// The last step of the exchange of the records' key that was taken.
    var keyExchange: SimulatedFleet.KeyExchange?
    /// True once nobody has the routes to Google any more.
    var isRouteRemoved = false
    var tokensCount = 0
    /// The complaints about what was seen at once.
    var failures: [String] = []
    /// The number of times that each event took place.
    var counts: [SimulationPlan.Event: Int] = [:]

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
            self.repeatedly(mean, until: end, event.generator(seed: self.plan.seed)) { random in
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
            let requests = self.backend.unanswered.map { "\($0.name) (\($0.action))" }
            let all = (open + requests).joined(separator: ", ")
            return ["without an end \(self.plan.endSeconds) s after the last fault: \(all)"]
                + self.fleet.unfinishedKeys().map { "left in Redis: \($0)" }
        }
        self.runTails()
        if self.sends.contains(where: \.isPoison) {
            // It is found in what they have in common.
            self.fleet.network.isDeadly = nil
            try self.replayLetters()
            _ = self.runOn { self.replays.keys.allSatisfy { self.hasEndedAgain($0) } }
            self.runTails()
        }
        _ = self.runOn { self.unposted.isEmpty }
        try self.restoreDevicesAtEnd()
        return try SimulationAudit(self, self.scheduler).complaints()
    }

    /// Runs until nothing is left that was to be done, and nothing more may come.
    private func runTails() {
        // A send that Redis may have forgotten may be under way, and so may one whose end it has forgotten, or a request that was repeated.
        // A dispatcher may have one in hand whose entry Redis has forgotten, and file its retry late.
        for _ in 0..<Self.tailsMax {
            _ = self.runOn { self.fleet.unfinishedKeys().isEmpty }
            _ = self.scheduler.run(until: { false }, within: Self.tailSeconds * Self.second)
            if self.fleet.unfinishedKeys().isEmpty { break }
        }
    }

    /// Runs until a condition holds, or the time is over in which everything ends. It is looked at now and then, not at each step.
    ///
    /// - Returns: true when the condition holds.
    func runOn(until condition: () -> Bool) -> Bool {
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

    func isOver(_ send: SimulatedSend) -> Bool {
        self.receipts[send.key] != nil || (send.published != nil && send.mayBeForgotten)
    }

    func started(_ service: SimulatedService) -> (service: SimulatedService, process: SimulatedProcess) {
        (service, self.fleet.start(service))
    }

    func after(_ seconds: Double, _ body: @escaping () -> Void) {
        self.scheduler.call(at: self.scheduler.now + Int64(seconds * 1e9), for: nil, body)
    }

    /// Notes a fault that strikes now.
    func note(_ event: SimulationPlan.Event, seconds: Double = 0) {
        let now = self.scheduler.now
        self.incidents.append(SimulatedIncident(event: event, begin: now, end: now + Int64(seconds * 1e9)))
    }

    /// Calls a function again and again until a time, with exponentially distributed pauses.
    func repeatedly(
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

    // MARK: Events

    func perform(_ event: SimulationPlan.Event, _ random: inout SeededGenerator) {
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
        case .imports: self.importDevices(&random)
        case .forget: self.forgetUser(&random)
        case .webhook: self.breakWebhook(&random)
        case .key: self.exchangeKey(&random)
        case .poison: self.poison(random)
        case .misjudge: self.misjudge(&random)
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

    // MARK: The end

    /// Ends all faults.
    func heal() {
        self.isHealing = true
        self.fleet.network.watch = nil
        self.backend.onRequest = {}
        self.fleet.simulator.clearFaults()
        self.fleet.webhook.fault = nil
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
        if self.plan.events[.misjudge] != nil { self.watchRoutes() }
        // The operator lets everything go on, after the commands that are still under way.
        self.after(15) {
            for pause in self.routePauses + self.sendPauses { pause.end(at: self.scheduler.now) }
            for route in self.routes { self.control(route.number, .resume) }
            for send in self.sends { self.control(send, .resume) }
        }
    }
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
