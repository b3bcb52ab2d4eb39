import ApusCore
import ApusProviders
import Testing

/// The pool as traces: what it was told, and what it says then.
@Suite struct ConnectionPoolTests {
    private static let backoff = ConnectBackoff(base: 100, cap: 1_000, stableAfter: 10_000)

    private func pool(
        bulkMin: Int = 1,
        bulkMax: Int = 2,
        startsWithOneStream: Bool = false,
    ) -> ConnectionPool {
        ConnectionPool(
            ConnectionPool.Limits(
                bulkMin: bulkMin,
                bulkMax: bulkMax,
                startsWithOneStream: startsWithOneStream,
                backoff: Self.backoff,
                idleAfter: 1_000,
                timeoutsMax: 3,
                forbiddenMax: 500,
            )
        )
    }

    /// With an express connection at place 0 and a bulk connection at place 1.
    private func open(_ pool: inout ConnectionPool, streamsMax: Int = 10, now: UInt64 = 0) {
        #expect(pool.nextStep(now: now) == .connect(0))
        pool.connected(0, streamsMax: streamsMax, now: now)
        #expect(pool.nextStep(now: now) == .connect(1))
        pool.connected(1, streamsMax: streamsMax, now: now)
        #expect(pool.nextStep(now: now) == .rest)
    }

    @Test("one attempt at a time: express first, then bulk up to the minimum")
    func opening() {
        var pool = self.pool(bulkMin: 2)
        #expect(pool.nextStep(now: 0) == .connect(0))
        #expect(pool.nextStep(now: 0) == .rest)
        pool.connected(0, streamsMax: 10, now: 0)
        #expect(pool.nextStep(now: 0) == .connect(1))
        #expect(pool.nextStep(now: 0) == .rest)
        pool.connected(1, streamsMax: 10, now: 0)
        #expect(pool.nextStep(now: 0) == .connect(2))
        pool.connected(2, streamsMax: 10, now: 0)
        #expect(pool.nextStep(now: 0) == .rest)
        #expect(pool.statistics == .init(open: 3, streamsLimit: 30))
    }

    @Test("no attempt before the wait after a failure is over, and the waits double up to the cap")
    func backingOff() {
        var pool = self.pool()
        var now: UInt64 = 0
        for wait: UInt64 in [50, 100, 200, 400, 500, 500] {
            #expect(pool.nextStep(now: now) == .connect(0))
            pool.connectFailed(0, now: now, draw: 0)
            #expect(pool.nextStep(now: now) == .wait(until: now + wait))
            #expect(pool.nextStep(now: now + wait - 1) == .wait(until: now + wait))
            now += wait
        }
    }

    @Test("a connection that lives shortly counts as a failure; one that lived long is replaced at once")
    func shortLife() {
        var pool = self.pool()
        self.open(&pool)
        pool.closed(1, now: 9_999, draw: 0)
        #expect(pool.nextStep(now: 9_999) == .wait(until: 10_049))
        #expect(pool.nextStep(now: 10_049) == .connect(1))
        pool.connected(1, streamsMax: 10, now: 10_049)
        pool.closed(1, now: 20_049, draw: 0)
        #expect(pool.nextStep(now: 20_049) == .connect(1))
    }

    @Test("connections that did their work are replaced after the first wait, however often they end early")
    func shortLifeWithWork() {
        var pool = self.pool(startsWithOneStream: true)
        self.open(&pool)
        var now: UInt64 = 0
        for _ in 0..<5 {
            pool.submitted(1)
            pool.answered(1, now: now)
            pool.proved(1)
            pool.retired(1, now: now + 1_000, draw: 0)
            pool.closed(1, now: now + 1_000, draw: 0)
            now += 1_050
            #expect(pool.nextStep(now: now - 1) == .wait(until: now))
            #expect(pool.nextStep(now: now) == .connect(1))
            pool.connected(1, streamsMax: 10, now: now)
        }
        // An answer that does not prove the credential is no work: the waits grow on from there.
        for wait: UInt64 in [100, 200, 400] {
            pool.submitted(1)
            pool.answered(1, now: now)
            pool.closed(1, now: now, draw: 0)
            #expect(pool.nextStep(now: now) == .wait(until: now + wait))
            now += wait
            #expect(pool.nextStep(now: now) == .connect(1))
            pool.connected(1, streamsMax: 10, now: now)
        }
    }

