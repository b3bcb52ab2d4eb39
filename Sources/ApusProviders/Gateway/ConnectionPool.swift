package import ApusCore

/// Which connection of a route takes the next request, and when to open and close connections: a pure state machine.
///
/// Times are nanoseconds of one monotonic clock; jitter comes in. One attempt to connect runs at a time, and none before the
/// wait after a failure is over. A pool is one route's, so credentials of two teams never meet on a connection.
package struct ConnectionPool: Sendable {
    /// A connection's place; taken again after it has ended.
    package typealias Place = Int

    /// Sizes and times.
    package struct Limits: Hashable, Sendable {
        /// Connections for bulk that are always kept.
        package var bulkMin: Int
        /// Connections for bulk when all are full.
        package var bulkMax: Int
        /// One request at a time until the first was answered: for a provider that allows one stream until it knows us.
        package var startsWithOneStream: Bool
        /// Waits between attempts.
        package var backoff: ConnectBackoff
        /// A connection above `bulkMin` is closed when it was idle for so long.
        package var idleAfter: UInt64
        /// Requests in a row without an answer after which a connection is given up.
        package var timeoutsMax: Int
        /// How long the peer may allow no requests at all on a connection before another takes its place.
        package var forbiddenMax: UInt64

        /// Limits.
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

    /// What to do about connections.
    package enum Step: Hashable, Sendable {
        /// Open one.
        case connect(Place)
        /// Ask again then: the next attempt is not due.
        case wait(until: UInt64)
        /// Nothing.
        case rest
    }

    private enum Phase: Sendable {
        /// No connection. Can become `connecting`.
        case free
        /// An attempt runs. Can become `open` or `free`.
        case connecting
        /// Takes requests. Can become `draining` or `free`.
        case open
        /// Waits for its last answers. Can become `free`.
        case draining
    }

    private struct Entry: Sendable {
        var phase = Phase.free
        var role = Lane.bulk
        var isProven = false
        /// It has turned a request away; cleared when it says that there is room.
        var isBlocked = false
        var inFlight = 0
        var streamsMax = 0
        /// Since when the peer allows no requests at all; nil: it allows some.
        var forbiddenSince: UInt64?
        var timeouts = 0
        /// Whether any request was answered there.
        var hasAnswered = false
        var openedAt: UInt64 = 0
        var idleSince: UInt64 = 0

        /// Requests that it may have at a time now.
        @inline(__always)
        var allowed: Int { self.isProven ? self.streamsMax : min(1, self.streamsMax) }
        @inline(__always)
        var hasRoom: Bool { self.phase == .open && !self.isBlocked && self.inFlight < self.allowed }
    }

    /// Requests in a row to one connection before another is looked for.
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

    /// A pool without connections.
    package init(_ limits: Limits) {
        self.limits = limits
        self.bulkTarget = limits.bulkMin
        // Twice: each may be replaced while its last answers are awaited.
        self.entries = Array(repeating: Entry(), count: 2 * (limits.bulkMax + 1))
    }

    /// Places at most.
    package var capacity: Int { self.entries.count }

    // MARK: Requests

    /// Where the next request of that lane goes; nil: there is no room.
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

    /// A request has gone to that connection.
    @inline(__always)
    package mutating func submitted(_ place: Place) {
        self.burst -= 1
        self.entries[place].inFlight += 1
    }

    /// A request there was answered, whatever the answer.
    @inline(__always)
    package mutating func answered(_ place: Place, now: UInt64) {
        self.entries[place].timeouts = 0
        self.entries[place].hasAnswered = true
        self.ended(place, now: now)
    }

    /// A request there is over without an answer.
    @inline(__always)
    package mutating func ended(_ place: Place, now: UInt64) {
        precondition(self.entries[place].inFlight > 0)
        self.entries[place].inFlight -= 1
        if self.entries[place].inFlight == 0 { self.entries[place].idleSince = now }
    }

    /// A request there was given up after its time; true: so many that the connection is to be closed. One is enough where nothing was
    /// ever taken: such a connection carries one request at a time, and would take as many timeouts one after the other.
    package mutating func timedOut(_ place: Place, now: UInt64) -> Bool {
        self.ended(place, now: now)
        self.entries[place].timeouts += 1
        return self.entries[place].timeouts >= (self.entries[place].isProven ? self.limits.timeoutsMax : 1)
    }

    /// An answer showed that the credential is taken there: all streams may be used.
    @inline(__always)
    package mutating func proved(_ place: Place) { self.entries[place].isProven = true }

    /// The credential is in doubt: one request at a time everywhere, until one is answered.
    package mutating func doubt() {
        for place in self.entries.indices { self.entries[place].isProven = false }
    }

    /// The connection turned a request away.
    package mutating func blocked(_ place: Place) { self.entries[place].isBlocked = true }

    /// The connection has room again.
    package mutating func unblocked(_ place: Place) { self.entries[place].isBlocked = false }

    /// Requests that the connection takes at a time.
    ///
    /// - Parameter forbiddenSince: since when the peer allows none at all (RFC 9113, 6.5.2: a value of 0 is for short durations); nil: it
    ///   allows some.
    package mutating func streamsChanged(_ place: Place, max: Int, forbiddenSince: UInt64? = nil) {
        self.entries[place].streamsMax = max
        self.entries[place].forbiddenSince = forbiddenSince
    }

    /// No bulk connection has room: another one is wanted, if all of them are there and in use.
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

    /// What to do about connections that are missing. Express first: it stands in for all others.
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

    /// The attempt succeeded; the last as for ``streamsChanged(_:max:forbiddenSince:)``.
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

    /// The attempt failed.
    package mutating func connectFailed(_ place: Place, now: UInt64, draw: Double) {
        precondition(self.entries[place].phase == .connecting)
        self.isConnecting = false
        self.entries[place] = Entry()
        self.failed(now: now, draw: draw)
    }

    /// The connection takes no more requests: GOAWAY came, or it is not to be used any more. Another one takes its place.
    package mutating func retired(_ place: Place, now: UInt64, draw: Double) {
        guard self.entries[place].phase == .open else { return }
        self.left(place, now: now, draw: draw)
        self.entries[place].phase = .draining
    }

    /// The connection is gone.
    package mutating func closed(_ place: Place, now: UInt64, draw: Double) {
        let entry = self.entries[place]
        precondition(entry.phase == .open || entry.phase == .draining)
        precondition(entry.inFlight == 0, "every request has had its end")
        if entry.phase == .open { self.left(place, now: now, draw: draw) }
        self.entries[place] = Entry()
    }

    private mutating func left(_ place: Place, now: UInt64, draw: Double) {
        let entry = self.entries[place]
        // One that never allowed a request has failed, however long it was waited for.
        let wasOfUse = entry.forbiddenSince == nil || entry.hasAnswered
        let isStable = wasOfUse && now - min(entry.openedAt, now) >= self.limits.backoff.stableAfter
        // One that did its work was no failure, however short it lived: a provider that ends connections every second would
        // otherwise be waited for ever longer. The next one still does not come at once.
        if isStable || (entry.isProven && entry.hasAnswered) { self.failures = 0 }
        if !isStable { self.failed(now: now, draw: draw) }
    }

    private mutating func failed(now: UInt64, draw: Double) {
        self.failures = min(self.failures + 1, 1_000)
        self.attemptNotBefore = now + self.limits.backoff.wait(failures: self.failures, draw: draw)
    }

    /// Retires a connection on which the peer has allowed no requests for too long; nil: there is none. Another one takes its place:
    /// after a wait when it never answered any.
    package mutating func takeForbidden(now: UInt64, draw: Double) -> Place? {
        let place = self.entries.firstIndex { entry in
            guard entry.phase == .open, let since = entry.forbiddenSince else { return false }
            return now - min(since, now) >= self.limits.forbiddenMax
        }
        if let place { self.retired(place, now: now, draw: draw) }
        return place
    }

    /// A bulk connection too many, idle for long; it counts as retired from now on.
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

    /// Opens nothing any more.
    package mutating func drain() {
        self.isDraining = true
        for place in self.entries.indices where self.entries[place].phase == .open {
            self.entries[place].phase = .draining
        }
    }

    // MARK: How it stands

    /// Connections and requests of the moment.
    package struct Census: Hashable, Sendable {
        /// Attempts under way.
        package var connecting: Int
        /// Connections that take requests.
        package var open: Int
        /// Connections that wait for their last answers.
        package var draining: Int
        /// Requests on the wire.
        package var inFlight: Int
        /// Requests that may be on the wire at a time.
        package var streamsLimit: Int

        /// Counts; for what a caller expects.
        package init(connecting: Int = 0, open: Int = 0, draining: Int = 0, inFlight: Int = 0, streamsLimit: Int = 0) {
            self.connecting = connecting
            self.open = open
            self.draining = draining
            self.inFlight = inFlight
            self.streamsLimit = streamsLimit
        }
    }

    /// Counts.
    package var census: Census {
        var census = Census()
        for entry in self.entries {
            census.inFlight += entry.inFlight
            switch entry.phase {
            case .free: break
            case .connecting: census.connecting += 1
            case .open:
                census.open += 1
                census.streamsLimit += entry.streamsMax
            case .draining: census.draining += 1
            }
        }
        return census
    }

    /// Whether requests are awaited on that connection.
    package func isBusy(_ place: Place) -> Bool { self.entries[place].inFlight > 0 }
}
