internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusPublisher
internal import ApusRedis
internal import ApusSimulator
internal import ApusStore
internal import ApusStreams
internal import CVirtualTime

/// One simulation: a plan's events happen to a fleet while it sends, then the faults stop, everything ends, and what happened is compared
/// with what may happen.
final class Simulation: @unchecked Sendable {
    static let topic = "news"
    static let users = ["ada", "bob", "cleo", "dan"]
    /// The time within which everything ends after the faults have stopped.
    static let endSecondsMax: Int64 = 600
    /// The time after the last end in which nothing more may come.
    private static let tailSeconds: Int64 = 15
    private static let second: Int64 = 1_000_000_000

    let plan: SimulationPlan
    let fleet: SimulatedFleet
    private let scheduler: Scheduler
    private(set) var devices: [SimulatedDevice] = []
    private(set) var sends: [SimulatedSend] = []
    /// The final receipts, by send.
    private(set) var receipts: [String: [SendReceipt]] = [:]
    /// The times at which those were first seen, by send.
    private(set) var endings: [String: Int64] = [:]
    private var services: [(service: SimulatedService, process: SimulatedProcess)] = []
    private var providerFaults: Set<SimulationPlan.Event> = []
    private var isHealing = false
    private var wallOffset: Int64
    private var routes: [(number: RouteNumber, name: String)] = []
    /// The pauses of routes.
    private(set) var pauses: [Pause] = []
    private var tokensCount = 0
    /// The number of times that each event took place.
    private(set) var counts: [SimulationPlan.Event: Int] = [:]

    init(_ plan: SimulationPlan, _ fleet: SimulatedFleet, _ scheduler: Scheduler, wallOffset: Int64) {
        self.plan = plan
        self.fleet = fleet
        self.scheduler = scheduler
        self.wallOffset = wallOffset
    }

    /// A pause of a route by an operator.
    final class Pause: @unchecked Sendable {
        let route: String
        /// The time at which the operator was told that it is in force; nil while that is not known.
        var begin: Int64?
        /// The time at which the operator asked to end it.
        var end: Int64?

        init(route: String) { self.route = route }
    }

    // MARK: The run

    /// Runs everything and returns what must not have happened; nothing when all is well.
    func run() throws -> [String] {
        try self.fleet.setUp(leaseSeconds: self.plan.leaseSeconds)
        self.services = (0..<self.plan.dispatchers).map { _ in self.started(.dispatcher) }
        self.services += (0..<self.plan.feedbacks).map { _ in self.started(.feedback) }
        try self.registerDevices()
        self.routes = try self.fleet.perform("the list of routes", in: self.fleet.outside) { [fleet] in
            try await fleet.installation.streams.routes.all().map { ($0.number, $0.name) }
        }
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
        let isOver = self.scheduler.run(
            until: { self.sends.allSatisfy { self.receipts[$0.id] != nil } },
            within: Self.endSecondsMax * Self.second
        )
        guard isOver else {
            let open = self.sends.filter { self.receipts[$0.id] == nil }.map { send in
                "\(send.id) (\(send.audience), \(send.published == nil ? "not published" : "published"))"
            }
            return ["without an end \(Self.endSecondsMax) s after the last fault: \(open.joined(separator: ", "))"]
        }
        // Some of it may be late.
        _ = self.scheduler.run(until: { false }, within: Self.tailSeconds * Self.second)
        return try SimulationAudit(self, self.scheduler).complaints()
    }

    private func started(_ service: SimulatedService) -> (service: SimulatedService, process: SimulatedProcess) {
        (service, self.fleet.start(service))
    }

    private func after(_ seconds: Double, _ body: @escaping () -> Void) {
        self.scheduler.call(at: self.scheduler.now + Int64(seconds * 1e9), for: nil, body)
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
        return provider == .apns ? hexadecimal : "fcm:\(hexadecimal)"
    }

    private func registerDevices() throws {
        for number in 0..<self.plan.devices {
            let provider: Provider = self.scheduler.random.chance(0.5) ? .apns : .fcm
            let device = SimulatedDevice(id: "d\(number)", provider: provider)
            self.devices.append(device)
            let state = DeviceState(
                token: self.newToken(provider),
                user: Self.users[number % Self.users.count],
                isSubscribed: self.scheduler.random.chance(0.7)
            )
            self.change(device, to: state)
        }
        _ = self.scheduler.run(until: { self.devices.allSatisfy { !$0.isChanging } }, within: 60 * Self.second)
        guard self.devices.allSatisfy({ $0.changes.last?.end != nil }) else {
            throw SimulationFailure("the devices could not be registered")
        }
    }

