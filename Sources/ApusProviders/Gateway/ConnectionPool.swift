package import ApusCore

/// Chooses the connection of a route's next request, and when to open and close connections: a pure state machine.
///
/// Times are nanoseconds of one monotonic clock; the jitter is an argument. One attempt to connect runs at a time, and
/// none before the wait after a failure is over. A pool belongs to one route, so credentials of two teams never meet on
/// a connection.
package struct ConnectionPool: Sendable {
    /// The index of a connection, which is reused after the connection has ended.
    package typealias Place = Int

    /// Sizes and times of a pool.
    package struct Limits: Hashable, Sendable {
        /// The number of bulk connections that are always kept.
        package var bulkMin: Int
        /// The maximum number of bulk connections, opened when all are full.
        package var bulkMax: Int
        /// True when a new connection carries one request at a time until the first is answered, for a provider that
        /// allows one stream until it knows the client.
        package var startsWithOneStream: Bool
        /// Waits between attempts.
        package var backoff: ConnectBackoff
        /// The idle time after which a connection above `bulkMin` is closed.
        package var idleAfter: UInt64
        /// The number of consecutive requests without an answer after which a connection is closed.
        package var timeoutsMax: Int
        /// The maximum time that the peer may allow no requests on a connection before another takes its place.
        package var forbiddenMax: UInt64

        /// Creates limits.
        package init(
            bulkMin: Int = 1,
            bulkMax: Int = 4,
            startsWithOneStream: Bool = false,
            backoff: ConnectBackoff = ConnectBackoff(),
            idleAfter: UInt64 = 300_000_000_000,
            timeoutsMax: Int = 10,
            forbiddenMax: UInt64 = 5_000_000_000,
        ) {
            precondition(bulkMin >= 1 && bulkMax >= bulkMin && bulkMax <= 1_000 && timeoutsMax >= 1)
            self.bulkMin = bulkMin
            self.bulkMax = bulkMax
            self.startsWithOneStream = startsWithOneStream
            self.backoff = backoff
            self.idleAfter = idleAfter
            self.timeoutsMax = timeoutsMax
            self.forbiddenMax = forbiddenMax
        }
    }

    /// The actions concerning connections.
    package enum Step: Hashable, Sendable {
        /// Open a connection.
        case connect(Place)
        /// Ask again at the given time: the next attempt is not due.
        case wait(until: UInt64)
        /// Do nothing.
        case rest
    }

    private enum Phase: Sendable {
        /// There is no connection. Can become `connecting`.
        case free
        /// An attempt is under way. Can become `open` or `free`.
        case connecting
        /// The connection accepts requests. Can become `draining` or `free`.
        case open
        /// The connection waits for its last answers. Can become `free`.
        case draining
    }

    private struct Entry: Sendable {
        var phase = Phase.free
        var role = Lane.bulk
        var isProven = false
        /// True after the connection has turned a request away, until it reports room again.
        var isBlocked = false
        var inFlight = 0
        var streamsMax = 0
        /// The time since when the peer allows no requests at all; nil: it allows some.
        var forbiddenSince: UInt64?
        var timeouts = 0
        /// True when any request was answered on the connection.
        var hasAnswered = false
        /// True when the peer did not answer in time.
        var fellSilent = false
        var openedAt: UInt64 = 0
        var idleSince: UInt64 = 0

        /// The number of requests that the connection may carry now.
        @inline(__always)
        var allowed: Int { self.isProven ? self.streamsMax : min(1, self.streamsMax) }
        @inline(__always)
        var hasRoom: Bool { self.phase == .open && !self.isBlocked && self.inFlight < self.allowed }
    }

    /// The number of consecutive requests to one connection before another is searched.
    private static let burstMax = 32

    private let limits: Limits
    private var entries: [Entry]
    private var current: (express: Place, bulk: Place) = (-1, -1)
    private var burst = 0
    private var bulkTarget: Int
    private var isConnecting = false
    private var failures = 0
    private var attemptNotBefore: UInt64 = 0
    private var isDraining = false

    /// Creates a pool without connections.
    package init(_ limits: Limits) {
        self.limits = limits
        self.bulkTarget = limits.bulkMin
        // Twice as many entries: each connection may be replaced while its last answers are awaited.
        self.entries = Array(repeating: Entry(), count: 2 * (limits.bulkMax + 1))
    }

    /// The maximum number of connections.
    package var capacity: Int { self.entries.count }

    // MARK: Requests

    /// Returns the connection for the next request of a lane; nil when there is no room.
    ///
    /// Express may use a bulk connection when its own has no room. Bulk uses the express connection only while it has none of
    /// its own, and half of it.
    @inline(__always)
    package mutating func choose(_ lane: Lane) -> Place? {
        let place = lane == .express ? self.current.express : self.current.bulk
        if place >= 0, self.burst > 0, self.entries[place].hasRoom, self.entries[place].role == lane { return place }
        return self.search(lane)
    }

    private mutating func search(_ lane: Lane) -> Place? {
        var best = -1
        var hasOwn = false
        for place in self.entries.indices where self.entries[place].role == lane && self.entries[place].phase == .open {
            hasOwn = true
            guard self.entries[place].hasRoom else { continue }
            if best < 0 || self.entries[place].inFlight < self.entries[best].inFlight { best = place }
        }
        if best < 0, lane == .express || !hasOwn { best = self.borrow(for: lane) }
        guard best >= 0 else { return nil }
        self.burst = Self.burstMax
        if lane == .express { self.current.express = best } else { self.current.bulk = best }
        return best
    }

    private func borrow(for lane: Lane) -> Place {
        var best = -1
        for place in self.entries.indices where self.entries[place].role != lane && self.entries[place].hasRoom {
            let entry = self.entries[place]
            if lane == .bulk, entry.inFlight >= max(1, entry.allowed / 2) { continue }
            if best < 0 || entry.inFlight < self.entries[best].inFlight { best = place }
        }
        return best
    }

    /// Records that a request was sent on a connection.
    @inline(__always)
    package mutating func submitted(_ place: Place) {
        self.burst -= 1
        self.entries[place].inFlight += 1
    }

    /// Records that a request was answered, whatever the answer.
    @inline(__always)
    package mutating func answered(_ place: Place, now: UInt64) {
        self.entries[place].timeouts = 0
        self.entries[place].hasAnswered = true
        self.ended(place, now: now)
    }

    /// Records that a request ended without an answer.
    @inline(__always)
    package mutating func ended(_ place: Place, now: UInt64) {
        precondition(self.entries[place].inFlight > 0)
        self.entries[place].inFlight -= 1
        if self.entries[place].inFlight == 0 { self.entries[place].idleSince = now }
    }

    /// Records that a request timed out; returns true when the connection must be closed after so many. A single one suffices
    /// on an unproven connection: it carries one request at a time, and would spend as many timeouts one after the other.
    package mutating func timedOut(_ place: Place, now: UInt64) -> Bool {
        self.ended(place, now: now)
        self.entries[place].timeouts += 1
        guard self.entries[place].timeouts >= (self.entries[place].isProven ? self.limits.timeoutsMax : 1) else {
            return false
        }
        self.entries[place].fellSilent = true
        return true
    }

    /// Records that the peer has not answered a PING in time: the connection is about to be closed.
    package mutating func pingTimedOut(_ place: Place) { self.entries[place].fellSilent = true }

    /// Records an answer that shows that the provider accepts the credential: all streams may be used.
    @inline(__always)
    package mutating func proved(_ place: Place) { self.entries[place].isProven = true }

    /// Returns all connections to one request at a time, until one is answered: the credential is in doubt.
    package mutating func doubt() {
        for place in self.entries.indices { self.entries[place].isProven = false }
    }

    /// Records that the connection turned a request away.
    package mutating func blocked(_ place: Place) { self.entries[place].isBlocked = true }

    /// Records that the connection has room again.
    package mutating func unblocked(_ place: Place) { self.entries[place].isBlocked = false }

    /// Sets the number of requests that the connection accepts at a time.
    ///
    /// - Parameter forbiddenSince: when the peer began to allow none at all (RFC 9113, 6.5.2: a value of 0 is for short durations);
    ///   nil: it allows some.
    package mutating func streamsChanged(_ place: Place, max: Int, forbiddenSince: UInt64? = nil) {
        self.entries[place].streamsMax = max
        self.entries[place].forbiddenSince = forbiddenSince
    }

    /// Requests another bulk connection, if all of them are open and full.
    package mutating func saturated() {
        guard self.bulkTarget < self.limits.bulkMax, !self.isDraining else { return }
        var full = 0
        for entry in self.entries where entry.role == .bulk && entry.phase == .open {
            guard entry.isProven, !entry.hasRoom else { return }
            full += 1
        }
        if full == self.bulkTarget { self.bulkTarget += 1 }
    }

    // MARK: Connections

    /// Returns the next action for missing connections. Express comes first: it stands in for all others.
    package mutating func nextStep(now: UInt64) -> Step {
        guard !self.isDraining, !self.isConnecting, let role = self.missingRole else { return .rest }
        guard now >= self.attemptNotBefore else { return .wait(until: self.attemptNotBefore) }
        guard let place = self.entries.firstIndex(where: { $0.phase == .free }) else { return .rest }
        self.isConnecting = true
        self.entries[place] = Entry(phase: .connecting, role: role)
        return .connect(place)
    }

    private var missingRole: Lane? {
        var express = 0
        var bulk = 0
        for entry in self.entries where entry.phase == .open || entry.phase == .connecting {
            if entry.role == .express { express += 1 } else { bulk += 1 }
        }
        return express == 0 ? .express : bulk < self.bulkTarget ? .bulk : nil
    }

    /// Records that the attempt succeeded; `forbiddenSince` is as in ``streamsChanged(_:max:forbiddenSince:)``.
    package mutating func connected(_ place: Place, streamsMax: Int, now: UInt64, forbiddenSince: UInt64? = nil) {
        precondition(self.entries[place].phase == .connecting)
        self.isConnecting = false
        self.entries[place].phase = .open
        self.entries[place].streamsMax = streamsMax
        self.entries[place].forbiddenSince = forbiddenSince
        self.entries[place].isProven = !self.limits.startsWithOneStream
        self.entries[place].openedAt = now
        self.entries[place].idleSince = now
    }

    /// Records that the attempt failed.
    package mutating func connectFailed(_ place: Place, now: UInt64, draw: Double) {
        precondition(self.entries[place].phase == .connecting)
        self.isConnecting = false
        self.entries[place] = Entry()
        self.failed(now: now, draw: draw)
    }

    /// Records that the connection accepts no more requests: GOAWAY came, or it is to be replaced.
    package mutating func retired(_ place: Place, now: UInt64, draw: Double) {
        guard self.entries[place].phase == .open else { return }
        self.left(place, now: now, draw: draw)
        self.entries[place].phase = .draining
    }

    /// Records that the connection is gone.
    package mutating func closed(_ place: Place, now: UInt64, draw: Double) {
        let entry = self.entries[place]
        precondition(entry.phase == .open || entry.phase == .draining)
        precondition(entry.inFlight == 0, "a connection closed with requests in flight")
        if entry.phase == .open { self.left(place, now: now, draw: draw) }
        self.entries[place] = Entry()
    }

    private mutating func left(_ place: Place, now: UInt64, draw: Double) {
        let entry = self.entries[place]
        // A connection that never allowed a request, or never answered anything, has failed, however long it was waited for.
        let wasOfUse = (entry.forbiddenSince == nil && !entry.fellSilent) || entry.hasAnswered
        let isStable = wasOfUse && now - min(entry.openedAt, now) >= self.limits.backoff.stableAfter
        // A connection that did its work is not a failure, however short it lived: otherwise a provider that ends connections
        // every second would be waited for ever longer. The next attempt still waits.
        if isStable || (entry.isProven && entry.hasAnswered) { self.failures = 0 }
        if !isStable { self.failed(now: now, draw: draw) }
    }

    private mutating func failed(now: UInt64, draw: Double) {
        self.failures = min(self.failures + 1, 1_000)
        self.attemptNotBefore = now + self.limits.backoff.wait(failures: self.failures, draw: draw)
    }

    /// Retires a connection on which the peer has allowed no requests for too long, and returns it; nil: there is none. Another one takes
    /// its place: after a wait when it never answered any.
    package mutating func takeForbidden(now: UInt64, draw: Double) -> Place? {
        let place = self.entries.firstIndex { entry in
            guard entry.phase == .open, let since = entry.forbiddenSince else { return false }
            return now - min(since, now) >= self.limits.forbiddenMax
        }
        if let place { self.retired(place, now: now, draw: draw) }
        return place
    }

    /// Returns a surplus bulk connection that has been idle for long; it counts as retired from now on.
    package mutating func takeIdle(now: UInt64) -> Place? {
        guard self.bulkTarget > self.limits.bulkMin, now >= self.limits.idleAfter else { return nil }
        let place = self.entries.indices.last { place in
            let entry = self.entries[place]
            return entry.phase == .open && entry.role == .bulk && entry.inFlight == 0
                && now - min(entry.idleSince, now) >= self.limits.idleAfter
        }
        guard let place else { return nil }
        self.bulkTarget -= 1
        self.entries[place].phase = .draining
        return place
    }

    /// Stops opening connections.
    package mutating func drain() {
        self.isDraining = true
        for place in self.entries.indices where self.entries[place].phase == .open {
            self.entries[place].phase = .draining
        }
    }

    // MARK: Statistics

    /// Counts the current connections and requests.
    package struct Statistics: Hashable, Sendable {
        /// The number of attempts under way.
        package var connecting: Int
        /// The number of connections that accept requests.
        package var open: Int
        /// The number of connections that wait for their last answers.
        package var draining: Int
        /// The number of requests in flight.
        package var inFlight: Int
        /// The maximum number of requests in flight.
        package var streamsLimit: Int

        /// Creates counts, for what a caller expects.
        package init(connecting: Int = 0, open: Int = 0, draining: Int = 0, inFlight: Int = 0, streamsLimit: Int = 0) {
            self.connecting = connecting
            self.open = open
            self.draining = draining
            self.inFlight = inFlight
            self.streamsLimit = streamsLimit
        }

        /// Adds the counts of another pool.
        mutating func add(_ other: Statistics) {
            self.connecting += other.connecting
            self.open += other.open
            self.draining += other.draining
            self.inFlight += other.inFlight
            self.streamsLimit += other.streamsLimit
        }
    }

    /// The current counts.
    package var statistics: Statistics {
        var statistics = Statistics()
        for entry in self.entries {
            statistics.inFlight += entry.inFlight
            switch entry.phase {
            case .free: break
            case .connecting: statistics.connecting += 1
            case .open:
                statistics.open += 1
                statistics.streamsLimit += entry.streamsMax
            case .draining: statistics.draining += 1
            }
        }
        return statistics
    }

    /// True when any request was answered on the connection.
    package func hasAnswered(_ place: Place) -> Bool { self.entries[place].hasAnswered }

    /// True when requests are in flight on the connection.
    package func isBusy(_ place: Place) -> Bool { self.entries[place].inFlight > 0 }
}
