import ApusCore
import ApusStreams
import Testing

@testable import ApusDispatcher

@Suite struct TokenBudgetTests {
    private static let second: UInt64 = 1_000_000_000
    private static let interval: UInt64 = 20_000_000

    private func leased(_ count: Int?, at now: UInt64 = 0) -> TokenBudget {
        var budget = TokenBudget()
        budget.granted(RateLimitGrant(permits: count), askedAt: now, now: now)
        return budget
    }

    private static func refusal(
        _ scope: Deferral.Scope,
        _ reason: Reason = .rateLimited,
        retryAfter: Int64? = nil,
    ) -> DeliveryOutcome {
        .deferred(Deferral(reason, scope: scope, retryAfterMilliseconds: retryAfter))
    }

    @Test func `Nothing goes out before the first lease, nor when the last one is too old`() {
        var budget = TokenBudget()
        #expect(budget.available(.express, now: 0) == 0 && budget.hold(.express, now: 0) == .unknown)
        budget.granted(RateLimitGrant(permits: 50), askedAt: 0, now: Self.interval)
        #expect(budget.available(.express, now: Self.interval) == 50)
        #expect(budget.available(.express, now: Self.second / 4) == 0)
        #expect(budget.hold(.express, now: Self.second / 4) == .unknown)
    }

    @Test func `Without a limit everything goes out for less than a second after the last lease`() {
        let budget = self.leased(nil)
        #expect(budget.available(.bulk, now: Self.second / 2) == .max)
        #expect(budget.available(.bulk, now: Self.second) == 0)
    }

    @Test func `A fault of the route stops everything until Redis has it, and a lease tells the route's state`() {
        var budget = self.leased(nil)
        let fault = RouteFault(.configuration, "BadTopic")
        budget.record(fault)
        #expect(budget.available(.express, now: 0) == 0 && budget.hold(.bulk, now: 0) == .paused)
        #expect(budget.isClosed(now: 0) && budget.hasNews)
        // A lease that was asked for before knows nothing of it.
        budget.granted(RateLimitGrant(permits: nil), askedAt: 0, now: Self.interval)
        #expect(budget.available(.bulk, now: Self.interval) == 0)
        let lost = budget.request(waiting: 5, now: Self.interval)
        #expect(lost.fault == fault && !budget.hasNews)
        budget.failed(lost)
        #expect(budget.hasNews && budget.isClosed(now: 5 * Self.second))
        let told = budget.request(waiting: 5, now: 2 * Self.interval)
        #expect(told.fault == fault)
        var paused = RateLimitGrant(permits: nil)
        paused.isPaused = true
        budget.granted(paused, askedAt: 2 * Self.interval, now: 2 * Self.interval)
        #expect(budget.available(.bulk, now: 2 * Self.interval) == 0 && !budget.hasNews)
        #expect(budget.request(waiting: 5, now: 3 * Self.interval).fault == nil)
        // An operator has let it go on.
        budget.granted(RateLimitGrant(permits: nil), askedAt: 3 * Self.interval, now: 3 * Self.interval)
        #expect(budget.available(.bulk, now: 3 * Self.interval) == .max)
    }

    @Test func `A late lease grants nothing`() {
        var budget = TokenBudget()
        budget.granted(RateLimitGrant(permits: 50), askedAt: 0, now: 5 * Self.second)
        #expect(budget.available(.bulk, now: 5 * Self.second) == 0)
        #expect(budget.request(waiting: 10, now: 5 * Self.second).held == 0)
    }

    @Test func `Bulk leaves a tenth of a lease to express, and only once`() {
        var budget = self.leased(40)
        #expect(budget.available(.bulk, now: 0) == 36 && budget.available(.express, now: 0) == 40)
        budget.use(36)
        #expect(budget.available(.bulk, now: 0) == 0 && budget.available(.express, now: 0) == 4)
        #expect(budget.hold(.bulk, now: 0) == .rate && budget.hold(.express, now: 0) == nil)
        // What is kept is not told as being there for bulk.
        let request = budget.request(waiting: 100, now: Self.interval)
        #expect(request.held == 0 && request.use == 100 && request.used == 36)
        budget.granted(RateLimitGrant(permits: 40), askedAt: Self.interval, now: Self.interval)
        #expect(budget.available(.bulk, now: Self.interval) == 40)
        budget.use(44)
        #expect(budget.available(.express, now: Self.interval) == 0)
    }

    @Test func `The permits used in one interval are requested ahead for the next`() {
        var budget = self.leased(40)
        budget.use(7)
        #expect(budget.request(waiting: 0, now: Self.interval).ahead == 7)
        #expect(budget.request(waiting: 0, now: 2 * Self.interval).ahead == 0)
    }

