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
        // Slow enough that the send outlasts the kills.
        let perSecond = run.sized(800, 1_300)
        let terms = DrillTerms(
            devices: run.sized(6_000, 100_000),
            dispatchers: 2,
            delayMilliseconds: Int64(window * DrillTerms.routes * 2 * 1_000 / perSecond),
            window: window,
            leaseMilliseconds: run.sized(500, 1_000),
        )
        var moments = SeededGenerator(seed: run.seed)
        return try await DrillStage.with(run, terms) { stage in
            try await stage.publish()
            try await stage.awaitAccepted(1)
            var killedAt: [Int64] = []
            var bounds: [Int] = []
            var isOver = false
            for number in 1...kills {
                try await Task.sleep(for: .milliseconds(Int64.random(in: 50...run.sized(400, 1_500), using: &moments)))
                isOver = try await stage.laboratory.ledger(of: DrillStage.send)?.state == .done
                if isOver { break }
                let victim = stage.dispatchers[Int.random(in: 0...1, using: &moments)]
                let start = ContinuousClock.now
                bounds.append(stage.boundOfOneKill)
                killedAt.append(stage.laboratory.clock.nanosecondsSince1970())
                await stage.kill(victim)
                try await stage.startDispatcher()
                try await stage.awaitTakeover(of: victim, since: start)
                run.say("kill \(number) of \(kills), \(stage.acceptedCount) accepted")
            }
            try await stage.conclude()
            stage.report.require(!isOver, "the send was over after \(killedAt.count) of \(kills) kills")
            let times = stage.laboratory.audit(DrillStage.send, stage.devices).repeatTimes
            let repeats = killedAt.indices.map { index in
                let end = index + 1 < killedAt.count ? killedAt[index + 1] : .max
                return times.count { $0 >= killedAt[index] && $0 < end }
            }
            // What a kill repeats may come after the next ones: what was taken over waits for its turn, and may be handed on. So repeats
            // are held against the bounds of all kills until then.
            var repeated = 0
            var bound = 0
            for index in repeats.indices {
                repeated += repeats[index]
                bound += bounds[index]
                stage.report.worstShareOfBound = max(stage.report.worstShareOfBound, Double(repeated) / Double(bound))
                guard repeated > bound else { continue }
                stage.report.complaints.append("after kill \(index + 1): \(repeated) repeated, at most \(bound) may be")
            }
            stage.report.figures["kills"] = .integer(killedAt.count)
            stage.report.figures["repeated_per_kill"] = .array(repeats.map { .integer($0) })
            stage.report.figures["bound_per_kill"] = .array(bounds.map { .integer($0) })
        }
    }
}
