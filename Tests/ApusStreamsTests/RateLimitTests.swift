import ApusCore
import ApusRedis
import ApusStreams
import ApusTestKit
import NIOCore
import NIOPosix
import Testing

/// A limiter with members that ask in turn, in a time of its own.
private final class LeaseStage {
    let fixture: StreamsFixture
    let limiter: RateLimit
    var rate: Double?
    /// Microseconds.
    var now: Int64 = 1_750_000_000_000_000
    /// What each member may use at every call; nothing when it is not there.
    var demand: [String: Int] = [:]
    var used: [String: Int] = [:]
    /// When how many permits were used.
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
    @Test func `Two members with the same demand share the rate evenly and never exceed it`() async throws {
        try await StreamsFixture.with { fixture in
            let stage = LeaseStage(fixture, rate: 2_000)
            stage.demand = ["one": 10_000, "two": 10_000]
            try await stage.run(seconds: 10)
            #expect((19_600...20_100).contains(stage.total))
            let share = Double(stage.used["one"] ?? 0) / Double(stage.total)
            #expect((0.45...0.55).contains(share))
            #expect(stage.most(inSeconds: 1) <= 2_100)
        }
    }

    @Test func `Who wants little gets it, who wants all gets the rest, and who falls silent loses its share`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let stage = LeaseStage(fixture, rate: 1_000)
            stage.demand = ["big": 1_000, "small": 2]
            try await stage.run(seconds: 5)
            // Two permits every 20 ms are a tenth of the rate.
            #expect((480...520).contains(stage.used["small"] ?? 0))
            #expect((4_900...5_050).contains(stage.total))
            stage.demand = ["big": 1_000]
            let before = stage.total
            try await stage.run(seconds: 1)
            #expect((950...1_040).contains(stage.total - before))
        }
    }

    @Test func `A rate below one per beat is kept by many members together, each in its turn`() async throws {
        try await StreamsFixture.with { fixture in
            let stage = LeaseStage(fixture, rate: 10)
            for member in 0..<8 { stage.demand["m\(member)"] = 5 }
            try await stage.run(seconds: 16)
            #expect((158...161).contains(stage.total))
            #expect(stage.most(inSeconds: 1) <= 11)
            #expect(stage.used.values.allSatisfy { (18...22).contains($0) })
        }
    }

    @Test func `What nobody uses does not pile up`() async throws {
        try await StreamsFixture.with { fixture in
            let stage = LeaseStage(fixture, rate: 1_000)
            _ = try await stage.ask("one")
            stage.now += 60_000_000
            #expect(try await stage.ask("one") { $0.use = 5_000 }.permits == 40)
            stage.now += 60_000_000
            // Ahead of need there is a hundredth of a second's worth, less what lies ready.
            #expect(try await stage.ask("one") { $0.ahead = 5_000 }.permits == 10)
            #expect(try await stage.ask("one") { ($0.ahead, $0.held) = (5_000, 10) }.permits == 0)
        }
    }

    @Test func `A clock that jumps an hour either way neither stops the limiter nor lets a burst through`() async throws
    {
        try await StreamsFixture.with { fixture in
            let stage = LeaseStage(fixture, rate: 1_000)
            stage.demand = ["one": 1_000, "two": 1_000]
            try await stage.run(seconds: 1)
            for jump in [-3_600_000_000, 3_600_000_000] as [Int64] {
                stage.now += jump
                let before = stage.total
                try await stage.run(seconds: 1)
                #expect((900...1_045).contains(stage.total - before))
            }
            // A stop that was to end in five seconds ends five seconds after the clock went back, not an hour later.
            _ = try await stage.ask("one") { ($0.refusals, $0.pauseMilliseconds) = (1, 5_000) }
            stage.now -= 3_600_000_000
            #expect(try await stage.ask("one").pauseMilliseconds == 5_000)
            stage.now += 5_000_000
            #expect(try await stage.ask("one").pauseMilliseconds == 0)
        }
    }

    @Test func `A rate that is lowered takes effect at once`() async throws {
        try await StreamsFixture.with { fixture in
            let stage = LeaseStage(fixture, rate: 10_000)
            _ = try await stage.ask("one")
            stage.now += 1_000_000
            stage.rate = 100
            #expect(try await stage.ask("one") { $0.use = 1_000 }.permits == 4)
        }
    }

    // MARK: Refusals

    @Test func `Retry-After stops everybody until then, halves the rate once, and quiet brings it back`() async throws {
        try await StreamsFixture.with { fixture in
            let stage = LeaseStage(fixture, rate: 1_000)
            stage.demand = ["one": 1_000, "two": 1_000]
            try await stage.run(seconds: 1)
            // What was on the wire comes back refused as well.
            _ = try await stage.ask("one") { ($0.refusals, $0.pauseMilliseconds) = (1, 5_000) }
            stage.now += 1_500_000
            _ = try await stage.ask("two") { ($0.refusals, $0.pauseMilliseconds) = (200, 3_500) }
            #expect(stage.last.permits == 0 && stage.last.pauseMilliseconds == 3_500 && stage.last.level == 0.5)
            var before = stage.total
            try await stage.run(seconds: 3.4)
            #expect(stage.total == before)
            try await stage.run(seconds: 2)
            before = stage.total
            try await stage.run(seconds: 5)
            #expect((2_450...2_550).contains(stage.total - before))
            #expect(stage.last.level == 0.5)
            // Ten seconds of quiet after the stop, then a twentieth each second.
            try await stage.run(seconds: 7)
            #expect((0.65...0.75).contains(stage.last.level))
            try await stage.run(seconds: 9)
            #expect(stage.last.level == 1)
            before = stage.total
            try await stage.run(seconds: 2)
            #expect((1_960...2_040).contains(stage.total - before))
        }
    }

    @Test func `Refusals without Retry-After halve the rate at most once a second, down to a hundredth`() async throws {
        try await StreamsFixture.with { fixture in
            let stage = LeaseStage(fixture, rate: 1_000)
            var levels: [Double] = []
            for _ in 0..<20 {
                levels.append(try await stage.ask("one") { $0.refusals = 3 }.level)
                stage.now += 500_000
            }
            #expect(Array(levels.prefix(5)) == [0.5, 0.5, 0.25, 0.25, 0.125])
            #expect(levels.last == 0.01)
        }
    }

    @Test func `A route without a rate is held at half of what went out until it has recovered`() async throws {
        try await StreamsFixture.with { fixture in
            let stage = LeaseStage(fixture, rate: nil)
            for _ in 0..<500 {
                let lease = try await stage.ask("one") { $0.used = 20 }
                #expect(lease.permits == nil)
                stage.now += 20_000
            }
            stage.demand = ["one": 5_000]
            let held = try await stage.ask("one") { $0.refusals = 1 }
            #expect((450...550).contains(held.ratePerSecond ?? 0))
            stage.used = [:]
            try await stage.run(seconds: 5)
            #expect((2_300...2_700).contains(stage.total))
            try await stage.run(seconds: 16)
            #expect(stage.last.permits == nil && stage.last.ratePerSecond == nil && stage.last.level == 1)
        }
    }

    // MARK: Ramp

    @Test
    func `D81 three processes at Google's 600,000 a minute stay within it in any minute, after a ramp of one`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let perMinute = 600_000.0
            let stage = LeaseStage(
                fixture,
                rate: perMinute / (60 + StreamLimits.rateLimitBurstSeconds),
                rampMilliseconds: 60_000
            )
            stage.demand = ["one": 100_000, "two": 100_000, "three": 100_000]
            let start = stage.now
            try await stage.run(seconds: 30, beatMilliseconds: 40)
            let half = stage.total
            #expect((72_000...82_000).contains(half))
            #expect((4_500...5_300).contains(stage.last.ratePerSecond ?? 0))
            try await stage.run(seconds: 95, beatMilliseconds: 40)
            #expect(stage.most(inSeconds: 60) <= 600_000)
            #expect(stage.most(inSeconds: 60, from: start + 60_000_000) >= 590_000)
            // Nobody has more than a third of it all, and a little.
            #expect(stage.used.values.allSatisfy { abs($0 - stage.total / 3) < stage.total / 30 })
            // A quiet of ten minutes closes it again; a single send goes at once all the same.
            stage.now += 600_000_000
            #expect(try await stage.ask("one") { $0.use = 1 }.permits == 1)
            #expect((90...110).contains(stage.last.ratePerSecond ?? 0))
        }
    }

    @Test func `D81 two apps of one project at half of its rate each stay within it together in any minute`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let rate = 300_000 / (60 + StreamLimits.rateLimitBurstSeconds)
            let apps = [7, 8].map { LeaseStage(fixture, route: RouteNumber($0), rate: rate, rampMilliseconds: 60_000) }
            let both = LeaseStage(fixture, rate: nil)
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
            let stage = LeaseStage(fixture, rate: 10_000, rampMilliseconds: 60_000)
            for _ in 0..<300 {
                let lease = try await stage.ask("one") { $0.use = 1 }
                #expect(lease.permits == 1)
                stage.now += 1_000_000
            }
            #expect((90...110).contains(stage.last.ratePerSecond ?? 0))
        }
    }

    // MARK: Operators

    @Test func `An operator pauses and resumes a route and gives it a rate of his own`() async throws {
        try await StreamsFixture.with { fixture in
            let route = RouteNumber(7)
            let stage = LeaseStage(fixture, rate: nil)
            #expect(try await stage.ask("one") { $0.use = 9 }.permits == nil)
            try await fixture.streams.routes.control(route, .pause)
            #expect(try await stage.ask("one") { $0.use = 9 }.permits == 0)
            #expect(stage.last.isPaused)
            #expect(try await fixture.streams.routes.state(of: route).isPaused)
            try await fixture.streams.routes.control(route, .resume)
            try await fixture.streams.routes.control(route, .rate(1_000))
            stage.now += 1_000_000
            #expect(try await stage.ask("one") { $0.use = 9_000 }.permits == 40)
            #expect(!stage.last.isPaused && stage.last.ratePerSecond == 1_000)
            let state = try await fixture.streams.routes.state(of: route)
            #expect(state.ratePerSecond == 1_000 && state.isOverridden && !state.isPaused && state.rateLimit.level == 1)
            stage.rate = 100
            try await fixture.streams.routes.control(route, .rate(nil))
            #expect(try await stage.ask("one").permits == nil)
            try await fixture.streams.routes.control(route, .defaultRate)
            stage.now += 1_000_000
            #expect(try await stage.ask("one") { $0.use = 9_000 }.permits == 4)
            #expect(try await fixture.streams.routes.state(of: route).ratePerSecond == 100)
        }
    }

    @Test(arguments: [RouteFault.Kind.configuration, .credential])
    func `A fault stops those who are set up like the one that met it, and nobody with another key`(
        kind: RouteFault.Kind
    ) async throws {
        try await StreamsFixture.with { fixture in
            let (streams, route) = (fixture.streams, RouteNumber(7))
            let stage = LeaseStage(fixture, rate: nil)
            func isPaused(_ member: String, _ configuration: String, faulty: Bool = false) async throws -> Bool {
                try await stage.ask(member) { request in
                    request.configurationFingerprint = configuration
                    if faulty { request.fault = RouteFault(kind, "InvalidProviderToken") }
                }.isPaused
            }
            #expect(try await isPaused("old", "aa", faulty: true))
            #expect(try await isPaused("old", "aa"))
            #expect(try await !isPaused("new", "bb"))
            // Who does not say what it is set up with is stopped by any fault.
            #expect(try await isPaused("silent", ""))
            #expect(try await streams.routes.state(of: route).rejectedConfigurations == ["aa"])
            #expect(try await isPaused("new", "bb", faulty: true))
            #expect(try await isPaused("old", "aa"))
            #expect(try await streams.routes.state(of: route).rejectedConfigurations == ["aa", "bb"])
            #expect(try await streams.routes.restore(route))
            #expect(try await !isPaused("old", "aa"))
            #expect(try await !isPaused("new", "bb"))
            #expect(try await streams.routes.state(of: route).rejectedConfigurations == [])
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

    @Test func `D7 What a provider calls wrong stops the route for every member, until an operator lets it go on`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let (streams, route) = (fixture.streams, RouteNumber(7))
            let stage = LeaseStage(fixture, rate: nil)
            #expect(try await stage.ask("one").permits == nil)
            let told = try await stage.ask("one") { $0.fault = RouteFault(.configuration, "BadTopic") }
            #expect(told.isPaused && told.permits == 0)
            #expect(try await stage.ask("two") { $0.fault = RouteFault(.credential, "TopicDisallowed") }.isPaused)
            #expect(try await streams.routes.state(of: route).stop == .byFault(RouteFault(.configuration, "BadTopic")))
            #expect(try await streams.quarantine.state(of: route).fault == "BadTopic")
            try await streams.routes.control(route, .resume)
            #expect(try await streams.routes.state(of: route).stop == nil)
            #expect(try await streams.quarantine.state(of: route) == TokenQuarantine.State())
            #expect(try await stage.ask("one").permits == nil)
            // What a partner calls wrong is noted, and stops nobody.
            #expect(try await stage.ask("one") { $0.thirdPartyAuthError = "THIRD_PARTY_AUTH_ERROR" }.permits == nil)
            #expect(try await streams.routes.state(of: route).thirdPartyAuthError == "THIRD_PARTY_AUTH_ERROR")
            #expect(try await streams.quarantine.state(of: route).fault == "THIRD_PARTY_AUTH_ERROR")
            _ = try await stage.ask("two") { $0.thirdPartyAuthError = RateLimitRequest.thirdPartyAuthRestored }
            #expect(try await streams.routes.state(of: route).thirdPartyAuthError == nil)
            // An operator's word stands, whatever a provider says.
            try await streams.routes.control(route, .pause)
            #expect(try await stage.ask("one") { $0.fault = RouteFault(.configuration, "BadTopic") }.isPaused)
            #expect(try await streams.routes.state(of: route).stop == .byOperator)
            // An operator who pauses a route that is stopped already holds it himself.
            try await streams.routes.control(route, .resume)
            _ = try await stage.ask("one") { $0.fault = RouteFault(.configuration, "BadTopic") }
            try await streams.routes.control(route, .pause)
            #expect(try await streams.routes.state(of: route).stop == .byOperator)
        }
    }

    @Test func `A limiter has room for so many members, and one that left makes room`() async throws {
        try await StreamsFixture.with { fixture in
            let stage = LeaseStage(fixture, rate: 100_000)
            for member in 0..<StreamLimits.rateLimitMembersMax {
                _ = try await stage.ask("m\(member)") { $0.use = 1 }
            }
            stage.now += 100_000
            #expect(try await stage.ask("late") { $0.use = 1 }.permits == 0)
            stage.now += 200_000
            #expect(try await stage.ask("late") { $0.use = 1 }.permits == 1)
        }
    }

    @Test func `A send's limiter is forgotten after its last use, a route's is not`() async throws {
        try await StreamsFixture.with { fixture in
            let stage = LeaseStage(fixture, rate: 10)
            _ = try await stage.ask("one")
            let pace = RateLimit(ofSend: "shop/s", tag: fixture.keys.tag)
            let loop = MultiThreadedEventLoopGroup.singleton.any()
            _ = try await fixture.streams.rateLimits.request(
                RateLimitRequest(),
                of: pace,
                by: "one",
                ratePerSecond: 5,
                on: loop
            ).get()
            func timeToLive(_ limiter: RateLimit) async throws -> Int64? {
                try await fixture.client.send(.init("PTTL", .text(limiter.key)), on: limiter.tag).root.integer
            }
            #expect(try await timeToLive(stage.limiter) == -1)
            let left = try await timeToLive(pace) ?? 0
            #expect((1...RateLimit.sendRetentionMilliseconds).contains(left))
        }
    }
}
