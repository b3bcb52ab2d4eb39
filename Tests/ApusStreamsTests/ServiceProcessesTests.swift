import ApusRedis
import ApusTestKit
import Testing

@testable import ApusStreams

/// Tests the list of the services' processes, and which of them count as missing.
@Suite struct ServiceProcessesTests {
    private static func process(_ name: String, started: Int64, seen: Int64) -> ReportedProcess {
        ReportedProcess(
            name: name,
            service: "dispatcher",
            version: "1",
            startedMillisecondsAgo: started * 1_000,
            seenMillisecondsAgo: seen * 1_000,
        )
    }

    private static func availability(_ processes: ReportedProcess...) -> (running: [String], missing: [String]) {
        let availability = ServiceAvailability(of: "dispatcher", among: processes)
        return (availability.running.map(\.name), availability.missing.map(\.name))
    }

    @Test func `A process is missing after 15 seconds without a report`() {
        let process = Self.process("a", started: 100, seen: 15)
        #expect(Self.availability(process).running == ["a"])
        #expect(Self.availability(Self.process("a", started: 100, seen: 16)).missing == ["a"])
        #expect(ServiceAvailability(of: "feedback", among: [process]) == ServiceAvailability(of: "feedback", among: []))
    }

    @Test func `A later process replaces one that is silent, an earlier one does not`() {
        let silent = Self.process("silent", started: 500, seen: 60)
        let earlier = Self.availability(silent, Self.process("earlier", started: 61, seen: 1))
        #expect(earlier.running == ["earlier"] && earlier.missing == ["silent"])
        let later = Self.availability(silent, Self.process("later", started: 59, seen: 1))
        #expect(later.running == ["later"] && later.missing == [])
    }

    @Test func `Each process replaces one of several that are silent`() {
        let first = Self.process("first", started: 500, seen: 300)
        let second = Self.process("second", started: 500, seen: 60)
        // It started before the second fell silent, so it can only stand for the first.
        #expect(Self.availability(first, second, Self.process("c", started: 100, seen: 1)).missing == ["second"])
        #expect(Self.availability(first, second, Self.process("c", started: 50, seen: 1)).missing == ["first"])
        let both = Self.availability(
            first,
            second,
            Self.process("c", started: 50, seen: 1),
            Self.process("d", started: 100, seen: 1)
        )
        #expect(both.missing == [] && both.running == ["d", "c"])
    }

    @Test func `Processes report themselves, give a reason why they are not ready, and leave`() async throws {
        try await StreamsFixture.with { fixture in
            let processes = fixture.streams.processes
            try await processes.report(
                "host-1",
                service: "dispatcher",
                version: "1.2",
                uptimeMilliseconds: 90_000,
                problem: nil,
                encryptsRecords: true,
            )
            let problem = "redis: away\nfor long; " + String(repeating: "x", count: 1_000)
            try await processes.report(
                "host-2",
                service: "feedback",
                version: "1.3",
                uptimeMilliseconds: 0,
                problem: problem,
                refusedConfiguration: problem,
                failingRoutes: [FailingRoute(route: "shop/toy", milliseconds: 5, word: "503")],
            )
            let all = try await processes.all()
            #expect(all.map(\.name) == ["host-1", "host-2"])
            #expect(all.map(\.service) == ["dispatcher", "feedback"] && all.map(\.version) == ["1.2", "1.3"])
            #expect(all[0].problem == nil && all[0].startedMillisecondsAgo >= 90_000)
            #expect(all[0].seenMillisecondsAgo < 60_000 && all[0].startedMillisecondsAgo < 150_000)
            #expect(all[0].refusedConfiguration == nil && all[0].failingRoutes.isEmpty)
            #expect(all.map(\.encryptsRecords) == [true, false])
            #expect(all[1].problem == String(problem.prefix(StreamLimits.serviceProblemBytesMax)))
            #expect(all[1].refusedConfiguration == all[1].problem)
            #expect(all[1].failingRoutes.map(\.route) == ["shop/toy"])
            #expect(try await processes.remove("host-1"))
            #expect(try await !processes.remove("host-1"))
            #expect(try await processes.all().map(\.name) == ["host-2"])
            let stopped = try await processes.stopped()
            #expect(Array(stopped.keys) == ["dispatcher"] && stopped.values.allSatisfy { (0..<60_000).contains($0) })
        }
    }

