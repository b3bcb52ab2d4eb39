internal import ApusCommand
internal import ApusCore
internal import ApusSimulator
internal import ApusStreams
internal import Logging

/// Lets providers do something wrong, and an operator mend what comes of it.
extension Simulation {
    /// The share of the answers that are wrong while a provider misjudges tokens.
    static let misjudgedShare = 0.3...1.0
    /// The words by which providers call tokens dead, and bad: those that each has.
    static let misjudgements: [(route: FaultRoute, words: [String])] = [
        (.apns, ["Unregistered", "BadDeviceToken"]),
        (.fcm, ["UNREGISTERED", "SENDER_ID_MISMATCH"]),
        (.webpush, ["gone"]),
    ]
    /// The seconds for which a provider misjudges tokens, and those until an operator has noticed.
    static let misjudgingSeconds = 0.5...10.0
    static let noticeSeconds = 0.5...15.0
    /// The seconds between two looks of an operator once all faults have ended.
    static let watchSeconds = 20.0
    /// The times that an operator asks for something until it is done.
    static let operatorAttemptsMax = 30

    func setProviderFaults(_ random: inout SeededGenerator) {
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
            if let word = self.misjudging[route] {
                let left =
                    1 - rates.tooManyRequests - rates.unavailable - rates.internalError - rates.silence - rates.drop
                let share = (left - rates.refusal) * Double.random(in: Self.misjudgedShare, using: &random)
                rates.reasons = [ReasonRate(word, share)]
            }
            plan[route] = rates
        }
        self.fleet.simulator.setFaults(plan)
    }

    /// Makes a provider call most tokens bad, or dead, for a while; then an operator brings their devices back.
    func misjudge(_ random: inout SeededGenerator) {
        let (route, words) = Self.misjudgements[Int.random(in: 0..<Self.misjudgements.count, using: &random)]
        let word = words[Int.random(in: 0..<words.count, using: &random)]
        let seconds = Double.random(in: Self.misjudgingSeconds, using: &random)
        let notice = Double.random(in: Self.noticeSeconds, using: &random)
        guard self.misjudging[route] == nil else { return }
        self.note(.misjudge)
        self.misjudging[route] = word
        self.setProviderFaults(&random)
        var later = random
        self.after(seconds) {
            guard !self.isHealing else { return }
            self.misjudging[route] = nil
            self.setProviderFaults(&later)
            self.after(notice) { self.fleet.begin(self.fleet.outside) { try await self.restoreDevices() } }
        }
    }

    /// Lets all routes go on that the guard has stopped, and brings back all devices that were removed on a provider's word.
    func restoreDevices() async throws {
        let always = UnixMilliseconds(0)..<Limits.timeMax
        let (installation, someone) = (self.fleet.installation, Operator("simulation", through: .commandLine))
        for attempt in 1...Self.operatorAttemptsMax {
            do {
                for route in self.routes {
                    let settled = try await Quarantines(installation)
                        .settle(route.name, .restore, resuming: true, by: someone)
                    let restored = try await DeviceRestoration(installation)
                        .restore(route.name, removedIn: always, isTrial: false)
                    self.fleet.logger.notice("restored: \(settled) \(restored)")
                    for failed in settled.map(\.failed) + restored.map(\.failed) where failed > 0 {
                        throw SimulationFailure("\(failed) devices of \(route.name) were not restored")
                    }
                }
                return
            } catch {
                guard attempt < Self.operatorAttemptsMax else { throw error }
                try await Task.sleep(for: .seconds(1))
            }
        }
    }

    /// Lets an operator look again and again whether the guard has stopped a route: it may for what providers have said before.
    func watchRoutes() {
        self.after(Self.watchSeconds) {
            self.fleet.begin(self.fleet.outside) { try await self.restoreDevices() }
            self.watchRoutes()
        }
    }

    /// Brings back all devices once nothing may be removed any more.
    func restoreDevicesAtEnd() throws {
        guard self.plan.events[.misjudge] != nil else { return }
        try self.fleet.perform("the restoration of devices", in: self.fleet.outside, within: 120) {
            try await self.restoreDevices()
        }
    }
}
