internal import ApusCore
internal import ApusFleet
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusSimulator
internal import ApusStore
internal import ApusStreams

/// Lets devices register, and people do something with them.
extension Simulation {
    /// The seconds by which the backend's clock is behind: Redis takes a time to come for now, and then knows no order any more.
    static let backendDelaySeconds: Int64 = 7_200
    /// The share of devices that register themselves over HTTP, and of the simulations in which all do.
    static let httpShare = 0.25
    static let allOverHTTPShare = 0.2
    /// The seconds after which a request over HTTP that was not answered is not carried out any more.
    static let lateSecondsMax: Int64 = 60
    /// The most devices of one import.
    static let importedMax = 6
    /// The share of devices in each topic but the first.
    static let topicShare = 0.04

    func newToken(_ provider: Provider) -> String {
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

    func newDevice(of app: String, _ provider: Provider, usesHTTP: Bool) -> SimulatedDevice {
        let number = self.devices.count { $0.app == app }
        let device = SimulatedDevice(app: app, id: "d\(number)", provider: provider, usesHTTP: usesHTTP)
        self.devices.append(device)
        return device
    }

    /// Draws the topics of a device.
    private static func someTopics(_ random: inout SeededGenerator) -> [String] {
        var topics: [String] = []
        for topic in Self.topics where random.chance(topic == Self.topics[0] ? 0.7 : Self.topicShare) {
            topics.append(topic)
        }
        return topics
    }

    func registerDevices() throws {
        let httpShare = self.scheduler.random.chance(Self.allOverHTTPShare) ? 1 : Self.httpShare
        for number in 0..<self.plan.devices {
            let providers: [Provider] = [.apns, .apns, .fcm, .fcm, .webpush]
            let provider = providers[Int.random(in: 0..<providers.count, using: &self.scheduler.random)]
            let usesHTTP = self.scheduler.random.chance(httpShare)
            let apps = self.fleet.apps
            let device = self.newDevice(of: apps[number % apps.count], provider, usesHTTP: usesHTTP)
            let state = DeviceState(
                token: self.newToken(provider),
                user: Self.users[number / apps.count % Self.users.count],
                topics: Self.someTopics(&self.scheduler.random)
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
    func change(
        _ device: SimulatedDevice,
        to state: DeviceState?,
        by action: RegistrationCommand.Action? = nil,
        from former: SimulatedDevice? = nil,
    ) {
        guard self.canChange(device) else { return }
        let user = device.latest?.user ?? ""
        let waits = self.drawWaiting()
        self.change([(device, state)] + (former.map { [($0, nil)] } ?? [])) {
            let whole = device.request(for: state)
            return device.usesHTTP
                ? try await self.requestOverHTTP(action ?? whole, otherwise: whole, device, from: user)
                : try await self.request(
                    action ?? whole,
                    otherwise: whole,
                    about: device.id,
                    of: device.app,
                    waitsForReplica: waits
                )
        }
    }

    /// Draws whether a request through the register stream waits for a replica.
    private func drawWaiting() -> Bool {
        self.plan.hasCopy && self.plan.hasReplica && self.scheduler.random.chance(0.5)
    }

    /// Notes changes of devices, which end when a request for them is accepted.
    ///
    /// - Parameter request: makes the request, and returns true when a replica has the changes.
    private func change(
        _ changes: [(device: SimulatedDevice, state: DeviceState?)],
        by request: @escaping @Sendable () async throws -> Bool,
    ) {
        let devices = changes.map(\.device)
        for (device, state) in changes {
            device.begin(state, at: self.scheduler.now)
            guard self.forgottenUsers.contains(where: { $0.mayRemove(device, state, at: self.scheduler.now) }) else {
                continue
            }
            device.mayBeRemoved(at: self.scheduler.now)
        }
        let (fleet, losses) = (self.fleet, self.losses)
        fleet.begin(fleet.outside) {
            let isReplicated = try await request()
            let writes = isReplicated && self.isLongReplicated ? nil : fleet.writes
            for device in devices { device.end(at: self.scheduler.now, writes: writes) }
            // The answer may have been written on one master before another one forgot what it speaks of. Over HTTP it may also speak of what
            // was written to the same one before: nobody compares servers there.
            guard self.plan.masters > 1 || devices.contains(where: \.usesHTTP), self.losses > losses else { return }
            for device in devices { device.forget(after: -1, of: 0) }
        }
    }

    /// Imports some devices of an app anew, each with a change.
    func importDevices(_ random: inout SeededGenerator) {
        let app = self.fleet.apps[Int.random(in: 0..<self.fleet.apps.count, using: &random)]
        let able = self.devices.filter { $0.app == app && $0.usesHTTP && self.canChange($0) }
        let changes = able.prefix(Self.importedMax).map { device in
            let user = Self.users[Int.random(in: 0..<Self.users.count, using: &random)]
            let token = random.chance(0.5) ? device.latest?.token : nil
            let state = DeviceState(
                token: token ?? self.newToken(device.provider),
                user: random.chance(0.8) ? user : "",
                topics: Self.someTopics(&random)
            )
            return (device: device, state: state)
        }
        guard !changes.isEmpty else { return }
        self.change(changes.map { ($0.device, $0.state) }) {
            let isLate = try await self.backend.importDevices(changes, of: app)
            self.noteLateness(isLate, of: changes.map(\.device))
            return self.plan.hasReplica
        }
    }

    /// Forgets a user of an app, with all devices.
    func forgetUser(_ random: inout SeededGenerator) {
        let apps = self.fleet.apps
        let app = apps[Int.random(in: 0..<apps.count, using: &random)]
        let user = Self.users[Int.random(in: 0..<Self.users.count, using: &random)]
        let now = self.scheduler.now
        guard !self.forgottenUsers.contains(where: { $0.app == app && $0.user == user && now < $0.end }) else { return }
        // Times of requests over HTTP are by Redis' clock, those of the backend by its own: a device that used both would know no order.
        let usesHTTP = self.devices.allSatisfy { $0.app != app || $0.usesHTTP }
        let forgetting = SimulatedForgetting(app: app, user: user, usesHTTP: usesHTTP)
        self.forgottenUsers.append(forgetting)
        // One master may have forgotten what leads from the user to the device, and another one the device not.
        let isFound = self.plan.masters == 1 || !self.plan.hasCopy
        let removed = self.devices.filter { device in
            let states = device.states(from: now, to: now)
            guard states.contains(where: { forgetting.mayRemove(device, $0, at: now) }) else { return false }
            let isUsers = states.allSatisfy { $0.map { $0.user == user } ?? true }
            if isUsers, isFound, self.canChange(device) { return true }
            device.mayBeRemoved(at: now)
            return false
        }
        let waits = self.drawWaiting()
        self.change(removed.map { ($0, nil) }) {
            let isReplicated: Bool
            if usesHTTP {
                let isLate = try await self.backend.forget(user: user, of: app)
                self.noteLateness(isLate, of: removed)
                if isLate { forgetting.end = self.scheduler.now + Self.lateSecondsMax * Self.second }
                isReplicated = self.plan.hasReplica
            } else {
                let action = RegistrationCommand.Action.deleteUser(user)
                isReplicated = try await self.request(
                    action,
                    otherwise: action,
                    about: user,
                    of: app,
                    waitsForReplica: waits
                )
            }
            if forgetting.end == .max { forgetting.end = self.scheduler.now }
            return isReplicated
        }
    }

    /// Notes that an attempt of a request over HTTP may be carried out later.
    private func noteLateness(_ isLate: Bool, of devices: [SimulatedDevice]) {
        guard isLate else { return }
        for device in devices { device.quietUntil = self.scheduler.now + Self.lateSecondsMax * Self.second }
    }

    /// True when a device may ask for something new.
    func canChange(_ device: SimulatedDevice) -> Bool {
        !device.isChanging && device.quietUntil <= self.scheduler.now
    }

    /// Asks for a change through the register stream until it is accepted.
    ///
    /// - Parameters:
    ///   - whole: what is asked for when there is no such device: it was pruned, or Redis has forgotten it.
    ///   - subject: the id of the device or user that it is about.
    /// - Returns: true when a replica has the change.
    func request(
        _ action: RegistrationCommand.Action,
        otherwise whole: RegistrationCommand.Action,
        about subject: String,
        of app: String,
        waitsForReplica: Bool,
    ) async throws -> Bool {
        let fleet = self.fleet
        let wall = self.scheduler.now + SimulatedFleet.wallOffset - Self.backendDelaySeconds * Self.second
        let asOf = UnixMilliseconds(wall / 1_000_000)
        var action = action
        while true {
            let ticket = waitsForReplica ? fleet.barrier.ticket() : nil
            let answer = try await self.backend.answer(to: action, about: subject, of: app, asOf: asOf)
            if case .refused(let code) = answer {
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
    /// - Parameters:
    ///   - whole: what is asked for when there is no such device.
    ///   - former: the user of the device until now.
    /// - Returns: true when a replica has the change, if there is one.
    private func requestOverHTTP(
        _ action: RegistrationCommand.Action,
        otherwise whole: RegistrationCommand.Action,
        _ device: SimulatedDevice,
        from former: String,
    ) async throws -> Bool {
        let (answer, isLate) = try await self.backend.answer(
            toHTTP: action,
            of: device,
            from: former,
            otherwise: whole
        )
        if case .refused(let status) = answer {
            self.failures.append("\(device.name) was refused over HTTP: \(status)")
        }
        self.noteLateness(isLate, of: [device])
        return self.plan.hasReplica
    }

    /// True when everybody knows that each master has a replica, and waits for it.
    var isLongReplicated: Bool {
        self.fleet.masters.allSatisfy { master in
            guard let copy = master.server.copy, copy.isReplica else { return false }
            return self.scheduler.now - master.copySince > Int64(ReplicaBarrier.replicaNewsLifetime / .nanoseconds(1))
        }
    }

    func changeSomeDevice(_ event: SimulationPlan.Event, _ random: inout SeededGenerator) {
        let device = self.devices[Int.random(in: 0..<self.devices.count, using: &random)]
        guard self.canChange(device) else { return }
        let user = Self.users[Int.random(in: 0..<Self.users.count, using: &random)]
        guard var state = device.latest else {
            return self.change(
                device,
                to: DeviceState(token: self.newToken(device.provider), user: user, topics: [Self.topics[0]])
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
        case .topic:
            let topic = random.chance(0.5) ? 0 : Int.random(in: 1..<Self.topics.count, using: &random)
            state.topics = Self.topics.filter { state.topics.contains($0) != ($0 == Self.topics[topic]) }
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
        // A part changes another state than is thought when Redis has forgotten a change before it. Over HTTP nobody is told that a device is not
        // there of which something was to be removed, and an operator does not bring it back then.
        let isBroughtBack = device.usesHTTP && self.plan.events[.misjudge] != nil
        let isWhole = self.plan.hasCopy || isBroughtBack || random.chance(0.5)
        self.change(device, to: state, by: isWhole ? nil : device.request(for: event, state))
    }
}
