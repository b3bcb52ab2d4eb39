import ApusCore
import ApusStreams
import Testing

@testable import ApusDispatcher

@Suite struct LeasedPermitsTests {
    private static let second: UInt64 = 1_000_000_000
    private static let beat: UInt64 = 20_000_000

    private func leased(_ count: Int?, at now: UInt64 = 0) -> LeasedPermits {
        var permits = LeasedPermits()
        permits.granted(Lease(permits: count), askedAt: now, now: now)
        return permits
    }

    private static func refusal(
        _ scope: Deferral.Scope,
        _ reason: Reason = .rateLimited,
        retryAfter: Int64? = nil,
    ) -> DeliveryOutcome {
        .deferred(Deferral(reason, scope: scope, retryAfterMilliseconds: retryAfter))
    }

    @Test func `Nothing goes out before the first lease, nor when the last one is too old`() {
        var permits = LeasedPermits()
        #expect(permits.available(.express, now: 0) == 0 && permits.hold(.express, now: 0) == .unknown)
        permits.granted(Lease(permits: 50), askedAt: 0, now: Self.beat)
        #expect(permits.available(.express, now: Self.beat) == 50)
        #expect(permits.available(.express, now: Self.second / 4) == 0)
        #expect(permits.hold(.express, now: Self.second / 4) == .unknown)
    }

    @Test func `Without a limit everything goes out for less than a second after the last lease`() {
        let permits = self.leased(nil)
        #expect(permits.available(.bulk, now: Self.second / 2) == .max)
        #expect(permits.available(.bulk, now: Self.second) == 0)
    }

    @Test func `A fault of the route holds everything until Redis knows of it, and a lease says how the route stands`()
    {
        var permits = self.leased(nil)
        let fault = RouteFault(.setUp, "BadTopic")
        permits.heard(fault)
        #expect(permits.available(.express, now: 0) == 0 && permits.hold(.bulk, now: 0) == .paused)
        #expect(permits.isClosed(now: 0) && permits.hasNews)
        // A lease that was asked for before knows nothing of it.
        permits.granted(Lease(permits: nil), askedAt: 0, now: Self.beat)
        #expect(permits.available(.bulk, now: Self.beat) == 0)
        let lost = permits.request(waiting: 5, now: Self.beat)
        #expect(lost.fault == fault && !permits.hasNews)
        permits.failed(lost)
        #expect(permits.hasNews && permits.isClosed(now: 5 * Self.second))
        let told = permits.request(waiting: 5, now: 2 * Self.beat)
        #expect(told.fault == fault)
        var paused = Lease(permits: nil)
        paused.isPaused = true
        permits.granted(paused, askedAt: 2 * Self.beat, now: 2 * Self.beat)
        #expect(permits.available(.bulk, now: 2 * Self.beat) == 0 && !permits.hasNews)
        #expect(permits.request(waiting: 5, now: 3 * Self.beat).fault == nil)
        // An operator has let it go on.
        permits.granted(Lease(permits: nil), askedAt: 3 * Self.beat, now: 3 * Self.beat)
        #expect(permits.available(.bulk, now: 3 * Self.beat) == .max)
    }

    @Test func `A lease that comes too late is worth nothing`() {
        var permits = LeasedPermits()
        permits.granted(Lease(permits: 50), askedAt: 0, now: 5 * Self.second)
        #expect(permits.available(.bulk, now: 5 * Self.second) == 0)
        #expect(permits.request(waiting: 10, now: 5 * Self.second).held == 0)
    }

    @Test func `Bulk leaves a tenth of a lease to express, and only once`() {
        var permits = self.leased(40)
        #expect(permits.available(.bulk, now: 0) == 36 && permits.available(.express, now: 0) == 40)
        permits.use(36)
        #expect(permits.available(.bulk, now: 0) == 0 && permits.available(.express, now: 0) == 4)
        #expect(permits.hold(.bulk, now: 0) == .rate && permits.hold(.express, now: 0) == nil)
        // What is kept is not told as being there for bulk.
        let request = permits.request(waiting: 100, now: Self.beat)
        #expect(request.held == 0 && request.use == 100 && request.used == 36)
        permits.granted(Lease(permits: 40), askedAt: Self.beat, now: Self.beat)
        #expect(permits.available(.bulk, now: Self.beat) == 40)
        permits.use(44)
        #expect(permits.available(.express, now: Self.beat) == 0)
    }

    @Test func `What was used in one beat is asked for ahead of the next`() {
        var permits = self.leased(40)
        permits.use(7)
        #expect(permits.request(waiting: 0, now: Self.beat).ahead == 7)
        #expect(permits.request(waiting: 0, now: 2 * Self.beat).ahead == 0)
    }

