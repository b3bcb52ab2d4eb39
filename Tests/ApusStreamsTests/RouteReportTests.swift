import ApusCore
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

/// Tests the report of routes that no dispatcher has configured any more.
@Suite struct RouteReportTests {
    private static func route(_ index: Int) throws -> Route {
        Route(app: try AppID("app\(index)"), provider: .apns, environment: .production)
    }

    private static func numbered(_ streams: SendStreams, _ count: Int) async throws -> [NumberedRoute] {
        var numbered: [NumberedRoute] = []
        for index in 0..<count {
            let route = try Self.route(index)
            numbered.append(
                NumberedRoute(number: try await streams.routes.number(of: route), name: route.description)
            )
        }
        return numbered
    }

    private static func send(_ fixture: StreamsFixture, _ name: String, _ words: RedisArgument...) async throws {
        let command = RedisCommand(name, [.text(StreamKeys.routes)] + words)
        _ = try await fixture.client.send(command, on: HashTag(ofKey: StreamKeys.routes))
    }

    @Test func `A route is absent when no dispatcher has had it for long enough, until one has it`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let (first, second) = (fixture.streams.routes, fixture.streams.routes)
            let known = try await Self.numbered(fixture.streams, 3)
            // One dispatcher has the first, another the second, nobody the third.
            #expect(try await first.report([known[0]], absenceMilliseconds: 1_000).absent == [])
            var absent: [RouteNumber] = []
            try await eventually("the third is absent") {
                _ = try await second.report([known[1]], absenceMilliseconds: 1_000)
                absent = try await first.report([known[0]], absenceMilliseconds: 1_000).absent
                return !absent.isEmpty
            }
            #expect(absent == [known[2].number])
            #expect(try await second.report(known, absenceMilliseconds: 1_000).absent == [])
            #expect(try await first.report([known[0]], absenceMilliseconds: 1_000).absent == [])
            #expect(try await fixture.streams.routes.all().map(\.number) == known.map(\.number))
        }
    }

    @Test func `A route that no dispatcher has, while others report, is shown as not configured`() async throws {
        try await StreamsFixture.with { fixture in
            let routes = fixture.streams.routes
            let known = try await Self.numbered(fixture.streams, 2)
            #expect(try await routes.all().allSatisfy(\.isConfigured), "nobody has reported yet")
            #expect(try await routes.report(known, absenceMilliseconds: 3_600_000).absent == [])
            try await Self.send(fixture, "HINCRBY", .text("@\(known[1].number)"), .integer(-120_000))
            let found = try await routes.all()
            #expect(found.map(\.number) == known.map(\.number) && found[0].isConfigured)
            let absence = try #require(found[1].unconfiguredMilliseconds)
            #expect((120_000..<200_000).contains(absence))
            let state = try await routes.state(of: known[1].number)
            #expect(state.obstacles(nil, unconfiguredMilliseconds: absence) == [.notConfigured(milliseconds: absence)])
            // A dispatcher that has it again puts that right.
            _ = try await routes.report(known, absenceMilliseconds: 3_600_000)
            #expect(try await routes.all().allSatisfy(\.isConfigured))
        }
    }

    @Test func `After a time without reports no route is absent`() async throws {
        try await StreamsFixture.with { fixture in
            let routes = fixture.streams.routes
            let known = try await Self.numbered(fixture.streams, 1)
            #expect(try await routes.report([], absenceMilliseconds: 60_000).absent == [])
            // Everybody was off for an hour, by the stamps.
            for field in ["#asked", "@\(known[0].number)"] {
                try await Self.send(fixture, "HINCRBY", .text(field), .integer(-3_600_000))
            }
            #expect(try await routes.report([], absenceMilliseconds: 60_000).absent == [])
            // Only the route was: somebody has asked all the while.
            try await Self.send(fixture, "HINCRBY", .text("@\(known[0].number)"), .integer(-3_600_000))
            #expect(try await routes.report([], absenceMilliseconds: 60_000).absent == known.map(\.number))
            // Stamps of a clock that has gone back since.
            try await Self.send(fixture, "HINCRBY", .text("@\(known[0].number)"), .integer(7_200_000))
            #expect(try await routes.report([], absenceMilliseconds: 60_000).absent == [])
        }
    }

    @Test func `A route that Redis has forgotten gets its number back, and the next new route a greater one`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let routes = fixture.streams.routes
            let known = try await Self.numbered(fixture.streams, 3)
            #expect(try await routes.report(known, absenceMilliseconds: 60_000) == RouteReport())
            // Redis comes back as it was before the last two of them were numbered.
            try await Self.send(fixture, "HDEL", .text(known[1].name), .text(known[2].name))
            try await Self.send(fixture, "HSET", "#", .integer(Int(known[0].number.value)))
            #expect(try await routes.report(known, absenceMilliseconds: 60_000) == RouteReport())
            #expect(try await routes.all() == known)
            let next = try await routes.number(of: try Self.route(7))
            #expect(next.value == known[2].number.value + 1)
            for (index, route) in known.enumerated() {
                #expect(try await routes.number(of: try Self.route(index)) == route.number)
            }
        }
    }

    @Test func `A reported number does not replace another, and a route cannot have that of another`() async throws {
        try await StreamsFixture.with { fixture in
            let routes = fixture.streams.routes
            let known = try await Self.numbered(fixture.streams, 2)
            let (other, new) = (try Self.route(0).description, try Self.route(7).description)
            let reported = [
                // Redis has another number for the first, and the number of the second is another route's.
                NumberedRoute(number: RouteNumber(9), name: other),
                NumberedRoute(number: known[1].number, name: new), known[1],
            ]
            let report = try await routes.report(reported, absenceMilliseconds: 60_000)
            #expect(report.absent == [] && report.contradicted == [other, new])
            #expect(try await routes.all() == known)
            #expect(try await routes.number(of: try Self.route(7)) == RouteNumber(10))
        }
    }
}