    /// Registers a device anew, or deletes it.
    private func change(_ device: SimulatedDevice, to state: DeviceState?) {
        guard !device.isChanging else { return }
        device.begin(state, at: self.scheduler.now)
        let (fleet, app) = (self.fleet, SimulatedFleet.app)
        fleet.begin(fleet.outside) {
            var isKnown = false
            do {
                let store = fleet.installation.store
                if let state {
                    var registration = DeviceRegistration(
                        device: device.id,
                        provider: device.provider,
                        token: state.token
                    )
                    registration.user = state.user
                    registration.topics = state.isSubscribed ? [Self.topic] : []
                    _ = try await store.register(AppID(app), registration)
                } else {
                    _ = try await store.delete(AppID(app), DeviceID(device.id))
                }
                isKnown = true
            } catch {}
            device.end(at: self.scheduler.now, isKnown: isKnown)
        }
    }

    // MARK: Sends

    private func planSends(until end: Int64) {
        for number in 0..<self.plan.sends {
            let time = Int64.random(in: self.scheduler.now...end, using: &self.scheduler.random)
            self.scheduler.call(at: time, for: nil) { self.publish(number) }
        }
    }

    private func publish(_ number: Int) {
        let audience: SimulatedSend.Audience =
            switch Int.random(in: 0..<6, using: &self.scheduler.random) {
            case 0: .everyone
            case 1, 2: .topic
            case 3, 4: .users([Self.users[Int.random(in: 0..<Self.users.count, using: &self.scheduler.random)]])
            default: .devices([self.devices[Int.random(in: 0..<self.devices.count, using: &self.scheduler.random)].id])
            }
        let send = SimulatedSend(
            id: "s\(number)",
            audience: audience,
            lane: self.scheduler.random.chance(0.4) ? .express : .bulk,
            isAtMostOnce: self.scheduler.random.chance(0.2),
            begin: self.scheduler.now
        )
        self.sends.append(send)
        self.publish(send)
    }

    /// Publishes a send until somebody confirms it.
    private func publish(_ send: SimulatedSend) {
        let fleet = self.fleet
        fleet.begin(fleet.outside) {
            var notification = Notification()
            notification.title = "Hi"
            var command = SendCommand(app: SimulatedFleet.app, target: send.target, notification: notification)
            command.id = send.id
            command.delivery = send.isAtMostOnce ? .atMostOnce : .atLeastOnce
            while true {
                do {
                    _ = try await fleet.publisher.publish(command, lane: send.lane)
                    send.published = send.published ?? self.scheduler.now
                    return
                } catch {
                    try await Task.sleep(for: .seconds(1))
                }
            }
        }
    }

    /// Reads receipts for ever.
    private func readReceipts() {
        let fleet = self.fleet
        fleet.begin(fleet.outside) {
            let streams = fleet.installation.streams
            var cursors: [String: String] = [:]
            while true {
                for shard in 0..<streams.keyspace.queueShards {
                    let keys = streams.keys(shard: shard)
                    let after = cursors[keys.receipts] ?? "0"
                    let command = RedisCommand("XREAD", "STREAMS", .text(keys.receipts), .text(after))
                    guard let reply = try? await streams.client.send(command, on: keys.tag, options: .idempotent),
                        let entries = reply.root.element(0)?.element(1)?.children
                    else { continue }
                    for entry in entries {
                        cursors[keys.receipts] = entry.element(0)?.string ?? after
                        guard let bytes = entry.element(1)?.element(1)?.bytes else { continue }
                        let receipt = try SendReceipt.decode(bytes)
                        guard receipt.kind == .final || receipt.kind == .refused else { continue }
                        self.receipts[receipt.send, default: []].append(receipt)
                        if self.endings[receipt.send] == nil { self.endings[receipt.send] = self.scheduler.now }
                    }
                }
                try await Task.sleep(for: .seconds(1))
            }
        }
    }

    // MARK: Events

