import ApusProviders
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

@testable import ApusDispatcher

@Suite struct RouteRateLimitTests {
    @Test(arguments: [1, 6_000, 300_000, 600_000])
    func `D81 In any minute a limiter allows its rate and what its bucket holds`(perMinute: Int) {
        let limiter = RateLimit(ofSend: "shop/route", tag: HashTag(ofKey: "{1}"))
        let rate = RouteRateLimit(limiter: limiter, rate: .perMinute(perMinute)).ratePerSecond ?? .infinity
        let most = rate * (60 + StreamLimits.rateLimitBurstSeconds)
        #expect(most > Double(perMinute) - 0.001 && most < Double(perMinute) + 0.001)
        #expect(RouteRateLimit(limiter: limiter, rate: .perSecond(7)).ratePerSecond == 7)
        #expect(RouteRateLimit(limiter: limiter, rate: .unlimited).ratePerSecond == nil)
    }
}
