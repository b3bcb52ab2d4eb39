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
            let report = try await Self.kills(run, window: window)
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

    private static func kills(_ run: DrillRun, window: Int) async throws -> DrillReport {
        let kills = run.sized(3, 20)
        // The send is slow enough to outlast the kills.
        let perSecond = run.sized(800, 1_300)
        let terms = DrillSettings(
            devices: run.sized(6_000, 100_000),
            dispatchers: 2,
            delayMilliseconds: Int64(window * DrillSettings.providers.count * 2 * 1_000 / perSecond),
            window: window,
            leaseMilliseconds: run.sized(500, 1_000),
        )
        var moments = SeededGenerator(seed: run.seed)
        return try await DrillEnvironment.with(run, terms) { environment in
            try await environment.publish()
            try await environment.waitForAccepted(1)
            var killedAt: [Int64] = []
            var bounds: [Int] = []
            var isOver = false
            for number in 1...kills {
                try await Task.sleep(for: .milliseconds(Int64.random(in: 50...run.sized(400, 1_500), using: &moments)))
                isOver = try await environment.cluster.ledger(of: DrillEnvironment.send)?.state == .done
                if isOver { break }
                let victim = environment.dispatchers[Int.random(in: 0...1, using: &moments)]
                let start = ContinuousClock.now
                bounds.append(environment.boundOfOneKill)
                killedAt.append(environment.cluster.clock.nanosecondsSince1970())
                await environment.kill(victim)
                try await environment.startDispatcher()
                try await environment.waitForTakeover(of: victim, since: start)
                run.say("kill \(number) of \(kills), \(environment.acceptedCount) accepted")
            }
            try await environment.conclude()
            environment.report.require(!isOver, "the send was over after \(killedAt.count) of \(kills) kills")
            let times = environment.cluster.audit(DrillEnvironment.send, environment.devices).repeatTimes
            let repeats = killedAt.indices.map { index in
                let end = index + 1 < killedAt.count ? killedAt[index + 1] : .max
                return times.count { $0 >= killedAt[index] && $0 < end }
            }
            // The repetitions of a kill may come after the next kills: entries that were taken over wait for their
            // turn, and may be passed on. So repetitions are compared with the bounds of all kills until then.
            var repeated = 0
            var bound = 0
            for index in repeats.indices {
                repeated += repeats[index]
                bound += bounds[index]
                environment.report.worstShareOfBound = max(
                    environment.report.worstShareOfBound,
                    Double(repeated) / Double(bound)
                )
                guard repeated > bound else { continue }
                environment.report.complaints.append(
                    "after kill \(index + 1): \(repeated) repeated, at most \(bound) may be"
                )
            }
            environment.report.figures["kills"] = .integer(killedAt.count)
            environment.report.figures["repeated_per_kill"] = .array(repeats.map { .integer($0) })
            environment.report.figures["bound_per_kill"] = .array(bounds.map { .integer($0) })
        }
    }
}