    private func perform(_ event: SimulationPlan.Event, _ random: inout SeededGenerator) {
        self.counts[event, default: 0] += 1
        switch event {
        case .kill: self.kill(&random)
        case .freeze: self.freeze(&random)
        case .cut:
            guard self.fleet.network.count > 0 else { return }
            self.fleet.network.cut(Int.random(in: 0..<self.fleet.network.count, using: &random))
        case .redisCut: self.fleet.network.cutAll(of: self.fleet.redis)
        case .redisDown:
            self.fleet.network.refuse(
                SimulatedFleet.redisPort,
                until: self.scheduler.now + Int64(Double.random(in: 0.1...10, using: &random) * 1e9)
            )
            self.fleet.network.cutAll(of: self.fleet.redis)
        case .redisBusy:
            guard !self.fleet.redis.isFrozen else { return }
            self.fleet.redis.freeze()
            self.after(Double.random(in: 0.5...16, using: &random)) { self.fleet.redis.thaw() }
        case .late:
            self.fleet.network.faults.slowShare = Double.random(in: 0...0.3, using: &random)
            self.after(Double.random(in: 0.5...5, using: &random)) { self.fleet.network.faults.slowShare = 0 }
        case .refuse, .silence, .slow, .goAway:
            self.providerFaults.insert(event)
            self.setProviderFaults(&random)
            var later = random
            self.after(Double.random(in: 0.5...15, using: &random)) {
                guard !self.isHealing else { return }
                self.providerFaults.remove(event)
                self.setProviderFaults(&later)
            }
        case .clock:
            // Further from the providers' clock its tokens would be refused.
            self.wallOffset = SimulatedFleet.wallOffset + Int64.random(in: -30...60, using: &random) * Self.second
            virtual_set_wall_offset(self.wallOffset)
        case .uninstall, .rotate, .login, .topic, .delete: self.changeSomeDevice(event, &random)
        case .pause: self.pauseRoute(&random)
        case .hold, .cancel: self.control(event, &random)
        case .again:
            guard !self.sends.isEmpty else { return }
            self.publish(self.sends[Int.random(in: 0..<self.sends.count, using: &random)])
        }
    }

    private func kill(_ random: inout SeededGenerator) {
        let index = Int.random(in: 0..<self.services.count, using: &random)
        let victim = self.services[index]
        guard !victim.process.isDead else { return }
        victim.process.kill()
        self.after(Double.random(in: 0.05...8, using: &random)) {
            guard self.services[index].process.isDead else { return }
            self.services[index] = self.started(victim.service)
        }
    }

    private func freeze(_ random: inout SeededGenerator) {
        let process = self.services[Int.random(in: 0..<self.services.count, using: &random)].process
        guard !process.isDead, !process.isFrozen else { return }
        process.freeze()
        self.after(Double.random(in: 0.2...SimulationAudit.freezeSecondsMax, using: &random)) { process.thaw() }
    }

    private func setProviderFaults(_ random: inout SeededGenerator) {
        var plan = FaultPlan(seed: random.next())
        for route in [FaultRoute.apns, .fcm] {
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
        guard !device.isChanging else { return }
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
            let since = UnixMilliseconds((self.scheduler.now + self.wallOffset) / 1_000_000)
            return self.fleet.simulator.declare(.dead(since: since), of: state.token, provider: device.provider)
        case .rotate: state.token = self.newToken(device.provider)
        case .login: state.user = user
        case .topic: state.isSubscribed.toggle()
        default: return self.change(device, to: nil)
        }
        self.change(device, to: state)
    }

    private func pauseRoute(_ random: inout SeededGenerator) {
        let route = self.routes[Int.random(in: 0..<self.routes.count, using: &random)]
        // A pause that is over while an earlier one goes on would end it.
        guard !self.pauses.contains(where: { $0.route == route.name && $0.end == nil }) else { return }
        let pause = Pause(route: route.name)
        self.pauses.append(pause)
        self.control(route.number, .pause) { pause.begin = self.scheduler.now }
        self.after(Double.random(in: 0.5...20, using: &random)) {
            pause.end = self.scheduler.now
            self.control(route.number, .resume)
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
            return self.control(send, .cancel) { send.cancelled = send.cancelled ?? self.scheduler.now }
        }
        self.control(send, .pause)
        self.after(Double.random(in: 0.5...20, using: &random)) { self.control(send, .resume) }
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
                    for (keys, _) in try await control.find(app: SimulatedFleet.app, send: send.id) {
                        let result = try await control.apply(
                            command,
                            to: SendKey(app: SimulatedFleet.app, id: send.id),
                            at: keys
                        )
                        if case .ok = result { done() }
                    }
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
        self.fleet.simulator.clearFaults()
        self.fleet.network.faults = SimulatedNetwork.Faults()
        self.fleet.redis.thaw()
        for (index, entry) in self.services.enumerated() {
            entry.process.thaw()
            if entry.process.isDead { self.services[index] = self.started(entry.service) }
        }
        // The operator lets everything go on, after the commands that are still under way.
        self.after(15) {
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
