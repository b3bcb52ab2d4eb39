internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusStreams

extension Drill {
    static let noFault = Drill("no-fault", "Two dispatchers, nothing goes wrong: nobody twice.") { run in
        let terms = DrillTerms(
            devices: run.sized(5_000, 100_000),
            dispatchers: 2,
            delayMilliseconds: 0,
            deadShare: 0.02
        )
        return try await DrillStage.with(run, terms) { stage in
            try await stage.publish()
            try await stage.awaitShare(0.9)
            stage.report.require(try await stage.claims() == 0, "something was taken over from the living")
            try await stage.conclude()
        }
    }

    static let publishedThrice = Drill(
        "published-thrice",
        "The same command, three times over, at its home and elsewhere: sent once."
    ) { run in
        let terms = DrillTerms(devices: run.sized(2_000, 100_000), delayMilliseconds: 0)
        return try await DrillStage.with(run, terms) { stage in
            let laboratory = stage.laboratory
            try await stage.publish()
            // A publisher that does not know the function writes into any mailbox.
            let command = try laboratory.command(.topic("news"), id: DrillStage.send).encode()
            let other = try laboratory.command(.devices([stage.devices[0].id]), id: "direct").encode()
            for shard in 0..<laboratory.installation.keyspace.queueShards {
                let keys = laboratory.installation.streams.keys(shard: shard)
                for bytes in [command, other, other] {
                    let entry = RedisCommand("XADD", .text(keys.mailbox(.bulk)), "*", "m", .bytes(bytes))
                    _ = try await laboratory.client.send(entry, on: keys.tag)
                }
            }
            try await stage.conclude()
            let direct = laboratory.audit("direct", stage.devices.prefix(1))
            stage.report.add(direct)
            stage.report.require(direct.isExact, "the direct send: \(direct)")
        }
    }

    static let terminated = Drill(
        "terminated",
        "SIGTERM for one dispatcher of two under load: the other goes on, nobody twice."
    ) { run in
        let terms = DrillTerms(devices: run.sized(6_000, 100_000), dispatchers: 2)
        return try await DrillStage.with(run, terms) { stage in
            try await stage.publish()
            var longest = 0.0
            for round in 1...run.sized(1, 4) {
                try await stage.awaitShare(Double(round) / Double(run.sized(3, 6)))
                let start = ContinuousClock.now
                try await stage.terminate(stage.dispatchers[0])
                longest = max(longest, (ContinuousClock.now - start) / .seconds(1))
                try await stage.startDispatcher()
            }
            stage.report.figures["drain_seconds"] = DrillReport.number(longest, 3)
            try await stage.conclude()
        }
    }

    static let dispatcherKilled = Drill(
        "dispatcher-killed",
        "kill -9 for one dispatcher of two in the middle of a send: the other takes over."
    ) { run in
        let terms = DrillTerms(devices: run.sized(6_000, 100_000), dispatchers: 2)
        return try await DrillStage.with(run, terms) { stage in
            try await stage.publish()
            try await stage.awaitShare(0.33)
            let start = ContinuousClock.now
            let victim = stage.dispatchers[0]
            await stage.kill(victim)
            try await stage.awaitTakeover(of: victim, since: start)
            try await stage.conclude()
        }
    }

    static let dispatcherKilledAlone = Drill(
        "dispatcher-killed-alone",
        "kill -9 for the only dispatcher in the middle of a send: the next one takes over."
    ) { run in
        let terms = DrillTerms(devices: run.sized(6_000, 100_000))
        return try await DrillStage.with(run, terms) { stage in
            try await stage.publish()
            try await stage.awaitShare(0.33)
            let start = ContinuousClock.now
            let victim = stage.dispatchers[0]
            await stage.kill(victim)
            try await stage.startDispatcher()
            try await stage.awaitTakeover(of: victim, since: start)
            try await stage.conclude()
        }
    }

    static let zombie = Drill(
        "zombie",
        "One dispatcher of two freezes, loses its work, and thaws: it must not disturb what the other wrote."
    ) { run in
        let terms = DrillTerms(devices: run.sized(6_000, 100_000), dispatchers: 2)
        return try await DrillStage.with(run, terms) { stage in
            try await stage.publish()
            try await stage.awaitShare(0.25)
            let frozen = stage.dispatchers[0]
            // Frozen, it leaves what a kill leaves. Thawed, it sends nothing before it has heard whether it still owns its work.
            stage.report.bound = stage.boundOfOneKill
            let start = ContinuousClock.now
            frozen.freeze()
            try await stage.awaitTakeover(of: frozen, since: start)
            // Long enough that the other is at work on what was taken over.
            try await Task.sleep(for: .milliseconds(run.sized(100, 1_000)))
            frozen.thaw()
            try await stage.conclude()
        }
    }

    static let feedbackKilled = Drill(
        "feedback-killed",
        "kill -9 for feedback with outcomes in hand: each is counted once, and the dead are pruned."
    ) { run in
        let terms = DrillTerms(devices: run.sized(6_000, 100_000), deadShare: 0.1)
        return try await DrillStage.with(run, terms) { stage in
            try await stage.publish()
            for round in 1...run.sized(2, 5) {
                try await stage.awaitShare(0.15 * Double(round))
                let start = ContinuousClock.now
                let victim = stage.feedback
                await victim.kill()
                try await stage.restartFeedback()
                try await stage.awaitTakeover(of: victim, since: start)
            }
            try await stage.conclude()
            let receipts = try await stage.laboratory.receipts(of: DrillStage.send).filter { $0.kind == .final }
            stage.report.require(!receipts.isEmpty, "there is no final receipt")
            stage.report.require(
                Set(receipts.map(\.id)).count <= 1,
                "\(Set(receipts.map(\.id)).count) different final receipts",
            )
        }
    }
}
