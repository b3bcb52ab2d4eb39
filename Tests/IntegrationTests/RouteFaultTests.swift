import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

/// Tests that a configuration fault stops the route, and costs no recipient the notification.
@Suite(.serialized) struct RouteFaultTests {
    private struct Case: Sendable {
        let provider: Provider
        /// The provider's word, and the route's as it stands in `apus lag`.
        let word: String
        var stands: String?
        /// True when no recipient is refused for the fault: it is certain with the first answer, and may be checked again.
        var isNamed = false
        var kind = RouteFault.Kind.configuration

        func strike(_ simulator: Simulator) {
            guard self.word != "" else {
                let silent = Fault.answer(status: 403, body: "")
                simulator.addScript(FaultScript(route: .apns, count: 1_000_000, fault: silent))
                return
            }
            var plan = FaultPlan()
            if self.provider == .apns {
                plan.apns.reasons = [ReasonRate(self.word, 1)]
            } else {
                plan.fcm.reasons = [ReasonRate(self.word, 1)]
            }
            simulator.setFaults(plan)
        }
    }

    private static let cases = [
        Case(provider: .apns, word: "", stands: "status 403"),
        Case(provider: .fcm, word: "NOT_FOUND"),
        Case(provider: .apns, word: "InvalidProviderToken", isNamed: true, kind: .credential),
        Case(provider: .apns, word: "BadEnvironmentKeyIdInToken", isNamed: true, kind: .credential),
        Case(provider: .apns, word: "Forbidden"),
        Case(provider: .fcm, word: "PERMISSION_DENIED", isNamed: true, kind: .credential),
    ]

