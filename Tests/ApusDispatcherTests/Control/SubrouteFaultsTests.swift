import ApusStreams
import Testing

@testable import ApusDispatcher

@Suite struct SubrouteFaultsTests {
    private static let second: UInt64 = 1_000_000_000
    private let calls = "com.example.app.voip"

    /// The seconds at which a subroute that the provider goes on refusing is asked for, of the first `count`.
    private func asked(_ faults: inout SubrouteFaults, count: UInt64, draw: Double = 0) -> [UInt64] {
        (0..<count).filter { second in
            let now = second * Self.second
            guard case .waits = faults.standing(of: self.calls, now: now) else {
                faults.recordRefusal(of: self.calls, "TopicDisallowed", now: now, draw: draw)
                return true
            }
            return false
        }
    }

    private static func refused(_ word: String, seconds: Int64) -> RateLimitRequest.SubrouteAnswer {
        .refused(word: word, waitMilliseconds: seconds * 1_000)
    }

    @Test func `D7 One refusal lets a subroute wait, and no other`() {
        var faults = SubrouteFaults()
        #expect(faults.isQuiet && faults.standing(of: self.calls, now: 0) == .open)
        faults.recordRefusal(of: self.calls, "TopicDisallowed", now: 0, draw: 0)
        #expect(!faults.isQuiet && faults.standing(of: self.calls, now: 0) == .waits(until: 60 * Self.second))
        #expect(faults.standing(of: "com.example.app", now: 0) == .open)
    }

    @Test func `A refused subroute asks after a minute, then after twice as long, at most a quarter of an hour`() {
        var faults = SubrouteFaults()
        #expect(self.asked(&faults, count: 4_000) == [0, 60, 180, 420, 900, 1_800, 2_700, 3_600])
        #expect(faults.takeNews() == [self.calls: Self.refused("TopicDisallowed", seconds: 900)])
        var early = SubrouteFaults()
        #expect(self.asked(&early, count: 100, draw: 0.99) == [0, 31, 92])
    }

    @Test func `Refusals of requests that were on the wire prolong no wait`() {
        var faults = SubrouteFaults()
        for now in 0..<100 {
            faults.recordRefusal(of: self.calls, "TopicDisallowed", now: UInt64(now), draw: 0)
        }
        #expect(faults.standing(of: self.calls, now: 100) == .waits(until: 60 * Self.second))
        #expect(faults.takeNews() == [self.calls: Self.refused("TopicDisallowed", seconds: 60)] && !faults.hasNews)
    }

    @Test func `An accepted message opens the subroute, and Redis is told`() {
        var faults = SubrouteFaults()
        faults.recordAcceptance(of: self.calls)
        #expect(!faults.hasNews)
        faults.recordRefusal(of: self.calls, "", now: 0, draw: 0)
        #expect(faults.takeNews() == [self.calls: Self.refused("unknown", seconds: 60)])
        faults.recordAcceptance(of: self.calls)
        #expect(faults.isQuiet && faults.takeNews() == [self.calls: .accepted])
    }

    @Test func `What another loop was told is asked for once, and opens when the fleet says so`() {
        var faults = SubrouteFaults()
        faults.granted([self.calls])
        #expect(faults.standing(of: self.calls, now: 0) == .asks)
        faults.granted([])
        #expect(faults.isQuiet && !faults.hasNews)
        // A grant that was asked for before the refusal says nothing of it.
        faults.recordRefusal(of: self.calls, "TopicDisallowed", now: 0, draw: 0)
        faults.granted([])
        #expect(faults.standing(of: self.calls, now: 0) == .waits(until: 60 * Self.second))
        let news = faults.takeNews()
        faults.failed(news)
        #expect(faults.takeNews() == news)
        // Redis was told and no longer names it: an operator has resumed the route.
        faults.granted([])
        #expect(faults.standing(of: self.calls, now: 0) == .open)
        // A grant that was asked for before the acceptance was reported says nothing of that.
        faults.granted([self.calls])
        faults.recordAcceptance(of: self.calls)
        faults.granted([self.calls])
        #expect(faults.standing(of: self.calls, now: 0) == .open)
    }

    @Test func `Another configuration lets refused subroutes ask at once`() {
        var faults = SubrouteFaults()
        faults.recordRefusal(of: self.calls, "TopicDisallowed", now: 0, draw: 0)
        faults.configurationChanged()
        #expect(faults.standing(of: self.calls, now: 0) == .asks)
    }
}
