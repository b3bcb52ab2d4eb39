import ApusCore
import ApusRedis
import ApusSimulator
import ApusStreams
import ApusTestKit
import NIOCore
import Synchronization
import Testing

@testable import ApusDispatcher

@Suite struct WorkerTests {
    @Test func `Without a limit a run ends with every recipient accepted once`() async throws {
        try await WorkerSetup.with { setup in
            let token = try await setup.worker.start(try setup.plan(500))
            #expect(try await setup.follow(token) == [.accepted: 500])
            #expect(setup.accepted == 500)
        }
    }

    @Test func `Nothing goes out before the first grant, and not without Redis`() async throws {
        try await WorkerSetup.with(ScriptedGrants { _, _ in nil }) { setup in
            let token = try await setup.worker.start(try setup.plan(10))
            try await Task.sleep(for: .milliseconds(200))
            #expect(setup.accepted == 0)
            setup.grants.answer { _, _ in RateLimitGrant(permits: nil) }
            #expect(try await setup.follow(token) == [.accepted: 10])
        }
    }

    @Test func `As many requests go out as there are permits, and bulk leaves a tenth to express`() async throws {
        try await WorkerSetup.with(ScriptedGrants { _, _ in RateLimitGrant(permits: 0) }) { setup in
            let bulk = try await setup.worker.start(try setup.plan(500))
            let express = try await setup.worker.start(try setup.plan(8, from: 1_000, lane: .express))
            // Permits age: they are given until they are used, which they are as soon as they come.
            let used = Mutex(0)
            setup.grants.answer { request, _ in
                used.withLock { used in
                    used += request.used
                    return RateLimitGrant(permits: used == 0 && request.held == 0 ? 40 : 0)
                }
            }
            #expect(try await setup.follow(express) == [.accepted: 8])
            try await eventually("the others are used, but for the reserve") { setup.accepted == 36 }
            setup.grants.answer { _, _ in RateLimitGrant(permits: nil) }
            #expect(try await setup.follow(bulk) == [.accepted: 500])
        }
    }

    @Test func `The window limits unwritten outcomes, and the next requests go out when a report is written`()
        async throws
    {
        try await WorkerSetup.with(window: 160) { setup in
            let token = try await setup.worker.start(try setup.plan(500))
            try await eventually("bulk's part of the window is out") { setup.accepted == 140 }
            try await Task.sleep(for: .milliseconds(100))
            #expect(setup.accepted == 140)
            let express = try await setup.worker.start(try setup.plan(20, from: 1_000, lane: .express))
            try await eventually("express has the rest of it") { setup.accepted == 160 }
            // Taken, and not written: the window stays full.
            let update = try await setup.worker.update(token)
            #expect(update.report.count == 140 && !update.isFinished)
            try await Task.sleep(for: .milliseconds(100))
            #expect(setup.accepted == 160)
            #expect(try await setup.follow(express) == [.accepted: 20])
            #expect(try await setup.follow(token) == [.accepted: 360])
            #expect(setup.accepted == 520)
        }
    }

