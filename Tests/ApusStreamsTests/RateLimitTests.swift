import ApusCore
import ApusRedis
import ApusStreams
import ApusTestKit
import NIOCore
import NIOPosix
import Testing

/// A limiter with members that ask in turn, in a time of its own.
private final class RateLimitSetup {
    let fixture: StreamsFixture
    let limiter: RateLimit
    var rate: Double?
    /// Microseconds.
    var now: Int64 = 1_750_000_000_000_000
    /// The permits that each member may use at every call; none while it is absent.
    var demand: [String: Int] = [:]
    var used: [String: Int] = [:]
    /// The times and numbers of the permits that were used.
    var uses: [(at: Int64, count: Int)] = []
    var last = RateLimitGrant(permits: 0)

    init(_ fixture: StreamsFixture, route: RouteNumber = RouteNumber(7), rate: Double?, rampMilliseconds: Int64 = 0) {
        self.fixture = fixture
        self.limiter = fixture.streams.rateLimits.limit(of: route, rampMilliseconds: rampMilliseconds)
        self.rate = rate
    }

    func ask(_ member: String, _ change: (inout RateLimitRequest) -> Void = { _ in }) async throws -> RateLimitGrant {
        var request = RateLimitRequest()
        request.use = self.demand[member] ?? 0
        change(&request)
        self.last = try await self.fixture.streams.rateLimits.request(
            request,
            of: self.limiter,
            by: member,
            ratePerSecond: self.rate,
            on: MultiThreadedEventLoopGroup.singleton.any(),
            microseconds: self.now,
        ).get()
        return self.last
    }

    /// All members ask every `beat`, evenly apart, and use at once what they get.
    func run(seconds: Double, beatMilliseconds: Int64 = 20) async throws {
        let end = self.now + Int64(seconds * 1_000_000)
        let members = self.demand.keys.sorted()
        while self.now < end {
            for member in members {
                let permits = try await self.ask(member).permits ?? 0
                self.used[member, default: 0] += permits
                if permits > 0 { self.uses.append((self.now, permits)) }
                self.now += beatMilliseconds * 1_000 / Int64(members.count)
            }
        }
    }

    var total: Int { self.used.values.reduce(0, +) }

    /// The most in any window of that length, from that moment on.
    func most(inSeconds seconds: Double, from start: Int64 = 0) -> Int {
        let window = Int64(seconds * 1_000_000)
        var most = 0
        var sum = 0
        var first = 0
        for (at, count) in self.uses {
            sum += count
            while self.uses[first].at <= at - window {
                sum -= self.uses[first].count
                first += 1
            }
            if at >= start + window { most = max(most, sum) }
        }
        return most
    }
}

@Suite struct RateLimitTests {
    private static func refused(_ word: String, seconds: Int64 = 60) -> RateLimitRequest.SubrouteAnswer {
        .refused(word: word, waitMilliseconds: seconds * 1_000)
    }

    @Test func `Two members with the same demand share the rate evenly and never exceed it`() async throws {
        try await StreamsFixture.with { fixture in
            let setup = RateLimitSetup(fixture, rate: 2_000)
            setup.demand = ["one": 10_000, "two": 10_000]
            try await setup.run(seconds: 10)
            #expect((19_600...20_100).contains(setup.total))
            let share = Double(setup.used["one"] ?? 0) / Double(setup.total)
            #expect((0.45...0.55).contains(share))
            #expect(setup.most(inSeconds: 1) <= 2_100)
        }
    }

