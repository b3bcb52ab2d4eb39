internal import ApusCore
internal import ApusTestKit

extension Drill {
    static let redisRestarted = Drill(
        "redis-restarted",
        "kill -9 for Redis in the middle of a send; it comes back with its append-only file."
    ) { run in
        let terms = DrillSettings(devices: run.sized(6_000, 100_000), dispatchers: 2, isAppendOnly: true)
        return try await DrillEnvironment.with(run, terms) { environment in
            try await environment.publish()
            for round in 1...run.sized(1, 3) {
                try await environment.waitForShare(0.25 * Double(round))
                // Notifications that were sent and could not be recorded may be repeated, once for each dispatcher.
                environment.report.bound += environment.boundOfOneKill * terms.dispatchers
                await environment.cluster.redis.kill()
                try await Task.sleep(for: .seconds(run.sized(3, 10)))
                let before = environment.acceptedCount
                try await Task.sleep(for: .milliseconds(500))
                let after = environment.acceptedCount
                environment.report.require(after == before, "\(after - before) were sent while Redis was away")
                try await environment.cluster.redis.restart()
            }
            try await environment.finishAndAudit()
        }
    }

    static let redisPaused = Drill(
        "redis-paused",
        "SIGSTOP for Redis for five seconds: no work is taken over from a running dispatcher."
    ) { run in
        let terms = DrillSettings(devices: run.sized(6_000, 100_000), dispatchers: 2)
        return try await DrillEnvironment.with(run, terms) { environment in
            try await environment.publish()
            try await environment.waitForShare(0.33)
            environment.cluster.redis.suspend()
            run.say("Redis is frozen")
            try await Task.sleep(for: .seconds(2))
            let before = environment.acceptedCount
            try await Task.sleep(for: .seconds(3))
            let after = environment.acceptedCount
            environment.cluster.redis.resume()
            environment.report.require(after == before, "\(after - before) were sent two seconds after Redis froze")
            try await environment.waitForShare(0.9)
            let claims = try await environment.claims()
            environment.report.figures["takeovers"] = .integer(claims)
            environment.report.require(claims == 0, "\(claims) entries were taken over from a running dispatcher")
            try await environment.finishAndAudit()
        }
    }
}