    @Test func `Runs that begin and wait for room ask for no permits while there are some`() async throws {
        try await WorkerSetup.with(window: 160) { setup in
            let first = try await setup.worker.start(try setup.plan(500))
            try await eventually("bulk's part of the window is out") { setup.accepted == 140 }
            let urgent = setup.grants.urgentCount
            #expect(urgent > 0)
            var others: [RunToken] = []
            for number in 1...5 {
                others.append(try await setup.worker.start(try setup.plan(20, from: number * 1_000)))
            }
            #expect(setup.grants.urgentCount == urgent)
            #expect(try await setup.follow(first) == [.accepted: 500])
            for other in others { #expect(try await setup.follow(other) == [.accepted: 20]) }
        }
    }

    @Test func `A run whose report is not written stops sending; another continues`() async throws {
        let none = ScriptedGrants { _, _ in RateLimitGrant(permits: 0) }
        try await WorkerSetup.with(none, unwrittenTimeMax: WorkerSettings().unwrittenTimeMax) { setup in
            let stuck = try await setup.worker.start(try setup.plan(100))
            try await Task.sleep(for: .milliseconds(700))
            setup.grants.answer { _, _ in RateLimitGrant(permits: nil) }
            let other = try await setup.worker.start(try setup.plan(100, from: 1_000))
            #expect(try await setup.follow(other) == [.accepted: 100])
            #expect(setup.accepted == 100)
            #expect(try await setup.follow(stuck) == [.accepted: 100])
        }
    }

    @Test func `While a Redis server takes no report, runs that write to it do not begin; those of another do`()
        async throws
    {
        try await WorkerSetup.with(unwrittenTimeMax: WorkerSettings().unwrittenTimeMax) { setup in
            func plan(_ count: Int, from first: Int, on port: Int) throws -> RunPlan {
                var plan = try setup.plan(count, from: first)
                plan.server = .host("127.0.0.1", port: port)
                return plan
            }
            let stuck = try await setup.worker.start(try plan(9, from: 0, on: 1))
            var reported = 0
            while reported < 9 { reported += try await setup.worker.update(stuck).report.count }
            // Taken, and not written for long: whoever was let begin before that does not.
            try await Task.sleep(for: .milliseconds(700))
            var late = try plan(100, from: 1_000, on: 1)
            late.ownedAt = .now() - .milliseconds(600)
            let waiting = try await setup.worker.start(late)
            #expect(try await setup.worker.update(waiting).report.count == 0)
            let other = try await setup.worker.start(try plan(100, from: 2_000, on: 2))
            #expect(try await setup.follow(other) == [.accepted: 100])
            #expect(setup.accepted == 109)
            try await setup.worker.remove(stuck)
            #expect(try await setup.follow(waiting) == [.accepted: 100])
        }
    }

    @Test func `A server is silent while reports wait to be written and none of them is`() {
        let reports = ServerReports()
        func time(_ milliseconds: Int64) -> NIODeadline {
            .uptimeNanoseconds(10_000_000_000) + .milliseconds(milliseconds)
        }
        func isSilent(at milliseconds: Int64) -> Bool {
            reports.isSilent(now: time(milliseconds), for: .milliseconds(500))
        }
        #expect(!isSilent(at: 0))
        reports.taken(now: time(1_000))
        #expect(!isSilent(at: 1_500))
        #expect(isSilent(at: 1_501))
        // Of two that wait, one is written: Redis is there.
        reports.taken(now: time(1_600))
        reports.written(now: time(1_700))
        #expect(!isSilent(at: 2_200))
        #expect(isSilent(at: 2_201))
        // So it is when it lets a run begin.
        reports.answered(at: time(2_300))
        #expect(!isSilent(at: 2_800))
        #expect(isSilent(at: 2_801))
        // A report that is given up says nothing of the server, and is not waited for.
        reports.taken(now: time(2_400))
        reports.givenUp()
        #expect(isSilent(at: 2_801))
        reports.written(now: time(3_000))
        #expect(!isSilent(at: 60_000))
    }

    @Test func `A run whose lease may have run out unseen sends nothing before a report is written`() async throws {
        try await WorkerSetup.with { setup in
            var plan = try setup.plan(100)
            plan.ownedAt = .now() - .seconds(10)
            let thawed = try await setup.worker.start(plan)
            let update = try await setup.worker.update(thawed)
            #expect(update.report.count == 0 && !update.isFinished)
            #expect(setup.accepted == 0)
            #expect(try await setup.follow(thawed) == [.accepted: 100])
        }
    }

    @Test func `Recipients that were read too long ago are read again before their requests`() async throws {
        try await WorkerSetup.with(recheckAfter: .minutes(2)) { setup in
            var plan = try setup.plan(40)
            plan.readAt = .now() - .minutes(3)
            let token = try await setup.worker.start(plan)
            let update = try await setup.worker.update(token)
            #expect(update.recheck == Array(0..<40))
            #expect(setup.accepted == 0)
            var rows = plan.table
            for index in 0..<30 {
                rows.rows[index].verdict = .skipped
                rows.rows[index].verdictReason = .notMatching
            }
            try await setup.worker.recheck(token, rows, of: update.recheck, readAt: .now(), rendered: nil)
            #expect(try await setup.follow(token) == [.accepted: 10, .skipped: 30])
            #expect(setup.accepted == 10)
        }
    }

    @Test func `Recipients that were read again get the message as it is rendered by then`() async throws {
        let bodies = Mutex<[String: Int]>([:])
        try await WorkerSetup.with(recheckAfter: .minutes(2)) { setup in
            setup.simulator.observe { request in
                let body = String(decoding: request.body, as: UTF8.self)
                bodies.withLock { $0[body.contains("Later") ? "later" : "first", default: 0] += 1 }
            }
            for (title, count) in [("Later", 20), ("First", 10)] {
                var plan = try setup.plan(count)
                plan.readAt = .now() - .minutes(3)
                let token = try await setup.worker.start(plan)
                let update = try await setup.worker.update(token)
                #expect(update.recheck.count == count)
                try await setup.worker.recheck(
                    token,
                    plan.table,
                    of: update.recheck,
                    readAt: .now(),
                    rendered: title == "Later" ? try WorkerSetup.context(title: title) : nil,
                )
                #expect(try await setup.follow(token) == [.accepted: UInt64(count)])
            }
        }
        #expect(bodies.withLock { $0 } == ["later": 20, "first": 10])
    }

    @Test(arguments: [false, true])
    func `Recipients that waited for a minute get the message of a send with an expiry as it is rendered by then`(
        areAddresses: Bool
    ) async throws {
        let bodies = Mutex<[String: Int]>([:])
        let expiry = SystemClock().now().advanced(byMilliseconds: 3_600_000)
        try await WorkerSetup.with(expiresAt: expiry) { setup in
            setup.simulator.observe { request in
                let body = String(decoding: request.body, as: UTF8.self)
                bodies.withLock { $0[body.contains("Later") ? "later" : "first", default: 0] += 1 }
            }
            var plan = try setup.plan(20)
            for index in plan.table.rows.indices where areAddresses {
                plan.table.rows[index].partition = RecipientTable.addressPartition
            }
            plan.readAt = .now() - .milliseconds(SendContextCache.ageMillisecondsMax)
            let token = try await setup.worker.start(plan)
            let update = try await setup.worker.update(token)
            #expect(update.recheck == Array(0..<20))
            #expect(setup.accepted == 0)
            let rendered = try WorkerSetup.context(title: "Later")
            let rows = areAddresses ? nil : plan.table
            try await setup.worker.recheck(token, rows, of: update.recheck, readAt: .now(), rendered: rendered)
            #expect(try await setup.follow(token) == [.accepted: 20])
        }
        #expect(bodies.withLock { $0 } == ["later": 20])
    }

    @Test func `A direct send whose recipients were read too long ago leaves all of them to units`() async throws {
        try await WorkerSetup.with(recheckAfter: .minutes(2)) { setup in
            var plan = try setup.plan(3)
            plan.reportsAtEnd = true
            plan.readAt = .now() - .minutes(3)
            let token = try await setup.worker.start(plan)
            let update = try await setup.worker.update(token)
            #expect(update.isFinished && update.unsent == [0, 1, 2] && update.recheck.isEmpty)
            try await setup.worker.remove(token)
            #expect(setup.accepted == 0)
        }
    }

    @Test func `A run expires while its route is paused, and nothing of it is sent`() async throws {
        let paused = ScriptedGrants { _, _ in
            var grant = RateLimitGrant(permits: 0)
            grant.isPaused = true
            return grant
        }
        let soon = SystemClock().now().advanced(byMilliseconds: 300)
        try await WorkerSetup.with(paused, expiresAt: soon) { setup in
            let token = try await setup.worker.start(try setup.plan(50))
            #expect(try await setup.follow(token) == [.expired: 50])
            #expect(setup.accepted == 0)
        }
    }

    @Test(arguments: [("BadTopic", 400, RouteFault.Kind.configuration), ("InvalidProviderToken", 403, .credential)])
    func `D7 D12 A fault for every recipient stops the route; every recipient is sent to when it resumes`(
        word: String,
        status: Int,
        kind: RouteFault.Kind,
    ) async throws {
        let told = Mutex<[RouteFault]>([])
        let grants = ScriptedGrants { request, _ in
            var grant = RateLimitGrant(permits: nil)
            grant.isPaused = told.withLock { told in
                if let fault = request.fault { told.append(fault) }
                return !told.isEmpty
            }
            return grant
        }
        try await WorkerSetup.with(grants) { setup in
            var plan = FaultPlan()
            plan.apns.reasons = [ReasonRate(word, 1)]
            setup.simulator.setFaults(plan)
            let token = try await setup.worker.start(try setup.plan(1_000))
            try await eventually("Redis is told", timeout: .seconds(60)) { told.withLock { !$0.isEmpty } }
            var direct = try setup.plan(5, from: 2_000, lane: .express)
            direct.reportsAtEnd = true
            let late = try await setup.worker.start(direct)
            let update = try await setup.worker.update(late)
            #expect(update.unsent == [0, 1, 2, 3, 4] && update.isFinished)
            try await setup.worker.remove(late)
            let refused = setup.simulator.ledger.snapshot.summary.count(.apns, status: status)
            // Until the first answer a connection to Apple has one request on the wire.
            #expect((1...8).contains(refused) && Set(told.withLock { $0 }) == [RouteFault(kind, word)])
            setup.simulator.clearFaults()
            grants.answer { _, _ in RateLimitGrant(permits: nil) }
            #expect(try await setup.follow(token) == [.accepted: 1_000])
            #expect(setup.accepted == 1_000)
        }
    }

    @Test func `D7 A refused topic waits alone, asks with one recipient when its time has come, and others go on`()
        async throws
    {
        let refused = Mutex<Set<String>>([])
        let grants = ScriptedGrants { request, _ in
            var grant = RateLimitGrant(permits: nil)
            grant.refusedSubroutes = refused.withLock { refused in
                for (name, answer) in request.subroutes {
                    if answer == .accepted { refused.remove(name) } else { refused.insert(name) }
                }
                return refused
            }
            return grant
        }
        try await WorkerSetup.with(grants) { setup in
            let calls = "com.example.app.voip"
            func requests() -> Int { setup.simulator.ledger.snapshot.summary.count(.apns, status: 400) }
            var faults = FaultPlan()
            faults.apns.reasons = [ReasonRate("TopicDisallowed", 1)]
            setup.simulator.setFaults(faults)
            let first = try await setup.waiting(try setup.plan(1_000, by: calls))
            // Until the first answer a connection to Apple has one request on the wire.
            #expect(first == 1_000 && (1...8).contains(requests()))
            try await eventually("Redis is told") { refused.withLock { $0 } == [calls] }
            // Of another send not even one recipient is sent to, however long the wait has grown.
            try await setup.worker.onLoop { worker in
                let now = NIODeadline.now().uptimeNanoseconds
                worker.routes[WorkerSetup.route]?.rateLimit.subroutes = SubrouteFaults(
                    FaultRetests.Rules(firstNanoseconds: 900_000_000_000)
                )
                worker.routes[WorkerSetup.route]?.rateLimit.subroutes
                    .recordRefusal(of: calls, "TopicDisallowed", now: now, draw: 0)
            }
            let before = requests()
            #expect(try await setup.waiting(try setup.plan(10, from: 1_000, by: calls)) == 10)
            var direct = try setup.plan(5, from: 2_000, lane: .express, by: calls)
            direct.reportsAtEnd = true
            #expect(try await setup.waiting(direct) == 5 && requests() == before)
            // When the time has come, one recipient asks for all.
            try await setup.worker.onLoop { $0.routes[WorkerSetup.route]?.rateLimit.subroutes.configurationChanged() }
            #expect(try await setup.waiting(try setup.plan(100, from: 3_000, by: calls)) == 100)
            #expect(requests() == before + 1)
            // Another topic of the route goes on.
            setup.simulator.clearFaults()
            let other = try await setup.worker.start(try setup.plan(100, from: 4_000, by: "com.example.app"))
            #expect(try await setup.follow(other) == [.accepted: 100])
            #expect(refused.withLock { $0.count } == 1 && setup.accepted == 100)
            // Accepted again: the others follow at once, and Redis is told.
            try await setup.worker.onLoop { $0.routes[WorkerSetup.route]?.rateLimit.subroutes.configurationChanged() }
            let restored = try await setup.worker.start(try setup.plan(100, from: 5_000, by: calls))
            #expect(try await setup.follow(restored) == [.accepted: 100])
            try await eventually("Redis is told") { refused.withLock { $0.isEmpty } }
            #expect(setup.accepted == 200 && requests() == before + 1)
        }
    }

    @Test func `D7 A loop that was idle while an operator resumed the route sends to its refused topic at once`()
        async throws
    {
        try await WorkerSetup.with { setup in
            let calls = "com.example.app.voip"
            setup.grants.answer { _, _ in
                var grant = RateLimitGrant(permits: nil)
                grant.refusedSubroutes = [calls]
                return grant
            }
            var faults = FaultPlan()
            faults.apns.reasons = [ReasonRate("TopicDisallowed", 1)]
            setup.simulator.setFaults(faults)
            #expect(try await setup.waiting(try setup.plan(10, by: calls)) == 10)
            // Until the loop asks for no grants any more, and the last one has run out.
            try await Task.sleep(for: .seconds(3))
            setup.simulator.clearFaults()
            setup.grants.answer { _, _ in RateLimitGrant(permits: nil) }
            let token = try await setup.worker.start(try setup.plan(10, from: 100, by: calls))
            #expect(try await setup.follow(token) == [.accepted: 10])
        }
    }

    @Test func `A direct send that cannot go out gives its recipients back within about a second`() async throws {
        try await WorkerSetup.with(ScriptedGrants { _, _ in RateLimitGrant(permits: 0) }) { setup in
            var plan = try setup.plan(5, lane: .express)
            plan.reportsAtEnd = true
            let token = try await setup.worker.start(plan)
            let update = try await setup.worker.update(token)
            #expect(update.unsent == [0, 1, 2, 3, 4] && update.report.count == 0)
            #expect(update.isFinished && update.isComplete)
            try await setup.worker.remove(token)
            #expect(setup.accepted == 0)
        }
    }

    @Test func `A direct send that was read a lease ago sends nothing and gives its recipients back`() async throws {
        try await WorkerSetup.with { setup in
            var plan = try setup.plan(5, lane: .express)
            plan.reportsAtEnd = true
            plan.ownedAt = .now() - .seconds(10)
            let token = try await setup.worker.start(plan)
            let update = try await setup.worker.update(token)
            #expect(update.unsent == [0, 1, 2, 3, 4] && update.report.count == 0 && update.isFinished)
            try await setup.worker.remove(token)
            #expect(setup.accepted == 0)
        }
    }

    @Test func `A limited number of direct sends wait for one route; further ones are given back at once`() async throws
    {
        try await WorkerSetup.with(ScriptedGrants { _, _ in nil }) { setup in
            var plan = try setup.plan(1, lane: .express)
            plan.reportsAtEnd = true
            var waiting: [RunToken] = []
            for _ in 0..<DirectRuns.slowMax { waiting.append(try await setup.worker.start(plan)) }
            let late = try await setup.worker.start(plan)
            let update = try await setup.worker.update(late)
            #expect(update.unsent == [0] && update.isFinished)
            for token in waiting + [late] {
                if token.slot != late.slot { _ = try await setup.worker.update(token) }
                try await setup.worker.remove(token)
            }
        }
    }

    @Test func `A run keeps its send's rate, which can be changed and removed`() async throws {
        let grants = ScriptedGrants { request, limiter in
            limiter.key.contains("send_rate:demo/s")
                ? RateLimitGrant(permits: min(request.use, 1)) : RateLimitGrant(permits: nil)
        }
        try await WorkerSetup.with(grants) { setup in
            var plan = try setup.plan(400)
            plan.ratePerSecond = 50
            let token = try await setup.worker.start(plan)
            try await eventually("some are out") { setup.accepted >= 5 }
            // Each grant permits one.
            let accepted = setup.accepted
            #expect(accepted <= grants.rates("send_rate:demo/s").count)
            try await setup.worker.setRate(token, perSecond: 70)
            try await eventually("the new rate is asked for") { grants.rates("send_rate:demo/s").last == 70 }
            #expect(grants.rates("send_rate:demo/s").first == 50)
            try await setup.worker.setRate(token, perSecond: 0)
            #expect(try await setup.follow(token) == [.accepted: 400])
        }
    }

    @Test func `Two apps' sends of one id keep their own rates`() async throws {
        let slow = HashTag(ofKey: "{2}")
        let grants = ScriptedGrants { request, limiter in
            guard limiter.key.contains("send_rate:demo/s") else { return RateLimitGrant(permits: nil) }
            return limiter.tag == slow ? RateLimitGrant(permits: 0) : RateLimitGrant(permits: min(request.use, 50))
        }
        try await WorkerSetup.with(grants) { setup in
            var plan = try setup.plan(20, in: slow)
            plan.ratePerSecond = 1
            let waiting = try await setup.worker.start(plan)
            plan = try setup.plan(100, from: 20)
            plan.ratePerSecond = 1_000
            let going = try await setup.worker.start(plan)
            #expect(try await setup.follow(going) == [.accepted: 100])
            try await setup.worker.setRate(waiting, perSecond: 0)
            #expect(try await setup.follow(waiting) == [.accepted: 20])
        }
    }

    @Test func `A failing provider gets no requests after a few answers, and is probed later`() async throws {
        try await WorkerSetup.with { setup in
            var plan = FaultPlan(seed: 1)
            plan.apns.unavailable = 1
            setup.simulator.setFaults(plan)
            let token = try await setup.worker.start(try setup.plan(5_000))
            let requests = { setup.simulator.ledger.snapshot.count }
            try await eventually("it is in trouble", timeout: .seconds(60)) { requests() >= 20 }
            // Requests that were on the wire when the circuit opened, and no more before the first probes.
            try await Task.sleep(for: .milliseconds(300))
            let spared = requests()
            #expect(spared < 4_000)
            setup.simulator.setFaults(FaultPlan(seed: 1))
            var accepted: UInt64 = 0
            var retried = 0
            while true {
                let update = try await setup.worker.update(token)
                accepted += UInt64(update.report.count)
                retried += update.retries.reduce(0) { $0 + $1.indices.count }
                if update.isFinished { break }
            }
            try await setup.worker.remove(token)
            #expect(accepted + UInt64(retried) == 5_000 && retried >= 20 && accepted > 1_000)
        }
    }

    @Test func `A circuit whose probes end at a gateway that was replaced probes again, and closes`() async throws {
        try await WorkerSetup.with { setup in
            #expect(try await setup.follow(try await setup.worker.start(try setup.plan(1))) == [.accepted: 1])
            var faults = FaultPlan()
            faults.apns.reasons = [ReasonRate("BadTopic", 1)]
            // Long enough for a busy machine to look in between.
            faults.apns.delayMilliseconds = 15_000
            setup.simulator.setFaults(faults)
            let state: @Sendable () async throws -> CircuitBreaker.State? = {
                try await setup.worker.onLoop { $0.routes[WorkerSetup.route]?.circuit.state }
            }
            try await setup.worker.onLoop { worker in
                // Opened long ago.
                for _ in 0..<20 {
                    let failure = CircuitBreaker.Answer.failure(retryAfterMilliseconds: nil)
                    worker.routes[WorkerSetup.route]?.circuit.record(failure, now: 0, draw: 0)
                }
            }
            let token = try await setup.worker.start(try setup.plan(100, from: 1_000))
            // As many probes as the connection takes at a time: one, or all three.
            try await eventually("the circuit probes") {
                guard case .halfOpen(room: ..<3, successes: 0)? = try await state() else { return false }
                return true
            }
            setup.simulator.clearFaults()
            try await setup.worker.onLoop { worker in
                worker.exchange(RouteGateways(notifications: setup.makeGateway()), for: WorkerSetup.route)
            }
            #expect(try await setup.follow(token) == [.accepted: 100])
            #expect(try await state() == .closed)
        }
    }
}
