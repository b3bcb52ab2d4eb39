internal import ApusCore
internal import ApusSimulator
internal import ApusStreams

extension Drill {
    static let twentyKills = Drill(
        "twenty-kills",
        "kill -9 for one dispatcher of two at random moments, again and again, for two windows."
    ) { run in
        var total = DrillReport(name: run.drill.name, size: run.size, seed: run.seed)
        var windows: [JSONValue] = []
        for window in run.sized([100], [100, 400]) {
            // The send is slow enough to outlast the kills.
            let terms = Self.terms(
                run,
                devices: run.sized(6_000, 100_000),
                window: window,
                perSecond: run.sized(800, 1_300),
            )
            let report = try await Self.kills(run, terms, count: run.sized(3, 20))
            total.devices = report.devices
            total.lost += report.lost
            total.repeated += report.repeated
            total.strangers += report.strangers
            total.bound += report.bound
            total.takeoverSeconds += report.takeoverSeconds
            total.planned += report.planned
            total.accepted += report.accepted
            total.ledger.merge(report.ledger) { $0 + $1 }
            total.ratePerSecond = report.ratePerSecond
            total.window = window
            total.flushMilliseconds = report.flushMilliseconds
            total.complaints += report.complaints
            total.worstShareOfBound = max(total.worstShareOfBound, report.worstShareOfBound)
            windows.append(.object(report.json))
        }
        total.figures["windows"] = .array(windows)
        return total
    }

    static let browserKills = Drill(
        "browser-kills",
        "kill -9 for dispatchers, again and again, in a send to browsers mixed with as many phones."
    ) { run in
        // 2,000 browsers, or 100,000.
        let devices = run.sized(4_000, 200_000)
        let terms = Self.terms(
            run,
            devices: devices,
            providers: [.webpush, .apns, .webpush, .fcm],
            window: 100,
            perSecond: run.sized(700, 3_000),
        )
        return try await Self.kills(run, terms, count: run.sized(3, 20))
    }

    /// Returns the settings of two dispatchers that together send so many a second.
    private static func terms(
        _ run: DrillRun,
        devices: Int,
        providers: [Provider] = DrillSettings.providers,
        window: Int,
        perSecond: Int,
    ) -> DrillSettings {
        DrillSettings(
            devices: devices,
            providers: providers,
            dispatchers: 2,
            delayMilliseconds: Int64(window * Set(providers).count * 2 * 1_000 / perSecond),
            window: window,
            leaseMilliseconds: run.sized(500, 1_000),
        )
    }

    /// Kills dispatchers at random moments of a send, and compares the repetitions at each provider with what the kills may cause.
    private static func kills(_ run: DrillRun, _ terms: DrillSettings, count kills: Int) async throws -> DrillReport {
        var moments = SeededGenerator(seed: run.seed)
        return try await DrillEnvironment.with(run, terms) { environment in
            try await environment.publish()
            try await environment.waitForAccepted(1)
            var killedAt: [Int64] = []
            var bounds: [[Provider: Int]] = []
            var isOver = false
            for number in 1...kills {
                try await Task.sleep(for: .milliseconds(Int64.random(in: 50...run.sized(400, 1_500), using: &moments)))
                isOver = try await environment.cluster.ledger(of: DrillEnvironment.send)?.state == .done
                if isOver { break }
                let victim = environment.dispatchers[Int.random(in: 0...1, using: &moments)]
                let start = ContinuousClock.now
                bounds.append(environment.boundsOfOneKill)
                killedAt.append(environment.cluster.clock.nanosecondsSince1970())
                await environment.kill(victim)
                try await environment.startDispatcher()
                try await environment.waitForTakeover(of: victim, since: start)
                run.say("kill \(number) of \(kills), \(environment.acceptedCount) accepted")
            }
            try await environment.finishAndAudit()
            environment.report.require(!isOver, "the send was over after \(killedAt.count) of \(kills) kills")
            environment.report.figures["kills"] = .integer(killedAt.count)
            for provider in Set(terms.providers).sorted() {
                environment.checkRepetitions(at: provider, killedAt, bounds.map { $0[provider] ?? 0 })
            }
        }
    }
}

extension DrillEnvironment {
    /// Compares a provider's repetitions with the bounds of the kills.
    fileprivate func checkRepetitions(at provider: Provider, _ killedAt: [Int64], _ bounds: [Int]) {
        let audit = self.cluster.audit(Self.send, self.devices.filter { $0.provider == provider })
        self.report.require(audit.lost == 0, "\(audit.lost) of \(provider.name) were lost")
        let repeats = killedAt.indices.map { index in
            let end = index + 1 < killedAt.count ? killedAt[index + 1] : .max
            return audit.repeatTimes.count { $0 >= killedAt[index] && $0 < end }
        }
        // The repetitions of a kill may come after the next kills: entries that were taken over wait for their
        // turn, and may be passed on. So repetitions are compared with the bounds of all kills until then.
        var (repeated, bound) = (0, 0)
        for index in repeats.indices {
            repeated += repeats[index]
            bound += bounds[index]
            self.report.worstShareOfBound = max(self.report.worstShareOfBound, Double(repeated) / Double(bound))
            self.report.require(
                repeated <= bound,
                "\(provider.name), after kill \(index + 1): \(repeated) repeated, at most \(bound) may be",
            )
        }
        self.report.figures["\(provider.name)_accepted"] = .integer(
            self.cluster.simulator.ledger.snapshot.timeline.accepted(provider, from: 0)
        )
        self.report.figures["\(provider.name)_repeated_per_kill"] = .array(repeats.map { .integer($0) })
        self.report.figures["\(provider.name)_bound_per_kill"] = .array(bounds.map { .integer($0) })
    }
}
