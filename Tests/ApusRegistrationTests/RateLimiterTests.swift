import ApusRegistration
import Testing

private let second: Int64 = 1_000_000_000

@Suite struct RateLimiterTests {
    @Test func theRateHoldsAfterTheBurst() {
        var limiter = RateLimiter<String>(perSecond: 10, burstSeconds: 2)
        var passed = 0
        for _ in 0..<100 where limiter.refusal(of: "a", at: 0) == nil { passed += 1 }
        #expect(passed == 20)
        #expect(limiter.refusal(of: "a", at: 0) == second / 10)
        #expect(limiter.refusal(of: "a", at: second / 10 - 1) == 1)
        #expect(limiter.refusal(of: "a", at: second / 10) == nil)
        // Ten seconds at full pressure: ten a second.
        passed = 0
        for tick in 0..<10_000 where limiter.refusal(of: "a", at: second / 10 + Int64(tick + 1) * 1_000_000) == nil {
            passed += 1
        }
        #expect(passed == 100)
    }

    @Test func `Requests that come together pass or wait together, and many pass where nothing is used`() {
        var limiter = RateLimiter<String>(perSecond: 1, burstSeconds: 2)
        #expect(limiter.refusal(of: "a", at: 0) == nil)
        #expect(limiter.refusal(of: "a", at: 0, count: 2) == second)
        #expect(limiter.refusal(of: "a", at: second, count: 2) == nil)
        // Ten are more than the burst: the first of them is counted, and nothing else.
        #expect(limiter.refusal(of: "b", at: 0) == nil)
        #expect(limiter.refusal(of: "b", at: 0, count: 9, counted: 1) == nil)
        #expect(limiter.refusal(of: "b", at: 0) == 9 * second)
        #expect(limiter.refusal(of: "b", at: 7 * second, count: 9, counted: 1) == 2 * second)
    }

    @Test func othersAreNotHeldByIt() {
        var limiter = RateLimiter<Int>(perSecond: 1, burstSeconds: 0)
        #expect(limiter.refusal(of: 1, at: 5) == nil)
        #expect(limiter.refusal(of: 1, at: 5) != nil)
        #expect(limiter.refusal(of: 2, at: 5) == nil)
    }

    @Test func memoryIsBoundedAndWhoIsBeyondSharesOneAllowance() {
        var limiter = RateLimiter<Int>(perSecond: 1, burstSeconds: 0)
        for key in 0..<RateLimiter<Int>.keysMax { #expect(limiter.refusal(of: key, at: 0) == nil) }
        #expect(limiter.refusal(of: -1, at: 1) == nil)
        #expect(limiter.refusal(of: -2, at: 1) != nil)
        #expect(limiter.keyCount == RateLimiter<Int>.keysMax + 1)
        // A caller whose bucket is full again is forgotten, and there is room again.
        #expect(limiter.refusal(of: -3, at: 3 * second) == nil)
        #expect(limiter.keyCount == 1)
    }
}
