internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusStreams
internal import ApusTerminal

extension Drill {
    static let noFault = Drill("no-fault", "Two dispatchers without a fault: each recipient is sent to once.") { run in
        let terms = DrillSettings(
            devices: run.sized(5_000, 100_000),
            dispatchers: 2,
            delayMilliseconds: 0,
            deadShare: 0.02
        )
        return try await DrillEnvironment.with(run, terms) { environment in
            try await environment.publish()
            try await environment.waitForShare(0.9)
            environment.report.require(try await environment.claims() == 0, "something was taken over from the living")
            try await environment.finishAndAudit()
        }
    }

    static let publishedThrice = Drill(
        "published-thrice",
        "The same command, three times over, at its home and elsewhere: sent once."
    ) { run in
        let terms = DrillSettings(devices: run.sized(2_000, 100_000), delayMilliseconds: 0)
        return try await DrillEnvironment.with(run, terms) { environment in
            let cluster = environment.cluster
            try await environment.publish()
            // A publisher that does not use the function writes into any mailbox.
            let command = try cluster.command(.topic("news"), id: DrillEnvironment.send).encode()
            let other = try cluster.command(.devices([environment.devices[0].id]), id: "direct").encode()
            for shard in 0..<cluster.installation.keyspace.queueShards {
                let keys = cluster.installation.streams.keys(shard: shard)
                for bytes in [command, other, other] {
                    let entry = RedisCommand("XADD", .text(keys.mailbox(.bulk)), "*", "m", .bytes(bytes))
                    _ = try await cluster.client.send(entry, on: keys.tag)
                }
            }
            try await environment.finishAndAudit()
            let direct = cluster.audit("direct", environment.devices.prefix(1))
            environment.report.add(direct)
            environment.report.require(direct.isExact, "the direct send: \(direct)")
        }
    }

    static let terminated = Drill(
        "terminated",
        "SIGTERM for one dispatcher of two under load: the other goes on, and each recipient is sent to once."
    ) { run in
        let terms = DrillSettings(devices: run.sized(6_000, 100_000), dispatchers: 2)
        return try await DrillEnvironment.with(run, terms) { environment in
            try await environment.publish()
            var longest = 0.0
            for round in 1...run.sized(1, 4) {
                try await environment.waitForShare(Double(round) / Double(run.sized(3, 6)))
                let start = ContinuousClock.now
                try await environment.terminate(environment.dispatchers[0])
                longest = max(longest, (ContinuousClock.now - start) / .seconds(1))
                try await environment.startDispatcher()
            }
            environment.report.figures["drain_seconds"] = NumberText.json(longest, 3)
            try await environment.finishAndAudit()
        }
    }

    static let dispatcherKilled = Self.killingOne(
        of: 2,
        "dispatcher-killed",
        "kill -9 for one dispatcher of two in the middle of a send: the other takes over."
    )

    static let dispatcherKilledAlone = Self.killingOne(
        of: 1,
        "dispatcher-killed-alone",
        "kill -9 for the only dispatcher in the middle of a send: the next one takes over."
    )

    /// A drill that kills one of so many dispatchers, and starts another where none is left.
    private static func killingOne(of dispatchers: Int, _ name: String, _ abstract: String) -> Drill {
        Drill(name, abstract) { run in
            let terms = DrillSettings(devices: run.sized(6_000, 100_000), dispatchers: dispatchers)
            return try await DrillEnvironment.with(run, terms) { environment in
                try await environment.publish()
                try await environment.waitForShare(0.33)
                let start = ContinuousClock.now
                let victim = environment.dispatchers[0]
                await environment.kill(victim)
                if dispatchers == 1 { try await environment.startDispatcher() }
                try await environment.waitForTakeover(of: victim, since: start)
                try await environment.finishAndAudit()
            }
        }
    }

    static let zombie = Drill(
        "zombie",
        "One dispatcher of two freezes, loses its work, and thaws: it must not disturb what the other wrote."
    ) { run in
        let terms = DrillSettings(devices: run.sized(6_000, 100_000), dispatchers: 2)
        return try await DrillEnvironment.with(run, terms) { environment in
            try await environment.publish()
            try await environment.waitForShare(0.25)
            let frozen = environment.dispatchers[0]
            // A frozen dispatcher leaves what a killed one leaves. Resumed, it sends nothing before it has checked that
            // it still owns its work.
            environment.report.bound = environment.boundOfOneKill
            let start = ContinuousClock.now
            frozen.freeze()
            try await environment.waitForTakeover(of: frozen, since: start)
            // The wait is long enough for the other one to work on what it took over.
            try await Task.sleep(for: .milliseconds(run.sized(100, 1_000)))
            frozen.thaw()
            try await environment.finishAndAudit()
        }
    }

    static let feedbackKilled = Drill(
        "feedback-killed",
        "kill -9 for feedback with outcomes in hand: each is counted once, and the dead are pruned."
    ) { run in
        let terms = DrillSettings(devices: run.sized(6_000, 100_000), deadShare: 0.1)
        return try await DrillEnvironment.with(run, terms) { environment in
            try await environment.publish()
            for round in 1...run.sized(2, 5) {
                try await environment.waitForShare(0.15 * Double(round))
                let start = ContinuousClock.now
                let victim = environment.feedback
                await victim.kill()
                try await environment.restartFeedback()
                try await environment.waitForTakeover(of: victim, since: start)
            }
            try await environment.finishAndAudit()
            let receipts = try await environment.cluster.receipts(of: DrillEnvironment.send).filter {
                $0.kind == .final
            }
            environment.report.require(!receipts.isEmpty, "there is no final receipt")
            environment.report.require(
                Set(receipts.map(\.id)).count <= 1,
                "\(Set(receipts.map(\.id)).count) different final receipts",
            )
        }
    }
}
