internal import ApusCore
internal import ApusSimulator
internal import ApusTerminal
internal import ApusTestKit

extension Drill {
    static let goAway = Drill("goaway", "All providers end every connection after a second, with GOAWAY.") { run in
        let terms = DrillSettings(devices: run.sized(6_000, 100_000), delayMilliseconds: 150) { plan in
            plan.apns.goAwayEveryMilliseconds = 1_000
            plan.fcm.goAwayEveryMilliseconds = 1_000
            plan.webpush.goAwayEveryMilliseconds = 1_000
        }
        return try await DrillEnvironment.with(run, terms) { environment in
            try await environment.publish()
            try await environment.finishAndAudit { try await environment.cluster.makeRetriesDue() }
            let goAways = environment.cluster.simulator.ledger.snapshot.summary.goAways
            environment.report.figures["go_aways"] = .integer(goAways)
            environment.report.require(goAways >= 2, "only \(goAways) connections were ended")
        }
    }

    static let wrongCertificate = Drill(
        "wrong-certificate",
        "Apple ends every connection with GOAWAY because of our certificate, until another one is in its place."
    ) { run in
        var terms = DrillSettings(devices: run.sized(4_000, 100_000)) { plan in
            plan.apns.goAwayAfterRequests = 1
            plan.apns.goAway.reason = "BadCertificateEnvironment"
            plan.apns.goAway.lastStream = .none
        }
        terms.showsCertificate = true
        return try await DrillEnvironment.with(run, terms) { environment in
            let ledger = environment.cluster.simulator.ledger
            let start = ContinuousClock.now
            try await environment.publish()
            try await environment.waitForAccepted(environment.devices.count { $0.provider == .fcm }, .fcm)
            try await eventually("Apple has said what is wrong") { ledger.snapshot.summary.goAways >= 1 }
            // The wait is long enough to see a storm of connections, if there were one.
            try await Task.sleep(for: .seconds(run.sized(2, 20)))
            let goAways = ledger.snapshot.summary.goAways
            environment.report.figures["go_aways"] = .integer(goAways)
            // Each connection of two gateways, for express and for bulk, is refused once; then the route is stopped,
            // and Apple is asked whether it accepts the certificate now, at first after half a minute or more.
            let most = 4 + Int((ContinuousClock.now - start) / .seconds(30))
            environment.report.require(goAways <= most, "\(goAways) connections were tried against Apple's word")
            let early = ledger.snapshot.timeline.accepted(.apns, from: 0)
            environment.report.require(early == 0, "\(early) were accepted in spite of the certificate")
            environment.setFaults { plan in plan.apns = FaultRates() }
            run.say("another certificate, after \(goAways) attempts")
            try await environment.renewCertificate()
            try await environment.finishAndAudit { try await environment.cluster.makeRetriesDue() }
        }
    }

    static let providerStalled = Drill(
        "provider-stalled",
        "Apple takes every request and answers none, until its connections break; Google is well."
    ) { run in
        let terms = DrillSettings(devices: run.sized(4_000, 100_000))
        return try await DrillEnvironment.with(run, terms) { environment in
            try await environment.publish()
            try await environment.waitForShare(0.2)
            environment.setFaults { $0.apns.silence = 1 }
            run.say("Apple answers no more")
            try await environment.waitForAccepted(environment.devices.count { $0.provider == .fcm }, .fcm)
            run.say("Google has all of its own")
            // The long form also outlasts the timeout of a request.
            try await Task.sleep(for: .seconds(run.sized(0, 40)))
            environment.setFaults { _ in }
            try await environment.cluster.simulator.setListening(false, at: .apns)
            try await environment.cluster.simulator.setListening(true, at: .apns)
            run.say("Apple is back")
            // Notifications that Apple accepted and never answered may be sent again.
            environment.report.bound = environment.cluster.audit(DrillEnvironment.send, environment.devices).unanswered
            environment.report.figures["unanswered"] = .integer(environment.report.bound)
            try await environment.finishAndAudit { try await environment.cluster.makeRetriesDue() }
        }
    }