    @Test func `No more permits can be used than were leased`() async {
        await #expect(processExitsWith: .failure) {
            var budget = TokenBudget()
            budget.granted(RateLimitGrant(permits: 1), askedAt: 0, now: 0)
            budget.use(2)
        }
    }

    @Test func `An operator's pause holds from the next lease on`() {
        var budget = self.leased(nil)
        var paused = RateLimitGrant(permits: 0)
        paused.isPaused = true
        budget.granted(paused, askedAt: Self.interval, now: Self.interval)
        #expect(budget.hold(.express, now: Self.interval) == .paused && budget.isClosed(now: Self.interval))
        budget.granted(RateLimitGrant(permits: nil), askedAt: 2 * Self.interval, now: 2 * Self.interval)
        #expect(budget.hold(.express, now: 2 * Self.interval) == nil)
    }

    // MARK: Refusals

    @Test func `Only a refusal that concerns the whole project counts`() {
        var budget = self.leased(nil)
        for outcome in [
            Self.refusal(.device, retryAfter: 5_000), Self.refusal(.message),
            Self.refusal(.route, .providerUnavailable),
            .accepted, .lost(.timeout), .rejected(.payload), .misconfigured(.credential),
        ] {
            budget.record(outcome, now: 0, draw: 0)
        }
        #expect(!budget.hasNews && budget.hold(.bulk, now: 0) == nil)
        #expect(budget.request(waiting: 0, now: 0).refusals == 0)
        budget.record(Self.refusal(.route), now: 0, draw: 0)
        #expect(budget.hasNews && budget.hold(.bulk, now: 0) == nil)
        #expect(budget.request(waiting: 0, now: 0).refusals == 1)
        #expect(!budget.hasNews)
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
        var budget = self.leased(nil)
        budget.record(Self.refusal(.route, retryAfter: asked), now: 0, draw: draw)
        #expect(budget.hold(.express, now: 0) == .cut && budget.isClosed(now: 0))
        #expect(budget.request(waiting: 0, now: 0).pauseMilliseconds == cut)
    }

    @Test func `Requests refused with the same Retry-After draw their jitter once`() {
        var budget = self.leased(nil)
        budget.record(Self.refusal(.route, retryAfter: 10_000), now: 0, draw: 0.5)
        for _ in 0..<500 { budget.record(Self.refusal(.route, retryAfter: 10_000), now: 1_000_000, draw: 0.999) }
        let request = budget.request(waiting: 0, now: 2_000_000)
        #expect(request.pauseMilliseconds == 11_000 && request.refusals == 501)
    }

    @Test func `A report that could not be sent goes with the next request, and stops the route until then`() {
        var budget = self.leased(nil)
        budget.record(Self.refusal(.route, retryAfter: 2_000), now: 0, draw: 0)
        let request = budget.request(waiting: 0, now: 0)
        budget.failed(request)
        #expect(budget.hasNews && budget.hold(.bulk, now: Self.second) == .cut)
        #expect(budget.request(waiting: 0, now: Self.interval) == request)
        // A lease says for how long the whole fleet is stopped: another's pause may be longer.
        var lease = RateLimitGrant(permits: 0)
        lease.pauseMilliseconds = 3_000
        budget.granted(lease, askedAt: Self.second, now: Self.second)
        #expect(budget.hold(.bulk, now: 3 * Self.second) == .cut)
        budget.granted(RateLimitGrant(permits: nil), askedAt: 4 * Self.second, now: 4 * Self.second)
        #expect(budget.hold(.bulk, now: 4 * Self.second) == nil)
    }

    @Test func `The first connection ends the connection fault of an earlier process, and room alone does not`() {
        var budget = TokenBudget()
        budget.recordConnectionFaultOver()
        #expect(!budget.hasNews)
        budget.record(connectionFault: nil)
        #expect(budget.request(waiting: 0, now: 0).connectionFault == RateLimitRequest.noLonger)
        budget.record(connectionFault: nil)
        #expect(!budget.hasNews)
        budget.record(connectionFault: "refused")
        #expect(budget.request(waiting: 0, now: 0).connectionFault == "refused")
        budget.recordConnectionFaultOver()
        #expect(budget.request(waiting: 0, now: 0).connectionFault == RateLimitRequest.noLonger)
        budget.recordConnectionFaultOver()
        #expect(!budget.hasNews)
    }

    @Test func `D82 a device with too many messages waits, its route does not`() {
        var budget = self.leased(nil)
        var circuit = RouteCircuit()
        for _ in 0..<100 {
            let outcome = Self.refusal(.device, retryAfter: 60_000)
            budget.record(outcome, now: 0, draw: 0)
            circuit.record(RouteCircuit.Answer(outcome), now: 0, draw: 0)
        }
        #expect(budget.hold(.bulk, now: 0) == nil && circuit.state == .closed)
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
