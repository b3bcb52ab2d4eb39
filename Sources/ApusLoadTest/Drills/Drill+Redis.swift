internal import ApusCore
internal import ApusTestKit

extension Drill {
    static let redisRestarted = Drill(
        "redis-restarted",
        "kill -9 for Redis in the middle of a send; it comes back with its append-only file."
    ) { run in
        let terms = DrillTerms(devices: run.sized(6_000, 100_000), dispatchers: 2, isAppendOnly: true)
        return try await DrillStage.with(run, terms) { stage in
            try await stage.publish()
            for round in 1...run.sized(1, 3) {
                try await stage.awaitShare(0.25 * Double(round))
                // Whatever was sent and could not be written may go out again, once for each dispatcher.
                stage.report.bound += stage.boundOfOneKill * terms.dispatchers
                await stage.laboratory.redis.kill()
                try await Task.sleep(for: .seconds(run.sized(1, 10)))
                let before = stage.acceptedCount
                try await Task.sleep(for: .milliseconds(500))
                let after = stage.acceptedCount
                stage.report.require(after == before, "\(after - before) were sent while Redis was away")
                try await stage.laboratory.redis.restart()
            }
            try await stage.conclude()
        }
    }

    static let redisPaused = Drill(
        "redis-paused",
        "SIGSTOP for Redis, five seconds: nobody's work is taken from the living."
    ) { run in
        let terms = DrillTerms(devices: run.sized(6_000, 100_000), dispatchers: 2)
        return try await DrillStage.with(run, terms) { stage in
            try await stage.publish()
            try await stage.awaitShare(0.33)
            stage.laboratory.redis.suspend()
            run.say("Redis is frozen")
            try await Task.sleep(for: .seconds(2))
            let before = stage.acceptedCount
            try await Task.sleep(for: .seconds(3))
            let after = stage.acceptedCount
            stage.laboratory.redis.resume()
            stage.report.require(after == before, "\(after - before) were sent two seconds after Redis froze")
            try await stage.awaitShare(0.9)
            let claims = try await stage.claims()
            stage.report.figures["takeovers"] = .integer(claims)
            stage.report.require(claims == 0, "\(claims) entries were taken from the living")
            try await stage.conclude()
        }
    }
}