    @Test func `A dispatcher reports failing providers, and the longest of a route's times is told`() async throws {
        try await StreamsFixture.with { fixture in
            let processes = fixture.streams.processes
            func report(_ name: String, _ problem: String?, _ routes: [FailingRoute]) async throws {
                try await processes.report(
                    name,
                    service: "dispatcher",
                    version: "1",
                    uptimeMilliseconds: 0,
                    problem: problem,
                    failingRoutes: routes
                )
            }
            let apple = "shop/apns/production"
            let short = FailingRoute(
                route: apple,
                milliseconds: 1_000,
                word: "cannot connect to push:443",
                isUnreachable: true,
            )
            let long = FailingRoute(route: apple, milliseconds: 70_000, word: "Internal\tServer\nError")
            try await report("a", "redis: away", [short])
            let many = (0..<200).map { FailingRoute(route: "app\($0)/fcm/production", milliseconds: 5, word: "503") }
            try await report("b", nil, [long] + many)
            let all = try await processes.all()
            #expect(all[0].problem == "redis: away" && all[0].failingRoutes == [short])
            #expect(all[1].problem == nil && all[1].failingRoutes.count == StreamLimits.serviceFailingRoutesMax)
            let failing = try await processes.failingRoutes()
            #expect(failing[apple]?.milliseconds == 70_000 && failing[apple]?.word == "Internal Server Error")
            #expect(failing[apple]?.isUnreachable == false)
            try await report("b", nil, [])
            #expect(try await processes.failingRoutes() == [apple: short])
        }
    }

    @Test func `What a process replaced leaves the list with it, and what it did not stays`() async throws {
        try await StreamsFixture.with { fixture in
            let processes = fixture.streams.processes
            let tag = HashTag(ofKey: StreamKeys.services)
            let time = try await fixture.client.send(RedisCommand("TIME"), on: tag).root[0].string
            let now = try #require(time.flatMap { Int64($0) }) * 1_000
            func store(_ name: String, _ service: String, startedAgo: Int64, seenAgo: Int64) async throws {
                let value = "\(service) 1 \(now - startedAgo * 1_000) \(now - seenAgo * 1_000) "
                let command = RedisCommand("HSET", .text(StreamKeys.services), .text(name), .text(value))
                _ = try await fixture.client.send(command, on: tag)
            }
            try await store("longest silent", "dispatcher", startedAgo: 900, seenAgo: 300)
            try await store("silent", "dispatcher", startedAgo: 900, seenAgo: 100)
            try await store("silent since", "dispatcher", startedAgo: 900, seenAgo: 40)
            try await store("other service", "feedback", startedAgo: 900, seenAgo: 60)
            try await store("running", "dispatcher", startedAgo: 50, seenAgo: 0)
            #expect(try await processes.remove("running"))
            #expect(try await processes.all().map(\.name) == ["longest silent", "other service", "silent since"])
            #expect(Array(try await processes.stopped().keys) == ["dispatcher"])
            // Nobody stopped one that is silent: an operator took it out of the list.
            #expect(try await processes.remove("other service"))
            #expect(Array(try await processes.stopped().keys) == ["dispatcher"])
        }
    }

    @Test func `A process is forgotten after a day, and the longest silent where there are over a thousand`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let processes = fixture.streams.processes
            let tag = HashTag(ofKey: StreamKeys.services)
            func report(_ name: String) async throws {
                try await processes.report(
                    name,
                    service: "dispatcher",
                    version: "1",
                    uptimeMilliseconds: 0,
                    problem: nil
                )
            }
            let time = try await fixture.client.send(RedisCommand("TIME"), on: tag).root[0].string
            let now = try #require(time.flatMap { Int64($0) }) * 1_000
            func store(_ name: String, seenMillisecondsAgo: Int64) async throws {
                let value = "dispatcher 1 \(now - 100_000_000) \(now - seenMillisecondsAgo) "
                let command = RedisCommand("HSET", .text(StreamKeys.services), .text(name), .text(value))
                _ = try await fixture.client.send(command, on: tag)
            }
            try await store("old", seenMillisecondsAgo: 90_000_000)
            try await store("older", seenMillisecondsAgo: 30_000_000)
            #expect(try await processes.all().map(\.name) == ["older"])
            #expect(try await processes.remove("older"))
            try await store("older", seenMillisecondsAgo: 30_000_000)
            let stop = RedisCommand("HSET", .text(StreamKeys.services), "\0feedback", .text("\(now - 90_000_000)"))
            _ = try await fixture.client.send(stop, on: tag)
            #expect(try await processes.stopped().isEmpty)
            let recent = RedisCommand("HSET", .text(StreamKeys.services), "\0feedback", .text("\(now - 3_000_000)"))
            _ = try await fixture.client.send(recent, on: tag)
            try await report("new")
            #expect(Array(try await processes.stopped().keys) == ["feedback"])
            _ = try await fixture.client.send(RedisCommand("HDEL", .text(StreamKeys.services), "\0feedback"), on: tag)
            let fields = try await fixture.client.send(RedisCommand("HKEYS", .text(StreamKeys.services)), on: tag)
            #expect(Set(fields.root.children.compactMap(\.string)) == ["older", "new"])
            for number in 0..<998 { try await store("\(number)", seenMillisecondsAgo: 0) }
            try await report("last")
            let left = try await processes.all().map(\.name)
            #expect(left.count == 1_000 && !left.contains("older") && left.contains("last"))
        }
    }
}
