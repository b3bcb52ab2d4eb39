import ApusCore
import ApusStreams
import Testing

@testable import ApusDispatcher

@Suite struct TokenBucketTests {
    private static let second: UInt64 = 1_000_000_000
    private static let interval: UInt64 = 20_000_000

    private func granted(_ count: Int?, at now: UInt64 = 0) -> TokenBucket {
        var bucket = TokenBucket()
        bucket.granted(RateLimitGrant(permits: count), askedAt: now, now: now)
        return bucket
    }

    private static func refusal(
        _ scope: Deferral.Scope,
        _ reason: Reason = .rateLimited,
        retryAfter: Int64? = nil,
    ) -> DeliveryOutcome {
        .deferred(Deferral(reason, scope: scope, retryAfterMilliseconds: retryAfter))
    }

    @Test func `Nothing goes out before the first grant, nor when the last one is too old`() {
        var bucket = TokenBucket()
        #expect(bucket.available(.express, now: 0) == 0 && bucket.hold(.express, now: 0) == .unknown)
        bucket.granted(RateLimitGrant(permits: 50), askedAt: 0, now: Self.interval)
        #expect(bucket.available(.express, now: Self.interval) == 50)
        #expect(bucket.available(.express, now: Self.second / 4) == 0)
        #expect(bucket.hold(.express, now: Self.second / 4) == .unknown)
    }

    @Test func `Without a limit everything goes out for less than a second after the last grant`() {
        let bucket = self.granted(nil)
        #expect(bucket.available(.bulk, now: Self.second / 2) == .max)
        #expect(bucket.available(.bulk, now: Self.second) == 0)
    }

    @Test func `A fault of the route stops everything until Redis has it, and a grant tells the route's state`() {
        var bucket = self.granted(nil)
        let fault = RouteFault(.configuration, "BadTopic")
        bucket.record(fault)
        #expect(bucket.available(.express, now: 0) == 0 && bucket.hold(.bulk, now: 0) == .paused)
        #expect(bucket.isClosed(now: 0) && bucket.hasNews)
        // A grant that was asked for before knows nothing of it.
        bucket.granted(RateLimitGrant(permits: nil), askedAt: 0, now: Self.interval)
        #expect(bucket.available(.bulk, now: Self.interval) == 0)
        let lost = bucket.request(waiting: 5, now: Self.interval)
        #expect(lost.fault == fault && !bucket.hasNews)
        bucket.failed(lost)
        #expect(bucket.hasNews && bucket.isClosed(now: 5 * Self.second))
        let told = bucket.request(waiting: 5, now: 2 * Self.interval)
        #expect(told.fault == fault)
        var paused = RateLimitGrant(permits: nil)
        paused.isPaused = true
        bucket.granted(paused, askedAt: 2 * Self.interval, now: 2 * Self.interval)
        #expect(bucket.available(.bulk, now: 2 * Self.interval) == 0 && !bucket.hasNews)
        #expect(bucket.request(waiting: 5, now: 3 * Self.interval).fault == nil)
        // An operator has let it go on.
        bucket.granted(RateLimitGrant(permits: nil), askedAt: 3 * Self.interval, now: 3 * Self.interval)
        #expect(bucket.available(.bulk, now: 3 * Self.interval) == .max)
    }

    @Test func `A late grant grants nothing`() {
        var bucket = TokenBucket()
        bucket.granted(RateLimitGrant(permits: 50), askedAt: 0, now: 5 * Self.second)
        #expect(bucket.available(.bulk, now: 5 * Self.second) == 0)
        #expect(bucket.request(waiting: 10, now: 5 * Self.second).held == 0)
    }

    @Test func `Bulk leaves a tenth of a grant to express, and only once`() {
        var bucket = self.granted(40)
        #expect(bucket.available(.bulk, now: 0) == 36 && bucket.available(.express, now: 0) == 40)
        bucket.use(36)
        #expect(bucket.available(.bulk, now: 0) == 0 && bucket.available(.express, now: 0) == 4)
        #expect(bucket.hold(.bulk, now: 0) == .rate && bucket.hold(.express, now: 0) == nil)
        // The permits kept for express are not reported as available for bulk.
        let request = bucket.request(waiting: 100, now: Self.interval)
        #expect(request.held == 0 && request.use == 100 && request.used == 36)
        bucket.granted(RateLimitGrant(permits: 40), askedAt: Self.interval, now: Self.interval)
        #expect(bucket.available(.bulk, now: Self.interval) == 40)
        bucket.use(44)
        #expect(bucket.available(.express, now: Self.interval) == 0)
    }

    @Test func `The permits used in one interval are requested ahead for the next`() {
        var bucket = self.granted(40)
        bucket.use(7)
        #expect(bucket.request(waiting: 0, now: Self.interval).ahead == 7)
        #expect(bucket.request(waiting: 0, now: 2 * Self.interval).ahead == 0)
    }