    @Test func `A small demand is met, a large one gets the rest, and a silent member loses its share`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let setup = RateLimitSetup(fixture, rate: 1_000)
            setup.demand = ["big": 1_000, "small": 2]
            try await setup.run(seconds: 5)
            // Two permits every 20 ms are a tenth of the rate.
            #expect((480...520).contains(setup.used["small"] ?? 0))
            #expect((4_900...5_050).contains(setup.total))
            setup.demand = ["big": 1_000]
            let before = setup.total
            try await setup.run(seconds: 1)
            #expect((950...1_040).contains(setup.total - before))
        }
    }

    @Test func `A rate below one per call is kept by many members together, each in its turn`() async throws {
        try await StreamsFixture.with { fixture in
            let setup = RateLimitSetup(fixture, rate: 10)
            for member in 0..<8 { setup.demand["m\(member)"] = 5 }
            try await setup.run(seconds: 16)
            #expect((158...161).contains(setup.total))
            #expect(setup.most(inSeconds: 1) <= 11)
            #expect(setup.used.values.allSatisfy { (18...22).contains($0) })
        }
    }

    @Test func `Unused permits do not accumulate`() async throws {
        try await StreamsFixture.with { fixture in
            let setup = RateLimitSetup(fixture, rate: 1_000)
            _ = try await setup.ask("one")
            setup.now += 60_000_000
            #expect(try await setup.ask("one") { $0.use = 5_000 }.permits == 40)
            setup.now += 60_000_000
            // Ahead of need there is a hundredth of a second's worth, less what lies ready.
            #expect(try await setup.ask("one") { $0.ahead = 5_000 }.permits == 10)
            #expect(try await setup.ask("one") { ($0.ahead, $0.held) = (5_000, 10) }.permits == 0)
        }
    }

    @Test func `A clock that jumps an hour either way neither stops the limiter nor lets a burst through`() async throws
    {
        try await StreamsFixture.with { fixture in
            let setup = RateLimitSetup(fixture, rate: 1_000)
            setup.demand = ["one": 1_000, "two": 1_000]
            try await setup.run(seconds: 1)
            for jump in [-3_600_000_000, 3_600_000_000] as [Int64] {
                setup.now += jump
                let before = setup.total
                try await setup.run(seconds: 1)
                #expect((900...1_045).contains(setup.total - before))
            }
            // A stop that was to end in five seconds ends five seconds after the clock went back, not an hour later.
            _ = try await setup.ask("one") { ($0.refusals, $0.pauseMilliseconds) = (1, 5_000) }
            setup.now -= 3_600_000_000
            #expect(try await setup.ask("one").pauseMilliseconds == 5_000)
            setup.now += 5_000_000
            #expect(try await setup.ask("one").pauseMilliseconds == 0)
        }
    }

    @Test func `A rate that is lowered takes effect at once`() async throws {
        try await StreamsFixture.with { fixture in
            let setup = RateLimitSetup(fixture, rate: 10_000)
            _ = try await setup.ask("one")
            setup.now += 1_000_000
            setup.rate = 100
            #expect(try await setup.ask("one") { $0.use = 1_000 }.permits == 4)
        }
    }

    // MARK: Refusals

    @Test func `Retry-After stops every member until then and halves the rate once, and quiet restores it`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let setup = RateLimitSetup(fixture, rate: 1_000)
            setup.demand = ["one": 1_000, "two": 1_000]
            try await setup.run(seconds: 1)
            // Requests that were on the wire come back refused as well.
            _ = try await setup.ask("one") { ($0.refusals, $0.pauseMilliseconds) = (1, 5_000) }
            setup.now += 1_500_000
            _ = try await setup.ask("two") { ($0.refusals, $0.pauseMilliseconds) = (200, 3_500) }
            #expect(setup.last.permits == 0 && setup.last.pauseMilliseconds == 3_500 && setup.last.level == 0.5)
            var before = setup.total
            try await setup.run(seconds: 3.4)
            #expect(setup.total == before)
            try await setup.run(seconds: 2)
            before = setup.total
            try await setup.run(seconds: 5)
            #expect((2_450...2_550).contains(setup.total - before))
            #expect(setup.last.level == 0.5)
            // Ten seconds of quiet after the stop, then a twentieth each second.
            try await setup.run(seconds: 7)
            #expect((0.65...0.75).contains(setup.last.level))
            try await setup.run(seconds: 9)
            #expect(setup.last.level == 1)
            before = setup.total
            try await setup.run(seconds: 2)
            #expect((1_960...2_040).contains(setup.total - before))
        }
    }

    @Test func `Refusals without Retry-After halve the rate at most once a second, down to a hundredth`() async throws {
        try await StreamsFixture.with { fixture in
            let setup = RateLimitSetup(fixture, rate: 1_000)
            var levels: [Double] = []
            for _ in 0..<20 {
                levels.append(try await setup.ask("one") { $0.refusals = 3 }.level)
                setup.now += 500_000
            }
            #expect(Array(levels.prefix(5)) == [0.5, 0.5, 0.25, 0.25, 0.125])
            #expect(levels.last == 0.01)
        }
    }

    @Test func `A route without a rate is held at half of what went out until it has recovered`() async throws {
        try await StreamsFixture.with { fixture in
            let setup = RateLimitSetup(fixture, rate: nil)
            for _ in 0..<500 {
                let lease = try await setup.ask("one") { $0.used = 20 }
                #expect(lease.permits == nil)
                setup.now += 20_000
            }
            setup.demand = ["one": 5_000]
            let held = try await setup.ask("one") { $0.refusals = 1 }
            #expect((450...550).contains(held.ratePerSecond ?? 0))
            setup.used = [:]
            try await setup.run(seconds: 5)
            #expect((2_300...2_700).contains(setup.total))
            try await setup.run(seconds: 16)
            #expect(setup.last.permits == nil && setup.last.ratePerSecond == nil && setup.last.level == 1)
        }
    }

    // MARK: Ramp

    @Test
    func `D81 three processes at Google's 600,000 a minute stay within it in any minute, after a ramp of one`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let perMinute = 600_000.0
            let setup = RateLimitSetup(
                fixture,
                rate: perMinute / (60 + StreamLimits.rateLimitBurstSeconds),
                rampMilliseconds: 60_000
            )
            setup.demand = ["one": 100_000, "two": 100_000, "three": 100_000]
            let start = setup.now
            try await setup.run(seconds: 30, beatMilliseconds: 40)
            let half = setup.total
            #expect((72_000...82_000).contains(half))
            #expect((4_500...5_300).contains(setup.last.ratePerSecond ?? 0))
            try await setup.run(seconds: 95, beatMilliseconds: 40)
            #expect(setup.most(inSeconds: 60) <= 600_000)
            #expect(setup.most(inSeconds: 60, from: start + 60_000_000) >= 590_000)
            // Nobody has more than a third of it all, and a little.
            #expect(setup.used.values.allSatisfy { abs($0 - setup.total / 3) < setup.total / 30 })
            // A quiet of ten minutes closes it again; a single send goes at once all the same.
            setup.now += 600_000_000
            #expect(try await setup.ask("one") { $0.use = 1 }.permits == 1)
            #expect((90...110).contains(setup.last.ratePerSecond ?? 0))
        }
    }

    @Test func `D81 two apps of one project at half of its rate each stay within it together in any minute`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let rate = 300_000 / (60 + StreamLimits.rateLimitBurstSeconds)
            let apps = [7, 8].map {
                RateLimitSetup(fixture, route: RouteNumber($0), rate: rate, rampMilliseconds: 60_000)
            }
            let both = RateLimitSetup(fixture, rate: nil)
            // One sends all the time, the other from the fortieth second on and with a pause: their peaks meet in every phase.
            for step in 0..<1_500 {
                for (index, app) in apps.enumerated() where index == 0 || step > 400 && step % 100 < 90 {
                    let permits = try await app.ask("one") { $0.use = 100_000 }.permits ?? 0
                    both.uses.append((app.now, permits))
                }
                for app in apps { app.now += 100_000 }
            }
            #expect(both.most(inSeconds: 60) <= 600_000)
            #expect(both.uses.reduce(0) { $0 + $1.count } >= 300_000)
        }
    }

    @Test func `Single sends now and then do not open the ramp`() async throws {
        try await StreamsFixture.with { fixture in
            let setup = RateLimitSetup(fixture, rate: 10_000, rampMilliseconds: 60_000)
            for _ in 0..<300 {
                let lease = try await setup.ask("one") { $0.use = 1 }
                #expect(lease.permits == 1)
                setup.now += 1_000_000
            }
            #expect((90...110).contains(setup.last.ratePerSecond ?? 0))
        }
    }

    // MARK: Operators

    @Test func `An operator pauses and resumes a route and gives it a rate of his own`() async throws {
        try await StreamsFixture.with { fixture in
            let route = RouteNumber(7)
            let setup = RateLimitSetup(fixture, rate: nil)
            #expect(try await setup.ask("one") { $0.use = 9 }.permits == nil)
            try await fixture.streams.routes.control(route, .pause)
            #expect(try await setup.ask("one") { $0.use = 9 }.permits == 0)
            #expect(setup.last.isPaused)
            #expect(try await fixture.streams.routes.state(of: route).isPaused)
            try await fixture.streams.routes.control(route, .resume)
            try await fixture.streams.routes.control(route, .rate(1_000))
            setup.now += 1_000_000
            #expect(try await setup.ask("one") { $0.use = 9_000 }.permits == 40)
            #expect(!setup.last.isPaused && setup.last.ratePerSecond == 1_000)
            let state = try await fixture.streams.routes.state(of: route)
            #expect(state.ratePerSecond == 1_000 && state.isOverridden && !state.isPaused && state.rateLimit.level == 1)
            setup.rate = 100
            try await fixture.streams.routes.control(route, .rate(nil))
            #expect(try await setup.ask("one").permits == nil)
            try await fixture.streams.routes.control(route, .defaultRate)
            setup.now += 1_000_000
            #expect(try await setup.ask("one") { $0.use = 9_000 }.permits == 4)
            #expect(try await fixture.streams.routes.state(of: route).ratePerSecond == 100)
        }
    }

    @Test(arguments: [RouteFault.Kind.configuration, .credential])
    func `A fault stops members with the same configuration, and none with another key`(
        kind: RouteFault.Kind
    ) async throws {
        try await StreamsFixture.with { fixture in
            let (streams, route) = (fixture.streams, RouteNumber(7))
            let setup = RateLimitSetup(fixture, rate: nil)
            func isPaused(_ member: String, _ configuration: String, faulty: Bool = false) async throws -> Bool {
                try await setup.ask(member) { request in
                    request.configurationFingerprint = configuration
                    if faulty { request.fault = RouteFault(kind, "InvalidProviderToken") }
                }.isPaused
            }
            #expect(try await isPaused("old", "aa", faulty: true))
            #expect(try await isPaused("old", "aa"))
            #expect(try await !isPaused("new", "bb"))
            // A route that does not name its configuration is stopped by any fault.
            #expect(try await isPaused("silent", ""))
            #expect(try await streams.routes.state(of: route).rejectedConfigurations == ["aa": kind])
            #expect(try await isPaused("new", "bb", faulty: true))
            #expect(try await isPaused("old", "aa"))
            #expect(try await streams.routes.state(of: route).rejectedConfigurations == ["aa": kind, "bb": kind])
            #expect(try await streams.routes.restore(route))
            #expect(try await !isPaused("old", "aa"))
            #expect(try await !isPaused("new", "bb"))
            #expect(try await streams.routes.state(of: route).rejectedConfigurations == [:])
            #expect(try await !streams.routes.restore(route))
            // An operator's word is for all, and takes the faults with it.
            _ = try await isPaused("old", "aa", faulty: true)
            try await streams.routes.control(route, .pause)
            #expect(try await isPaused("new", "bb"))
            #expect(try await !streams.routes.restore(route))
            try await streams.routes.control(route, .resume)
            #expect(try await !isPaused("old", "aa"))
            // With more set-ups than are kept everybody is stopped.
            for number in 0..<500 { _ = try await isPaused("old", String(1_000 + number), faulty: true) }
            #expect(try await isPaused("new", "bb"))
            #expect(try await streams.routes.state(of: route).rejectedConfigurations.count < 300)
        }
    }

    @Test func `D7 A fault that the provider reports stops the route for every member, until an operator resumes it`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let (streams, route) = (fixture.streams, RouteNumber(7))
            let setup = RateLimitSetup(fixture, rate: nil)
            #expect(try await setup.ask("one").permits == nil)
            let told = try await setup.ask("one") { $0.fault = RouteFault(.configuration, "BadTopic") }
            #expect(told.isPaused && told.permits == 0)
            #expect(try await setup.ask("two") { $0.fault = RouteFault(.credential, "TopicDisallowed") }.isPaused)
            #expect(try await streams.routes.state(of: route).stop == .byFault(RouteFault(.configuration, "BadTopic")))
            #expect(try await streams.quarantine.state(of: route).fault == "BadTopic")
            try await streams.routes.control(route, .resume)
            #expect(try await streams.routes.state(of: route).stop == nil)
            #expect(try await streams.quarantine.state(of: route) == TokenQuarantine.State())
            #expect(try await setup.ask("one").permits == nil)
            // A third party's refusal is noted, and stops nobody.
            #expect(try await setup.ask("one") { $0.thirdPartyAuthError = "THIRD_PARTY_AUTH_ERROR" }.permits == nil)
            #expect(try await streams.routes.state(of: route).thirdPartyAuthError == "THIRD_PARTY_AUTH_ERROR")
            #expect(try await streams.quarantine.state(of: route).fault == "THIRD_PARTY_AUTH_ERROR")
            _ = try await setup.ask("two") { $0.thirdPartyAuthError = RateLimitRequest.noLonger }
            #expect(try await streams.routes.state(of: route).thirdPartyAuthError == nil)
            // So is why a provider cannot be reached, until somebody reaches it or nobody tries any more.
            setup.now = SystemClock().now().value * 1_000
            _ = try await setup.ask("one") { $0.connectionFault = "cannot connect to push:443: Connection refused" }
            let fault = try #require(try await streams.routes.state(of: route).connectionFault)
            #expect(fault.detail == "cannot connect to push:443: Connection refused" && fault.milliseconds < 60_000)
            _ = try await setup.ask("two") { $0.connectionFault = RateLimitRequest.noLonger }
            #expect(try await streams.routes.state(of: route).connectionFault == nil)
            setup.now -= 121_000_000
            _ = try await setup.ask("one") { $0.connectionFault = "the name of push:443 is not found" }
            #expect(try await streams.routes.state(of: route).connectionFault == nil)
            // An operator's word stands, whatever a provider says.
            try await streams.routes.control(route, .pause)
            #expect(try await setup.ask("one") { $0.fault = RouteFault(.configuration, "BadTopic") }.isPaused)
            #expect(try await streams.routes.state(of: route).stop == .byOperator)
            // An operator who pauses a route that is stopped already holds it himself.
            try await streams.routes.control(route, .resume)
            _ = try await setup.ask("one") { $0.fault = RouteFault(.configuration, "BadTopic") }
            try await streams.routes.control(route, .pause)
            #expect(try await streams.routes.state(of: route).stop == .byOperator)
        }
    }

    @Test func `A configuration that is rejected after another keeps the kind of its own fault`() async throws {
        try await StreamsFixture.with { fixture in
            let setup = RateLimitSetup(fixture, rate: nil)
            let (topic, key) = (RouteFault(.configuration, "BadTopic"), RouteFault(.credential, "InvalidProviderToken"))
            for (configuration, fault) in [("aa", topic), ("bb", key)] {
                let told = try await setup.ask(configuration) { request in
                    (request.configurationFingerprint, request.fault) = (configuration, fault)
                }
                #expect(told.isPaused)
            }
            let state = try await fixture.streams.routes.state(of: RouteNumber(7))
            #expect(state.stop == .byFault(topic) && state.fault(of: "aa") == topic)
            // Its dispatchers ask the provider again, whoever else is stopped for what only an operator can restore.
            #expect(state.fault(of: "bb")?.kind == .credential)
            #expect(state.fault(of: "cc") == topic)
        }
    }

    @Test func `D7 A refused subroute is named to every member, until it is accepted or an operator resumes the route`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let (streams, route) = (fixture.streams, RouteNumber(7))
            let setup = RateLimitSetup(fixture, rate: nil)
            // A route's state is read as of Redis' own time.
            setup.now = SystemClock().now().value * 1_000
            let calls = "com.example.app.voip"
            let broadcasts = "broadcasts of com.example.app"
            let told = try await setup.ask("one") {
                $0.subroutes = [calls: Self.refused("TopicDisallowed"), broadcasts: Self.refused("TopicMismatch")]
            }
            #expect(!told.isPaused && told.permits == nil && told.refusedSubroutes == [calls, broadcasts])
            #expect(try await setup.ask("two").refusedSubroutes == [calls, broadcasts])
            var state = try await streams.routes.state(of: route)
            #expect(state.stop == nil)
            #expect(state.refusedSubroutes == [calls: "TopicDisallowed", broadcasts: "TopicMismatch"])
            let words = "\(broadcasts): TopicMismatch, \(calls): TopicDisallowed"
            #expect(try await streams.quarantine.state(of: route).fault == words)
            // Another word for the same, and one that is accepted again.
            _ = try await setup.ask("two") { $0.subroutes = [calls: Self.refused("BadTopic"), broadcasts: .accepted] }
            state = try await streams.routes.state(of: route)
            #expect(state.refusedSubroutes == [calls: "BadTopic"])
            // A dispatcher that restores the route's configuration says nothing of subroutes.
            _ = try await streams.routes.restore(route)
            #expect(try await setup.ask("one").refusedSubroutes == [calls])
            try await streams.routes.control(route, .resume)
            #expect(try await setup.ask("one").refusedSubroutes.isEmpty)
            #expect(try await streams.routes.state(of: route).refusedSubroutes.isEmpty)
            #expect(try await streams.quarantine.state(of: route).fault == nil)
            // A provider with ever new ones fills no memory.
            for number in 0..<100 {
                _ = try await setup.ask("one") { $0.subroutes = ["topic-\(number)": Self.refused("BadTopic")] }
            }
            #expect(try await setup.ask("one").refusedSubroutes.count == 64)
        }
    }

    /// Messages that wait ask again in time. Without any, nobody does, for example after the app has left the configuration.
    @Test func `D7 A refused subroute is forgotten when nobody has asked about it for twice its wait`() async throws {
        try await StreamsFixture.with { fixture in
            let setup = RateLimitSetup(fixture, rate: nil)
            setup.now = 1_000_000_000
            _ = try await setup.ask("one") { $0.subroutes = ["calls": Self.refused("TopicDisallowed", seconds: 60)] }
            // A member whose wait has grown asks later, and another that has just begun does not shorten that.
            _ = try await setup.ask("two") { $0.subroutes = ["voip": Self.refused("TopicDisallowed", seconds: 120)] }
            _ = try await setup.ask("one") { $0.subroutes = ["voip": Self.refused("TopicDisallowed", seconds: 60)] }
            setup.now += 119_000_000
            #expect(try await setup.ask("one").refusedSubroutes == ["calls", "voip"])
            setup.now += 1_000_000
            #expect(try await setup.ask("one").refusedSubroutes == ["voip"])
            setup.now += 120_000_000
            #expect(try await setup.ask("one").refusedSubroutes == [])
        }
    }

    @Test func `A limiter has a maximum of members, and one that left makes room`() async throws {
        try await StreamsFixture.with { fixture in
            let setup = RateLimitSetup(fixture, rate: 100_000)
            for member in 0..<StreamLimits.rateLimitMembersMax {
                _ = try await setup.ask("m\(member)") { $0.use = 1 }
            }
            setup.now += 100_000
            #expect(try await setup.ask("late") { $0.use = 1 }.permits == 0)
            // The more there are, the longer one may be silent.
            setup.now += 3_000_000
            #expect(try await setup.ask("late") { $0.use = 1 }.permits == 1)
        }
    }

    @Test func `The more members there are, the more seldom they call, and the rate stays the same`() async throws {
        try await StreamsFixture.with { fixture in
            for (members, interval) in [(1, 20), (13, 20), (32, 48), (128, 192)] {
                let setup = RateLimitSetup(fixture, route: RouteNumber(UInt32(members)), rate: 10_000)
                for member in 0..<members { setup.demand["m\(member)"] = 512 }
                try await setup.run(seconds: 1, beatMilliseconds: Int64(interval))
                #expect(setup.last.intervalMilliseconds == interval)
                (setup.used, setup.uses) = ([:], [])
                let start = setup.now
                try await setup.run(seconds: 3, beatMilliseconds: Int64(interval))
                #expect((28_500...31_500).contains(setup.total), "\(members): \(setup.total)")
                #expect(setup.most(inSeconds: 1, from: start) <= 10_500, "\(members)")
                let even = setup.total / members
                #expect(setup.used.values.allSatisfy { abs($0 - even) <= max(2, even / 4) }, "\(members)")
            }
        }
    }

    @Test func `Many members with little rate each get a permit in their turn`() async throws {
        try await StreamsFixture.with { fixture in
            let setup = RateLimitSetup(fixture, rate: 20)
            for member in 0..<64 { setup.demand["m\(member)"] = 10 }
            try await setup.run(seconds: 30, beatMilliseconds: 96)
            #expect((550...620).contains(setup.total), "\(setup.total)")
            #expect(setup.used.values.count { $0 >= 3 } >= 60)
        }
    }

    @Test func `A send's limiter is forgotten after its last use, a route's is not`() async throws {
        try await StreamsFixture.with { fixture in
            let setup = RateLimitSetup(fixture, rate: 10)
            _ = try await setup.ask("one")
            let limit = RateLimit(ofSend: "shop/s", tag: fixture.keys.tag)
            let loop = MultiThreadedEventLoopGroup.singleton.any()
            _ = try await fixture.streams.rateLimits.request(
                RateLimitRequest(),
                of: limit,
                by: "one",
                ratePerSecond: 5,
                on: loop
            ).get()
            func timeToLive(_ limiter: RateLimit) async throws -> Int64? {
                try await fixture.client.send(.init("PTTL", .text(limiter.key)), on: limiter.tag).root.integer
            }
            #expect(try await timeToLive(setup.limiter) == -1)
            let left = try await timeToLive(limit) ?? 0
            #expect((1...RateLimit.sendRetentionMilliseconds).contains(left))
        }
    }
}