    @Test(arguments: Self.cases.indices)
    func
        `D12 D14 D15 D44 D47 D60 A wrong set-up stops its route alone; fixed and resumed, all who were not refused get it`(
            index: Int
        ) async throws
    {
        let fault = Self.cases[index]
        try await Fleet.with { fleet in
            let everybody = try await fleet.register(10_000, providers: [.apns, .fcm], topics: { _ in ["news"] })
            let devices = everybody.filter { $0.provider == fault.provider }
            let others = everybody.count - devices.count
            let streams = fleet.installation.streams
            let route = Route(app: try AppID(Fleet.app), provider: fault.provider, environment: .production)
            let number = try await streams.routes.number(of: route)
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            fault.strike(fleet.simulator)
            try await fleet.send(.topic("news"), id: "wrong")
            let word = fault.stands ?? fault.word
            try await eventually("the route is stopped", timeout: .seconds(60)) {
                try await streams.routes.state(of: number).stop == .byFault(RouteFault(fault.kind, word))
            }
            try await eventually("the other provider's go on", timeout: .seconds(60)) {
                fleet.accepted(of: "wrong").count == others
            }
            let gauge = "apus_feedback_faulty_routes"
            try await eventually("the metric rises", timeout: .seconds(60)) { try await feedback.metric(gauge) == 1 }
            // Every caller that asks is told why.
            let routes = try fleet.apus("lag").json["routes"] as? [[String: Any]]
            let row = routes?.first { $0["route"] as? String == "\(route)" }
            #expect(row?["paused_by"] as? String == fault.kind.rawValue && row?["paused_for"] as? String == word)
            // Sends that come meanwhile wait as well.
            try await fleet.send(.devices([devices[0].id]), id: "late", lane: .express)
            // Only requests that were on the wire when the first answer came, and not the audience.
            let seen = fleet.simulator.ledger.snapshot.summary.count(fault.provider == .apns ? .apns : .fcm)
            #expect(seen < 2_500, "\(seen) requests before the route stopped")
            let before = try #require(try await fleet.ledger(of: "wrong"))
            let refused = before.total(.rejected)
            #expect(fault.isNamed ? refused == 0 : (1..<100).contains(refused), "refused: \(refused)")
            #expect(before.total(.failed) == 0 && before.state == .running)

            fleet.simulator.clearFaults()
            let resumed = try fleet.apus("resume", "--route", "\(route)")
            #expect(resumed.code == 0)
            let ledger = try await fleet.completion(of: "wrong")
            try await eventually("the late one's publisher is told", timeout: .seconds(60)) {
                try await fleet.receipts(of: "late").contains { $0.kind == .final }
            }
            #expect(fleet.accepted(of: "late") == [devices[0].token: 1])
            let accepted = fleet.accepted(of: "wrong")
            #expect(ledger.planned == 10_000 && ledger.total(.rejected) < 100)
            #expect(ledger.total(.accepted) + ledger.total(.rejected) == 10_000)
            #expect(UInt64(accepted.count) == ledger.total(.accepted) && accepted.values.allSatisfy { $0 == 1 })
            #expect(try await !streams.routes.state(of: number).isPaused)
            #expect(try await fleet.deleted(everybody) == 0)
            try await eventually("the metric falls", timeout: .seconds(60)) { try await feedback.metric(gauge) == 0 }
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test(arguments: ["BadTopic", "TopicDisallowed", "MissingTopic"])
    func `D7 A topic that Apple refuses waits alone; its recipients get the notification when it is accepted`(
        word: String
    )
        async throws
    {
        try await Fleet.with { fleet in
            let readers = try await fleet.register(1_000, providers: [.apns], topics: { _ in ["news"] })
            let app = try AppID(Fleet.app)
            let callees = (0..<600).map {
                ("callee-\($0)", "f0f0f0f0" + String(repeating: "0", count: 50) + "\(100_000 + $0)")
            }
            for (id, token) in callees {
                var registration = DeviceRegistration(device: id, provider: .apns, token: token)
                registration.tokenKind = .voip
                registration.topics = ["calls"]
                _ = try await fleet.installation.store.register(app, registration)
            }
            let streams = fleet.installation.streams
            let route = Route(app: app, provider: .apns, environment: .production)
            let number = try await streams.routes.number(of: route)
            let topic = try #require(SimulatedApp.demo.bundleID) + ".voip"
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let script = FaultScript(route: .apns, pathContains: "f0f0f0f0", count: 1_000_000, fault: .reason(word))
            fleet.simulator.addScript(script)
            func refusals() -> Int { fleet.simulator.ledger.snapshot.summary.count(.apns, status: 400) }
            // Without an expiry they would be over a minute later.
            try await fleet.send(.topic("calls"), id: "calls") {
                $0.notification.kind = .voip
                $0.notification.expiry = .ttl(milliseconds: 3_600_000)
            }
            try await eventually("the topic is refused", timeout: .seconds(60)) {
                try await streams.routes.state(of: number).refusedSubroutes == [topic: word]
            }
            #expect(try await streams.routes.state(of: number).stop == nil)
            let gauge = "apus_feedback_faulty_routes"
            try await eventually("the metric rises", timeout: .seconds(60)) { try await feedback.metric(gauge) == 1 }
            let routes = try fleet.apus("lag").json["routes"] as? [[String: Any]]
            let row = routes?.first { $0["route"] as? String == "\(route)" }
            #expect(row?["paused"] as? Bool == false)
            #expect(row?["refused_subroutes"] as? [String: String] == [topic: word])
            // Everything else of the route goes on.
            try await fleet.send(.topic("news"), id: "news")
            #expect(try await fleet.completion(of: "news").total(.accepted) == 1_000)
            // A call that comes meanwhile waits as well; nothing of it was sent.
            try await fleet.send(.devices(["callee-7"]), id: "late", lane: .express) {
                $0.notification.kind = .voip
                $0.notification.expiry = .ttl(milliseconds: 3_600_000)
            }
            try await eventually("everything waits", timeout: .seconds(60)) {
                try await fleet.waitingForTheirTime() >= 2
            }
            // Only requests that were on the wire when the first answer came to each event loop, and not the audience.
            #expect((1..<200).contains(refusals()), "\(refusals()) requests before the topic waited")
            let before = try #require(try await fleet.ledger(of: "calls"))
            #expect(before.total(.rejected) == 0 && before.total(.failed) == 0 && before.state == .running)

            fleet.simulator.clearFaults()
            let resumed = try fleet.apus("resume", "--route", "\(route)")
            #expect(resumed.code == 0)
            #expect(try await streams.routes.state(of: number).refusedSubroutes.isEmpty)
            let ledger = try await fleet.completion(of: "calls") { try await fleet.makeRetriesDue() }
            #expect(ledger.total(.accepted) == 600)
            let accepted = fleet.accepted(of: "calls")
            #expect(accepted.count == 600 && accepted.values.allSatisfy { $0 == 1 })
            try await eventually("the late one has it", timeout: .seconds(60)) {
                try await fleet.makeRetriesDue()
                return fleet.accepted(of: "late") == [callees[7].1: 1]
            }
            #expect(try await fleet.deleted(readers) == 0)
            try await eventually("the metric falls", timeout: .seconds(60)) { try await feedback.metric(gauge) == 0 }
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test
    func `D12 A dispatcher that starts with a restored configuration resumes the route, and nobody is sent to twice`()
        async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(2_000, providers: [.apns], topics: { _ in ["news"] })
            let streams = fleet.installation.streams
            let route = Route(app: try AppID(Fleet.app), provider: .apns, environment: .production)
            let number = try await streams.routes.number(of: route)
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            var plan = FaultPlan()
            plan.apns.reasons = [ReasonRate("InvalidProviderToken", 1)]
            fleet.simulator.setFaults(plan)
            try await fleet.send(.topic("news"), id: "wrong")
            try await eventually("the route is stopped", timeout: .seconds(60)) {
                try await streams.routes.state(of: number).stop
                    == .byFault(RouteFault(.credential, "InvalidProviderToken"))
            }
            try await dispatcher.terminate()
            fleet.simulator.clearFaults()
            let next = try await fleet.startDispatcher()
            let ledger = try await fleet.completion(of: "wrong")
            let accepted = fleet.accepted(of: "wrong")
            #expect(ledger.planned == 2_000 && ledger.total(.accepted) == 2_000)
            #expect(accepted.count == 2_000 && accepted.values.allSatisfy { $0 == 1 })
            #expect(try await streams.routes.state(of: number).stop == nil)
            #expect(try await fleet.deleted(devices) == 0)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await next.terminate()
            try await feedback.terminate()
        }
    }

    @Test(arguments: ["BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken"])
    func `D14 A key that the sandbox refuses stops the sandbox alone`(word: String) async throws {
        try await Fleet.withSandbox { fleet, sandbox in
            let devices = try await fleet.register(400, providers: [.apns], topics: { _ in ["news"] })
            let app = try AppID(Fleet.app)
            let testers = Array(devices.prefix(100))
            let customers = Set(devices.dropFirst(100).map(\.token))
            for device in testers {
                var registration = DeviceRegistration(device: device.id, provider: .apns, token: device.token)
                registration.environment = .sandbox
                registration.topics = ["news"]
                _ = try await fleet.installation.store.register(app, registration)
            }
            let streams = fleet.installation.streams
            func number(_ environment: ProviderEnvironment) async throws -> RouteNumber {
                try await streams.routes.number(of: Route(app: app, provider: .apns, environment: environment))
            }
            let (production, other) = (try await number(.production), try await number(.sandbox))
            var plan = FaultPlan()
            plan.apns.reasons = [ReasonRate(word, 1)]
            sandbox.setFaults(plan)
            let dispatcher = try await fleet.start("dispatcher", sandboxPort: sandbox.addresses.apnsPort)
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "wrong")
            try await eventually("the sandbox's route is stopped", timeout: .seconds(60)) {
                try await streams.routes.state(of: other).stop == .byFault(RouteFault(.credential, word))
            }
            try await eventually("production goes on", timeout: .seconds(60)) {
                Set(fleet.accepted(of: "wrong").keys) == customers
            }
            // With the same key, and after the sandbox has refused it.
            let late = devices[399]
            try await fleet.send(.devices([late.id]), id: "late", lane: .express)
            try await eventually("so does what comes later", timeout: .seconds(60)) {
                fleet.accepted(of: "late") == [late.token: 1]
            }
            #expect(try await !streams.routes.state(of: production).isPaused)
            let before = try #require(try await fleet.ledger(of: "wrong"))
            #expect(before.total(.rejected) == 0 && before.total(.failed) == 0 && before.state == .running)

            sandbox.clearFaults()
            let route = Route(app: app, provider: .apns, environment: .sandbox)
            let resumed = try fleet.apus("resume", "--route", "\(route)")
            #expect(resumed.code == 0)
            #expect(try await fleet.completion(of: "wrong").total(.accepted) == 400)
            let accepted = sandbox.ledger.snapshot.accepted.filter { $0.key.send == "wrong" }
            #expect(Set(accepted.keys.map(\.token)) == Set(testers.map(\.token)))
            #expect(accepted.values.allSatisfy { $0 == 1 } && fleet.accepted(of: "wrong").count == 300)
            #expect(try await fleet.deleted(devices) == 0)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `D57 When FCM cannot reach Apple with our key, Apple's devices wait and the others go on`() async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(2_000, providers: [.fcm], topics: { _ in ["news"] })
            let streams = fleet.installation.streams
            let route = Route(app: try AppID(Fleet.app), provider: .fcm, environment: .production)
            let number = try await streams.routes.number(of: route)
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            func answers(_ status: Int) -> Int { fleet.simulator.ledger.snapshot.summary.count(.fcm, status: status) }
            func strike(_ share: Double) {
                var plan = FaultPlan()
                plan.fcm.reasons = [ReasonRate("THIRD_PARTY_AUTH_ERROR", share)]
                fleet.simulator.setFaults(plan)
            }
            strike(0.3)
            try await fleet.send(.topic("news"), id: "partly")
            try await eventually("all others have it", timeout: .seconds(60)) { answers(200) + answers(401) >= 2_000 }
            let waiting = answers(401)
            #expect(waiting >= 400 && fleet.accepted(of: "partly").count >= 1_200)
            try await eventually("it is noted", timeout: .seconds(60)) {
                let state = try await streams.routes.state(of: number)
                let metric = try await feedback.metric("apus_feedback_faulty_routes")
                return state.thirdPartyAuthError != nil && !state.isPaused && metric == 1
            }
            let routes = try fleet.apus("lag").json["routes"] as? [[String: Any]]
            let row = routes?.first { $0["route"] as? String == "\(route)" }
            #expect(row?["third_party_auth_error"] != nil && row?["paused"] as? Bool == false)

            // Their time comes, and nothing is fixed: one of each unit is asked for.
            strike(1)
            let units = try await fleet.waitingForTheirTime()
            try await fleet.makeRetriesDue()
            try await eventually("they were asked for", timeout: .seconds(60)) {
                try await fleet.makeRetriesDue()
                return answers(401) > waiting
            }
            #expect(units < 100)
            let before = try #require(try await fleet.ledger(of: "partly"))
            #expect(before.state == .running && before.total(.open) > 0)
            #expect(before.total(.accepted) + before.total(.open) == 2_000)

            fleet.simulator.clearFaults()
            let ledger = try await fleet.completion(of: "partly") { try await fleet.makeRetriesDue() }
            #expect(ledger.total(.accepted) == 2_000)
            let accepted = fleet.accepted(of: "partly")
            #expect(accepted.count == 2_000 && accepted.values.allSatisfy { $0 == 1 })
            #expect(answers(401) < 2 * waiting, "not everybody was asked for again")
            // Our own token was never in doubt.
            #expect(fleet.simulator.ledger.snapshot.summary.count(.oauth) == 1)
            try await eventually("the metric falls", timeout: .seconds(60)) {
                try await feedback.metric("apus_feedback_faulty_routes") == 0
            }
            #expect(try await fleet.deleted(devices) == 0)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
