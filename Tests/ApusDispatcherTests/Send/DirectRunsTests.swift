import NIOCore
import Testing

@testable import ApusDispatcher

@Suite struct DirectRunsTests {
    private static func time(_ milliseconds: Int64) -> NIODeadline {
        .uptimeNanoseconds(0) + .milliseconds(milliseconds)
    }

    private static func begun(_ count: Int) -> DirectRuns {
        var runs = DirectRuns()
        for _ in 0..<count { runs.begin() }
        return runs
    }

    @Test func `A route of which nothing has ended yet has few under way`() {
        #expect(Self.begun(DirectRuns.slowMax - 1).hasRoom(now: Self.time(0)))
        #expect(!Self.begun(DirectRuns.slowMax).hasRoom(now: Self.time(0)))
    }

    @Test func `A route that keeps up has many under way, but not any number`() {
        var runs = Self.begun(DirectRuns.slowMax + 1)
        runs.end(begunAt: Self.time(0), now: Self.time(50))
        #expect(runs.count == DirectRuns.slowMax && runs.hasRoom(now: Self.time(60)))
        while runs.count < DirectRuns.keepingUpMax { runs.begin() }
        #expect(!runs.hasRoom(now: Self.time(60)))
    }

    @Test func `A route of which nothing ends for a second has few under way until something ends`() {
        var runs = Self.begun(2 * DirectRuns.slowMax)
        runs.end(begunAt: Self.time(0), now: Self.time(50))
        #expect(runs.hasRoom(now: Self.time(1_049)))
        #expect(!runs.hasRoom(now: Self.time(1_050)))
        runs.end(begunAt: Self.time(1_040), now: Self.time(1_100))
        #expect(runs.hasRoom(now: Self.time(1_100)))
    }

    @Test func `A slow route has few under way until its sends are quick again`() {
        var runs = Self.begun(4 * DirectRuns.slowMax)
        for index in 0..<100 { runs.end(begunAt: Self.time(0), now: Self.time(5_000 + Int64(index))) }
        #expect(runs.count > DirectRuns.slowMax && !runs.hasRoom(now: Self.time(5_100)))
        for _ in 0..<100 { runs.end(begunAt: Self.time(5_100), now: Self.time(5_150)) }
        #expect(runs.count > DirectRuns.slowMax && runs.hasRoom(now: Self.time(5_150)))
    }
}