    @Test("one request until the first is answered, then as many as the peer allows")
    func firstStream() {
        var pool = self.pool(startsWithOneStream: true)
        self.open(&pool)
        #expect(pool.choose(.bulk) == 1)
        pool.submitted(1)
        #expect(pool.choose(.bulk) == nil)
        pool.answered(1, now: 1)
        pool.proved(1)
        for _ in 0..<10 {
            #expect(pool.choose(.bulk) == 1)
            pool.submitted(1)
        }
        #expect(pool.choose(.bulk) == nil)
        pool.streamsChanged(1, max: 5)
        pool.answered(1, now: 2)
        #expect(pool.choose(.bulk) == nil)
        for _ in 0..<5 { pool.answered(1, now: 2) }
        #expect(pool.choose(.bulk) == 1)
    }

    @Test("doubt leaves one request at a time everywhere")
    func doubt() {
        var pool = self.pool()
        self.open(&pool)
        pool.submitted(1)
        #expect(pool.choose(.bulk) == 1)
        pool.doubt()
        #expect(pool.choose(.bulk) == nil)
        #expect(pool.choose(.express) == 0)
    }

    @Test("express borrows from bulk; bulk never takes from express while it has its own")
    func lanes() {
        var pool = self.pool()
        self.open(&pool, streamsMax: 2)
        for _ in 0..<2 {
            #expect(pool.choose(.bulk) == 1)
            pool.submitted(1)
        }
        #expect(pool.choose(.bulk) == nil)
        for _ in 0..<2 {
            #expect(pool.choose(.express) == 0)
            pool.submitted(0)
        }
        #expect(pool.choose(.express) == nil)
        pool.answered(1, now: 1)
        #expect(pool.choose(.express) == 1)
    }

    @Test("without a connection of its own, bulk has half of the express one")
    func spare() {
        var pool = self.pool()
        self.open(&pool, streamsMax: 10)
        pool.closed(1, now: 20_000, draw: 0)
        for _ in 0..<5 {
            #expect(pool.choose(.bulk) == 0)
            pool.submitted(0)
        }
        #expect(pool.choose(.bulk) == nil)
        #expect(pool.choose(.express) == 0)
    }

    @Test("grows when all are full, up to the maximum, and shrinks after idling")
    func growth() {
        var pool = self.pool()
        self.open(&pool, streamsMax: 1)
        pool.saturated()
        #expect(pool.nextStep(now: 0) == .rest, "there is room")
        pool.submitted(1)
        #expect(pool.choose(.bulk) == nil)
        pool.saturated()
        pool.saturated()
        #expect(pool.nextStep(now: 0) == .connect(2))
        pool.connected(2, streamsMax: 1, now: 0)
        #expect(pool.choose(.bulk) == 2)
        pool.submitted(2)
        pool.saturated()
        #expect(pool.nextStep(now: 0) == .rest, "the maximum")
        pool.answered(1, now: 100)
        pool.answered(2, now: 200)
        #expect(pool.takeIdle(now: 1_099) == nil)
        #expect(pool.takeIdle(now: 1_100) == 1)
        #expect(pool.takeIdle(now: 9_000) == nil, "the minimum stays")
        pool.closed(1, now: 9_000, draw: 0)
        #expect(pool.nextStep(now: 9_000) == .rest)
    }

    @Test("after GOAWAY nothing new goes there, its answers are awaited, and another takes its place")
    func goAway() {
        var pool = self.pool()
        self.open(&pool)
        pool.submitted(1)
        pool.retired(1, now: 20_000, draw: 0)
        #expect(pool.nextStep(now: 20_000) == .connect(2))
        pool.connected(2, streamsMax: 10, now: 20_000)
        #expect(pool.choose(.bulk) == 2)
        #expect(pool.statistics == .init(open: 2, draining: 1, inFlight: 1, streamsLimit: 20))
        pool.answered(1, now: 20_001)
        pool.closed(1, now: 20_001, draw: 0)
        #expect(pool.statistics == .init(open: 2, streamsLimit: 20))
    }

    @Test("a connection that stopped answering is given up after so many in a row")
    func eviction() {
        var pool = self.pool()
        self.open(&pool)
        for _ in 0..<6 { pool.submitted(1) }
        let before = (0..<2).map { _ in pool.timedOut(1, now: 1) }
        pool.answered(1, now: 1)
        let after = (0..<3).map { _ in pool.timedOut(1, now: 2) }
        #expect(before == [false, false])
        #expect(after == [false, false, true])
    }

    @Test("where nothing was taken yet, one request without an answer is enough to give the connection up")
    func unprovenTimeout() {
        var pool = self.pool(startsWithOneStream: true)
        self.open(&pool)
        pool.submitted(1)
        let first = pool.timedOut(1, now: 1)
        #expect(first)
        pool.submitted(0)
        pool.answered(0, now: 1)
        pool.proved(0)
        for _ in 0..<3 { pool.submitted(0) }
        let proven = (0..<3).map { _ in pool.timedOut(0, now: 2) }
        #expect(proven == [false, false, true])
    }

