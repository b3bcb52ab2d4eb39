import ApusStreams
import NIOCore
import Testing

@testable import ApusDispatcher

/// Tests how event loops of one process request grants together, and divide them.
@Suite struct SharedRateLimitsTests {
    private static func refused(_ word: String) -> RateLimitRequest.SubrouteAnswer {
        .refused(word: word, waitMilliseconds: 60_000)
    }

    private func request(use: Int, held: Int = 0, ahead: Int = 0) -> RateLimitRequest {
        var request = RateLimitRequest()
        (request.use, request.held, request.ahead) = (use, held, ahead)
        return request
    }

    private func parts(_ permits: Int?, _ requests: [RateLimitRequest]) -> [Int?] {
        RateLimitGrant(permits: permits).divided(among: requests).map(\.permits)
    }

    @Test func `A loop's surplus does not hide what another one lacks`() {
        let whole = RateLimitRequest(of: [
            self.request(use: 2, held: 10, ahead: 5), self.request(use: 7, held: 1, ahead: 3),
        ])
        #expect(whole.use == 6 && whole.held == 0 && whole.ahead == 3)
    }

    @Test func `Reports add up, and the worst of them counts`() {
        var (one, two) = (self.request(use: 0), self.request(use: 0))
        (one.used, one.refusals, one.pauseMilliseconds) = (3, 1, 500)
        (two.used, two.refusals, two.pauseMilliseconds) = (4, 2, 100)
        one.connectionFault = "refused"
        two.connectionFault = RateLimitRequest.noLonger
        let (no, bad) = (Self.refused("no"), Self.refused("bad"))
        one.subroutes = ["a": .accepted, "b": no]
        two.subroutes = ["a": bad]
        let whole = RateLimitRequest(of: [one, two])
        #expect(whole.used == 7 && whole.refusals == 3 && whole.pauseMilliseconds == 500)
        #expect(whole.connectionFault == RateLimitRequest.noLonger, "one reaches the provider")
        #expect(whole.subroutes == ["a": bad, "b": no])
    }

    @Test func `Permits are divided evenly, no loop gets more than it lacks, and what is ahead comes last`() {
        let (small, large) = (self.request(use: 2, ahead: 4), self.request(use: 100))
        #expect(self.parts(10, [small, large]) == [2, 8])
        #expect(self.parts(1, [small, large]) == [1, 0])
        #expect(self.parts(105, [small, large]) == [5, 100])
        #expect(self.parts(0, [small, large]) == [0, 0])
        #expect(self.parts(nil, [small, large]) == [nil, nil])
        #expect(self.parts(7, [large]) == [7])
    }

    @Test func `Loops of one process ask at the same moments, other processes at others`() {
        func end(_ now: UInt64, asked: UInt64, phase: UInt64) -> UInt64 {
            let wait = RateLimitClient.wait(
                for: .nanoseconds(20),
                phase: phase,
                askedAt: .uptimeNanoseconds(asked),
                now: .uptimeNanoseconds(now)
            )
            return now + UInt64(wait.nanoseconds)
        }
        #expect(end(1_001, asked: 1_000, phase: 0) == 1_020 && end(1_009, asked: 1_008, phase: 0) == 1_020)
        // Not twice in one interval.
        #expect(end(1_016, asked: 1_015, phase: 0) == 1_040)
        #expect(end(1_001, asked: 1_000, phase: 7) == 1_013)
    }
}
