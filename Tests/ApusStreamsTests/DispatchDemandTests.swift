import ApusCore
import ApusInstallation
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

/// The numbers for an autoscaler: what waits for dispatchers, of all shards.
@Suite struct DispatchDemandTests {
    @Test func `The report is JSON with one number to scale by, and its parts`() {
        var report = DispatchDemand.Report()
        #expect(
            JSONValue.object(report.json).text == #"{"oldest_waiting_seconds":0,"backlog":0,"backlog_by_provider":{}}"#
        )
        report.oldestWaitingSeconds = 12.345_678
        report.backlog = 7
        report.backlogByProvider = [.fcm: 2, .apns: 0]
        #expect(
            JSONValue.object(report.json).text
                == #"{"oldest_waiting_seconds":12.346,"backlog":7,"backlog_by_provider":{"apns":0,"fcm":2}}"#
        )
    }

    @Test func `With too many streams as many shards as fit are asked, all in turn, and stand for all`() {
        func shards(_ streamsPerShard: Int, turn: Int) -> [Int] {
            DispatchDemand.shards(of: 5, streamsPerShard: streamsPerShard, streamsMax: 100, turn: turn)
        }
        #expect(shards(20, turn: 3) == [0, 1, 2, 3, 4])
        #expect((0..<3).map { shards(50, turn: $0) } == [[0, 1], [2, 3], [4, 0]])
        #expect((0..<3).map { shards(1_000, turn: $0) } == [[0], [1], [2]])
        #expect(shards(0, turn: 0).count == 5)
        for streams in [21, 33, 50, 101] {
            #expect(Set((0..<5).flatMap { shards(streams, turn: $0) }).count == 5)
        }
        var report = DispatchDemand.Report()
        report.oldestWaitingSeconds = 9
        report.backlog = 10
        report.backlogByProvider = [.apns: 4, .fcm: 0]
        report.scale(shards: 5, asked: 2)
        #expect(report.backlog == 25 && report.backlogByProvider == [.apns: 10, .fcm: 0])
        #expect(report.oldestWaitingSeconds == 9)
    }

    private func add(_ id: UnixMilliseconds, to stream: String, _ fixture: StreamsFixture, tag: HashTag) async throws {
        let command = RedisCommand("XADD", .text(stream), .text("\(id.value)-0"), "m", "x")
        _ = try await fixture.client.send(command, on: tag)
    }

    @Test func `Unread commands and work of all shards count, but not what is read or waits on a paused route`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let now = try await fixture.now()
            func ago(_ seconds: Int64) -> UnixMilliseconds { now.advanced(byMilliseconds: -seconds * 1_000) }
            #expect(await DispatchDemand(fixture.streams).report() == DispatchDemand.Report())
            /// Returns the report without the age, which lies between those by Redis' clock before and after it.
            func report(oldest: UnixMilliseconds) async throws -> DispatchDemand.Report? {
                let before = try await fixture.now()
                var report = await DispatchDemand(fixture.streams).report()
                let after = try await fixture.now()
                let ages = [before, after].map { Double($0.milliseconds(since: oldest)) / 1_000 }
                let seconds = try #require(report?.oldestWaitingSeconds)
                #expect((ages[0]...ages[1]).contains(seconds), "\(seconds) is not within \(ages)")
                report?.oldestWaitingSeconds = 0
                return report
            }

            let app = try AppID("demo")
            func number(_ provider: Provider) async throws -> RouteNumber {
                let route = Route(app: app, provider: provider, environment: .production)
                return try await fixture.streams.routes.number(of: route)
            }
            let (apple, google) = (try await number(.apns), try await number(.fcm))
            let (first, second) = (fixture.streams.keys(shard: 0), fixture.streams.keys(shard: 1))
            try await self.add(ago(3), to: first.mailbox(.express), fixture, tag: first.tag)
            try await self.add(ago(5), to: second.mailbox(.bulk), fixture, tag: second.tag)
            try await self.add(ago(7), to: second.plan(apple), fixture, tag: second.tag)
            try await self.add(ago(100), to: first.work(google, .bulk), fixture, tag: first.tag)
            // A dispatcher has this one in hand.
            let work = first.work(apple, .bulk)
            try await self.add(ago(60), to: work, fixture, tag: first.tag)
            _ = try await fixture.read(work, fixture.consumer("a"))
            try await self.add(ago(2), to: work, fixture, tag: first.tag)

            var expected = DispatchDemand.Report()
            expected.backlog = 5
            expected.backlogByProvider = [.apns: 2, .fcm: 1]
            #expect(try await report(oldest: ago(100)) == expected)

            try await fixture.streams.routes.control(google, .pause)
            expected.backlog = 4
            expected.backlogByProvider = [.apns: 2, .fcm: 0]
            #expect(try await report(oldest: ago(7)) == expected)
        }
    }

    @Test func `Answers are shared for a second, and there is none while Redis is away`() async throws {
        try await StreamsFixture.with { fixture in
            let demand = DispatchDemand(fixture.streams)
            #expect(await demand.report() != nil)
            await fixture.server.kill()
            #expect(await demand.report() != nil)
            try await Task.sleep(for: DispatchDemand.freshness)
            #expect(await demand.report() == nil)
        }
    }
}