    static let providerDown = Drill(
        "provider-down",
        "Google refuses connections, a minute in the long form; Apple does not notice."
    ) { run in
        let terms = DrillSettings(devices: run.sized(6_000, 100_000), delayMilliseconds: 20)
        return try await DrillEnvironment.with(run, terms) { environment in
            try await environment.cluster.simulator.setListening(false, at: .fcm)
            let start = ContinuousClock.now
            try await environment.publish()
            let patience = run.sized(20, 60)
            let apple = environment.devices.count { $0.provider == .apns }
            do {
                try await eventually("Apple has all", timeout: .seconds(patience)) {
                    environment.cluster.simulator.ledger.snapshot.timeline.accepted(.apns, from: 0) >= apple
                }
                environment.report.figures["apns_seconds"] =
                    NumberText.json((ContinuousClock.now - start) / .seconds(1), 3)
            } catch is EventuallyTimedOut {
                environment.report.complaints.append("Apple did not get all within \(patience) s while Google was away")
            }
            let rest = Duration.seconds(run.sized(3, 60)) - (ContinuousClock.now - start)
            if rest > .zero { try await Task.sleep(for: rest) }
            let google = environment.cluster.simulator.ledger.snapshot.timeline.accepted(.fcm, from: 0)
            environment.report.require(google == 0, "\(google) were accepted by a provider that is away")
            try await environment.cluster.simulator.setListening(true, at: .fcm)
            run.say("Google is back")
            try await environment.finishAndAudit { try await environment.cluster.makeRetriesDue() }
        }
    }

    static let quotaStorm = Drill(
        "quota-storm",
        "429 from Google for the whole project with Retry-After, and from Apple for some devices."
    ) { run in
        try await Self.storm(run, devicesOf: .apns) { plan in
            plan.fcm.tooManyRequests = 1
            plan.apns.tooManyRequests = 0.02
            plan.retryAfter = .seconds(2)
        }
    }

    static let unavailableStorm = Drill("unavailable-storm", "503 from all providers, for everything.") { run in
        try await Self.storm(run) { plan in
            plan.fcm.unavailable = 1
            plan.apns.unavailable = 1
            plan.webpush.unavailable = 1
            plan.retryAfter = .seconds(2)
        }
    }

    /// Refuses requests for a while; deferred ones must wait in Redis, where they can be counted.
    ///
    /// - Parameter devicesOf: the provider of which the storm affects only a few devices: all others must be reached during it.
    private static func storm(
        _ run: DrillRun,
        devicesOf provider: Provider? = nil,
        _ faults: @escaping @Sendable (inout FaultPlan) -> Void,
    ) async throws -> DrillReport {
        let terms = DrillSettings(devices: run.sized(4_000, 100_000), delayMilliseconds: run.sized(50, 20))
        return try await DrillEnvironment.with(run, terms) { environment in
            try await environment.publish()
            try await environment.waitForShare(0.2)
            environment.setFaults(faults)
            run.say("the storm begins")
            try await Task.sleep(for: .seconds(run.sized(3, 20)))
            if let provider {
                let devices = environment.devices.count { $0.provider == provider }
                try await environment.waitForAccepted(devices * 19 / 20, provider)
            }
            let summary = environment.cluster.simulator.ledger.snapshot.summary
            let waiting = try await environment.cluster.waitingForTheirTime()
            environment.report.figures["refused"] = .integer(summary.faults.values.reduce(0, +))
            environment.report.figures["waiting"] = .integer(waiting)
            environment.report.require(waiting > 0, "nothing waits for its time in Redis")
            environment.setFaults { _ in }
            run.say("the storm is over, \(waiting) retry units wait")
            try await environment.finishAndAudit { try await environment.cluster.makeRetriesDue() }
        }
    }
}
