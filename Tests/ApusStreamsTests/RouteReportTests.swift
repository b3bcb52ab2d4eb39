import ApusCore
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

/// Tests the report of routes that no dispatcher has configured any more.
@Suite struct RouteReportTests {
    private static func numbers(_ streams: SendStreams, _ count: Int) async throws -> [RouteNumber] {
        var numbers: [RouteNumber] = []
        for index in 0..<count {
            let app = try AppID("app\(index)")
            let route = Route(app: app, provider: .apns, environment: .production)
            numbers.append(try await streams.routes.number(of: route))
        }
        return numbers
    }

    @Test func `A route is absent when no dispatcher has had it for long enough, until one has it`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let (first, second) = (fixture.streams.routes, fixture.streams.routes)
            let numbers = try await Self.numbers(fixture.streams, 3)
            // One dispatcher has the first, another the second, nobody the third.
            #expect(try await first.report([numbers[0]], absenceMilliseconds: 1_000) == [])
            var absent: [RouteNumber] = []
            try await eventually("the third is absent") {
                _ = try await second.report([numbers[1]], absenceMilliseconds: 1_000)
                absent = try await first.report([numbers[0]], absenceMilliseconds: 1_000)
                return !absent.isEmpty
            }
            #expect(absent == [numbers[2]])
            #expect(try await second.report(numbers, absenceMilliseconds: 1_000) == [])
            #expect(try await first.report([numbers[0]], absenceMilliseconds: 1_000) == [])
            #expect(try await fixture.streams.routes.all().map(\.number) == numbers)
        }
    }

    @Test func `A route that no dispatcher has, while others report, is shown as not configured`() async throws {
        try await StreamsFixture.with { fixture in
            let routes = fixture.streams.routes
            let numbers = try await Self.numbers(fixture.streams, 2)
            #expect(try await routes.all().allSatisfy(\.isConfigured), "nobody has reported yet")
            #expect(try await routes.report(numbers, absenceMilliseconds: 3_600_000) == [])
            let back = RedisCommand("HINCRBY", .text(StreamKeys.routes), .text("@\(numbers[1])"), .integer(-120_000))
            _ = try await fixture.client.send(back, on: HashTag(ofKey: StreamKeys.routes))
            let found = try await routes.all()
            #expect(found.map(\.number) == numbers && found[0].isConfigured)
            let absence = try #require(found[1].unconfiguredMilliseconds)
            #expect((120_000..<200_000).contains(absence) && !found[1].isRemoved)
            let state = try await routes.state(of: numbers[1])
            #expect(state.obstacles(nil, unconfiguredMilliseconds: absence) == [.notConfigured(milliseconds: absence)])
            // A dispatcher that has it again puts that right.
            _ = try await routes.report(numbers, absenceMilliseconds: 3_600_000)
            #expect(try await routes.all().allSatisfy(\.isConfigured))
        }
    }

    @Test func `After a time without reports no route is absent`() async throws {
        try await StreamsFixture.with { fixture in
            let routes = fixture.streams.routes
            let numbers = try await Self.numbers(fixture.streams, 1)
            #expect(try await routes.report([], absenceMilliseconds: 60_000) == [])
            // Everybody was off for an hour, by the stamps.
            let tag = HashTag(ofKey: StreamKeys.routes)
            for field in ["#asked", "@\(numbers[0])"] {
                let back = RedisCommand("HINCRBY", .text(StreamKeys.routes), .text(field), .integer(-3_600_000))
                _ = try await fixture.client.send(back, on: tag)
            }
            #expect(try await routes.report([], absenceMilliseconds: 60_000) == [])
            // Only the route was: somebody has asked all the while.
            let back = RedisCommand("HINCRBY", .text(StreamKeys.routes), .text("@\(numbers[0])"), .integer(-3_600_000))
            _ = try await fixture.client.send(back, on: tag)
            #expect(try await routes.report([], absenceMilliseconds: 60_000) == numbers)
            // Stamps of a clock that has gone back since.
            let ahead = RedisCommand("HINCRBY", .text(StreamKeys.routes), .text("@\(numbers[0])"), .integer(7_200_000))
            _ = try await fixture.client.send(ahead, on: tag)
            #expect(try await routes.report([], absenceMilliseconds: 60_000) == [])
        }
    }
}