    @Test("whoever turned a request away is asked again only after it says so")
    func blocked() {
        var pool = self.pool()
        self.open(&pool)
        pool.blocked(1)
        #expect(pool.choose(.bulk) == nil)
        pool.unblocked(1)
        #expect(pool.choose(.bulk) == 1)
    }

    @Test("requests go to the connection with the fewest, a burst at a time")
    func balance() {
        var pool = self.pool(bulkMin: 2)
        self.open(&pool, streamsMax: 100, upTo: 2)
        var counts = [0, 0, 0]
        for _ in 0..<96 {
            guard let place = pool.choose(.bulk) else { break }
            pool.submitted(place)
            counts[place] += 1
        }
        #expect(counts == [0, 64, 32])
    }

    private func open(_ pool: inout ConnectionPool, streamsMax: Int, upTo last: Int) {
        for place in 0...last {
            #expect(pool.nextStep(now: 0) == .connect(place))
            pool.connected(place, streamsMax: streamsMax, now: 0)
        }
    }

    @Test("a connection that allows no requests for too long is replaced; one that allows some again in time stays")
    func forbidden() {
        var pool = self.pool()
        self.open(&pool)
        pool.submitted(1)
        pool.submitted(1)
        pool.answered(1, now: 20_000)
        pool.streamsChanged(0, max: 0, forbiddenSince: 20_000)
        pool.streamsChanged(1, max: 0, forbiddenSince: 20_100)
        let early = pool.takeForbidden(now: 20_499, draw: 0)
        #expect(early == nil && pool.choose(.bulk) == nil)
        pool.streamsChanged(0, max: 10)
        let late = pool.takeForbidden(now: 20_600, draw: 0)
        let again = pool.takeForbidden(now: 20_600, draw: 0)
        #expect(late == 1 && again == nil)
        // It has answered, so the next one comes at once; what is on its wire is awaited.
        #expect(pool.nextStep(now: 20_600) == .connect(2))
        #expect(pool.statistics == .init(connecting: 1, open: 1, draining: 1, inFlight: 1, streamsLimit: 10))
    }

    @Test("connections that allow no requests from the first are replaced ever more slowly")
    func forbiddenFromTheFirst() {
        var pool = self.pool()
        self.open(&pool)
        var now: UInt64 = 0
        for wait: UInt64 in [50, 100, 200, 400, 500] {
            pool.streamsChanged(1, max: 0, forbiddenSince: now)
            now += 20_000
            let place = pool.takeForbidden(now: now, draw: 0)
            #expect(place == 1)
            pool.closed(1, now: now, draw: 0)
            #expect(pool.nextStep(now: now) == .wait(until: now + wait))
            now += wait
            #expect(pool.nextStep(now: now) == .connect(1))
            pool.connected(1, streamsMax: 0, now: now, forbiddenSince: now)
        }
    }

    @Test("a peer that accepts connections and never answers is waited for ever longer", arguments: [true, false])
    func silentFromTheFirst(isPing: Bool) {
        var pool = self.pool()
        self.open(&pool)
        var now: UInt64 = 0
        for wait: UInt64 in [50, 100, 200, 400, 500] {
            now += 20_000
            if isPing {
                pool.pingTimedOut(1)
            } else {
                pool.doubt()
                pool.submitted(1)
                let mustClose = pool.timedOut(1, now: now)
                #expect(mustClose)
            }
            pool.closed(1, now: now, draw: 0)
            #expect(pool.nextStep(now: now) == .wait(until: now + wait))
            now += wait
            #expect(pool.nextStep(now: now) == .connect(1))
            pool.connected(1, streamsMax: 10, now: now)
        }
        // One that has answered is replaced at once, however it ended.
        pool.submitted(1)
        pool.answered(1, now: now)
        pool.pingTimedOut(1)
        pool.closed(1, now: now + 20_000, draw: 0)
        #expect(pool.nextStep(now: now + 20_000) == .connect(1))
    }

    @Test("a draining pool opens nothing")
    func drain() {
        var pool = self.pool()
        #expect(pool.nextStep(now: 500) == .connect(0))
        pool.connected(0, streamsMax: 1, now: 500)
        pool.drain()
        #expect(pool.nextStep(now: 501) == .rest)
        #expect(pool.choose(.express) == nil)
    }

    @Test("waits lie between a half and the whole, and never beyond the cap")
    func waits() {
        let backoff = ConnectBackoff(base: 100, cap: 150, stableAfter: 1)
        #expect(backoff.wait(failures: 1, draw: 0) == 50)
        #expect(backoff.wait(failures: 1, draw: 0.5) == 75)
        #expect(backoff.wait(failures: 2, draw: 0) == 75)
        #expect(backoff.wait(failures: 1_000, draw: 0.999) < 150)
    }
}