    @Test func `More than was leased cannot be used`() async {
        await #expect(processExitsWith: .failure) {
            var permits = LeasedPermits()
            permits.granted(Lease(permits: 1), askedAt: 0, now: 0)
            permits.use(2)
        }
    }

    @Test func `An operator's pause holds from the next lease on`() {
        var permits = self.leased(nil)
        var paused = Lease(permits: 0)
        paused.isPaused = true
        permits.granted(paused, askedAt: Self.beat, now: Self.beat)
        #expect(permits.hold(.express, now: Self.beat) == .paused && permits.isClosed(now: Self.beat))
        permits.granted(Lease(permits: nil), askedAt: 2 * Self.beat, now: 2 * Self.beat)
        #expect(permits.hold(.express, now: 2 * Self.beat) == nil)
    }

    // MARK: Refusals

    @Test func `Only a refusal that means the whole project counts`() {
        var permits = self.leased(nil)
        for outcome in [
            Self.refusal(.device, retryAfter: 5_000), Self.refusal(.message),
            Self.refusal(.route, .providerUnavailable),
            .accepted, .lost(.timeout), .rejected(.payload), .misconfigured(.credential),
        ] {
            permits.heard(outcome, now: 0, draw: 0)
        }
        #expect(!permits.hasNews && permits.hold(.bulk, now: 0) == nil)
        #expect(permits.request(waiting: 0, now: 0).refusals == 0)
        permits.heard(Self.refusal(.route), now: 0, draw: 0)
        #expect(permits.hasNews && permits.hold(.bulk, now: 0) == nil)
        #expect(permits.request(waiting: 0, now: 0).refusals == 1)
        #expect(!permits.hasNews)
    }

    @Test(
        arguments: [
            (17_000, 0.0, 17_000), (17_000, 0.5, 18_700), (1, 0.0, 1_000), (-5, 0.0, 1_000),
            (1_000_000_000, 0.0, 3_600_000),
        ] as [(Int64, Double, Int64)]
    )
    func `Retry-After stops at once, within limits and spread by a fifth`(asked: Int64, draw: Double, cut: Int64) {
        var permits = self.leased(nil)
        permits.heard(Self.refusal(.route, retryAfter: asked), now: 0, draw: draw)
        #expect(permits.hold(.express, now: 0) == .cut && permits.isClosed(now: 0))
        #expect(permits.request(waiting: 0, now: 0).cutMilliseconds == cut)
    }

    @Test func `All that comes back from the wire with the same wish is drawn for once`() {
        var permits = self.leased(nil)
        permits.heard(Self.refusal(.route, retryAfter: 10_000), now: 0, draw: 0.5)
        for _ in 0..<500 { permits.heard(Self.refusal(.route, retryAfter: 10_000), now: 1_000_000, draw: 0.999) }
        let request = permits.request(waiting: 0, now: 2_000_000)
        #expect(request.cutMilliseconds == 11_000 && request.refusals == 501)
    }

    @Test func `What could not be told is told with the next request, and stops until then`() {
        var permits = self.leased(nil)
        permits.heard(Self.refusal(.route, retryAfter: 2_000), now: 0, draw: 0)
        let request = permits.request(waiting: 0, now: 0)
        permits.failed(request)
        #expect(permits.hasNews && permits.hold(.bulk, now: Self.second) == .cut)
        #expect(permits.request(waiting: 0, now: Self.beat) == request)
        // A lease says for how long the whole fleet is stopped: another's wish may be the longer one.
        var lease = Lease(permits: 0)
        lease.cutMilliseconds = 3_000
        permits.granted(lease, askedAt: Self.second, now: Self.second)
        #expect(permits.hold(.bulk, now: 3 * Self.second) == .cut)
        permits.granted(Lease(permits: nil), askedAt: 4 * Self.second, now: 4 * Self.second)
        #expect(permits.hold(.bulk, now: 4 * Self.second) == nil)
    }

    @Test func `D82 the device that gets too many waits, the route does not`() {
        var permits = self.leased(nil)
        var circuit = RouteCircuit()
        for _ in 0..<100 {
            let outcome = Self.refusal(.device, retryAfter: 60_000)
            permits.heard(outcome, now: 0, draw: 0)
            circuit.heard(RouteCircuit.Answer(outcome), now: 0, draw: 0)
        }
        #expect(permits.hold(.bulk, now: 0) == nil && circuit.state == .closed)
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