    @Test func `No more permits can be used than were granted`() async {
        await #expect(processExitsWith: .failure) {
            var bucket = TokenBucket()
            bucket.granted(RateLimitGrant(permits: 1), askedAt: 0, now: 0)
            bucket.use(2)
        }
    }

    @Test func `An operator's pause holds from the next grant on`() {
        var bucket = self.granted(nil)
        var paused = RateLimitGrant(permits: 0)
        paused.isPaused = true
        bucket.granted(paused, askedAt: Self.interval, now: Self.interval)
        #expect(bucket.hold(.express, now: Self.interval) == .paused && bucket.isClosed(now: Self.interval))
        bucket.granted(RateLimitGrant(permits: nil), askedAt: 2 * Self.interval, now: 2 * Self.interval)
        #expect(bucket.hold(.express, now: 2 * Self.interval) == nil)
    }

    // MARK: Refusals

    @Test func `Only a refusal that concerns the whole project counts`() {
        var bucket = self.granted(nil)
        for outcome in [
            Self.refusal(.device, retryAfter: 5_000), Self.refusal(.message),
            Self.refusal(.route, .providerUnavailable),
            .accepted, .lost(.timeout), .rejected(.payload), .misconfigured(.credential),
        ] {
            bucket.record(outcome, now: 0, draw: 0)
        }
        #expect(!bucket.hasNews && bucket.hold(.bulk, now: 0) == nil)
        #expect(bucket.request(waiting: 0, now: 0).refusals == 0)
        bucket.record(Self.refusal(.route), now: 0, draw: 0)
        #expect(bucket.hasNews && bucket.hold(.bulk, now: 0) == nil)
        #expect(bucket.request(waiting: 0, now: 0).refusals == 1)
        #expect(!bucket.hasNews)
    }

    @Test(
        arguments: [
            (17_000, 0.0, 17_000), (17_000, 0.5, 18_700), (1, 0.0, 1_000), (-5, 0.0, 1_000),
            (1_000_000_000, 0.0, 3_600_000),
        ] as [(Int64, Double, Int64)]
    )
    func `Retry-After stops the route at once, within limits and spread by a fifth`(
        asked: Int64,
        draw: Double,
        cut: Int64
    ) {
        var bucket = self.granted(nil)
        bucket.record(Self.refusal(.route, retryAfter: asked), now: 0, draw: draw)
        #expect(bucket.hold(.express, now: 0) == .cut && bucket.isClosed(now: 0))
        #expect(bucket.request(waiting: 0, now: 0).pauseMilliseconds == cut)
    }

    @Test func `Requests refused with the same Retry-After draw their jitter once`() {
        var bucket = self.granted(nil)
        bucket.record(Self.refusal(.route, retryAfter: 10_000), now: 0, draw: 0.5)
        for _ in 0..<500 { bucket.record(Self.refusal(.route, retryAfter: 10_000), now: 1_000_000, draw: 0.999) }
        let request = bucket.request(waiting: 0, now: 2_000_000)
        #expect(request.pauseMilliseconds == 11_000 && request.refusals == 501)
    }

    @Test func `A report that could not be sent goes with the next request, and stops the route until then`() {
        var bucket = self.granted(nil)
        bucket.record(Self.refusal(.route, retryAfter: 2_000), now: 0, draw: 0)
        let request = bucket.request(waiting: 0, now: 0)
        bucket.failed(request)
        #expect(bucket.hasNews && bucket.hold(.bulk, now: Self.second) == .cut)
        #expect(bucket.request(waiting: 0, now: Self.interval) == request)
        // A grant says for how long the whole fleet is stopped: another's pause may be longer.
        var grant = RateLimitGrant(permits: 0)
        grant.pauseMilliseconds = 3_000
        bucket.granted(grant, askedAt: Self.second, now: Self.second)
        #expect(bucket.hold(.bulk, now: 3 * Self.second) == .cut)
        bucket.granted(RateLimitGrant(permits: nil), askedAt: 4 * Self.second, now: 4 * Self.second)
        #expect(bucket.hold(.bulk, now: 4 * Self.second) == nil)
    }

    @Test func `The first connection ends the connection fault of an earlier process, and room alone does not`() {
        var bucket = TokenBucket()
        bucket.recordConnectionFaultOver()
        #expect(!bucket.hasNews)
        bucket.record(connectionFault: nil)
        #expect(bucket.request(waiting: 0, now: 0).connectionFault == RateLimitRequest.noLonger)
        bucket.record(connectionFault: nil)
        #expect(!bucket.hasNews)
        bucket.record(connectionFault: "refused")
        #expect(bucket.request(waiting: 0, now: 0).connectionFault == "refused")
        bucket.recordConnectionFaultOver()
        #expect(bucket.request(waiting: 0, now: 0).connectionFault == RateLimitRequest.noLonger)
        bucket.recordConnectionFaultOver()
        #expect(!bucket.hasNews)
    }

    @Test func `D82 a message of a device that has too many waits, its route does not`() {
        var bucket = self.granted(nil)
        var circuit = CircuitBreaker()
        for _ in 0..<100 {
            let outcome = Self.refusal(.device, retryAfter: 60_000)
            bucket.record(outcome, now: 0, draw: 0)
            circuit.record(CircuitBreaker.Answer(outcome), now: 0, draw: 0)
        }
        #expect(bucket.hold(.bulk, now: 0) == nil && circuit.state == .closed)
    }
}

@Suite struct SendWindowTests {
    @Test func `Bulk leaves an eighth of the window to express`() {
        var window = SendWindow(limit: 80)
        #expect(window.room(.bulk) == 70 && window.room(.express) == 80)
        window.sent(70)
        #expect(window.room(.bulk) == 0 && window.room(.express) == 10)
        window.sent(10)
        #expect(window.room(.bulk) == 0 && window.room(.express) == 0)
        window.settled(15)
        #expect(window.room(.bulk) == 5 && window.room(.express) == 15 && window.unwritten == 65)
    }
}
