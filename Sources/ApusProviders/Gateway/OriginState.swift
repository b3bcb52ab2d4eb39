internal import ApusCore

/// Decides what becomes of requests to one origin of many: sent, made to wait, or put off. A pure state machine; times
/// are nanoseconds of one monotonic clock.
///
/// Trouble at one origin must not stop the others: while nothing can be sent to it, or only slowly, its requests are put
/// off, and those of others go on. An origin that is full and fast holds back everything for the moment, as a provider of
/// one address does.
struct OriginState: Sendable {
    /// The sizes and times of an origin.
    struct Limits: Hashable, Sendable {
        /// The maximum number of requests of each lane that wait for room at one origin.
        var waitingMax = 256
        /// The wait of its oldest request from which a full origin is slow: it holds back no others.
        var slowMin: UInt64 = 1_000_000_000
        /// The time without room for any of its requests from which a full origin is slow, too: it may not answer at all.
        var silentMin: UInt64 = 250_000_000
        /// The same for an origin that is being connected to.
        var connectingSlowMin: UInt64 = 500_000_000
        /// The time without a connection for which requests are made to wait for it.
        var connectingMax: UInt64 = 2_000_000_000
        /// The maximum time for which a request waits for room, and for which none that waits gets room.
        var waitMax: UInt64 = 30_000_000_000
        /// The time without requests after which the connections are closed.
        var idleMax: UInt64 = 600_000_000_000
        /// The number of consecutive answers about the rate after which the whole origin rests.
        var rateLimitedMax = 10
        /// The time for which it rests, when the answers name none, and at most.
        var restDefault: UInt64 = 30_000_000_000
        var restMax: UInt64 = 300_000_000_000
        /// The time for which a refused credential is not tried again.
        var refusalPause: UInt64 = 300_000_000_000
    }

    /// The decisions about a request.
    enum Decision: Hashable, Sendable {
        /// Accept the request.
        case take
        /// Accept no request of the lane now, of whatever origin: this one will soon have room again.
        case holdBack
        /// Answer the request without sending it.
        case putOff(Reason, nanoseconds: UInt64)
    }

    private let limits: Limits
    private var express = 0
    private var bulk = 0
    /// The time since which there has been no connection; nil while there is one.
    private(set) var unconnectedSince: UInt64?
    private var usedAt: UInt64
    /// The time since which requests wait and none has got room; nil when none waits. Requests that are given back and
    /// come again go on waiting.
    private var crampedSince: UInt64?
    /// The time since which requests wait, none has got room, and nothing was connected.
    private var silentSince: UInt64 = 0
    private var restsUntil: UInt64 = 0
    private var rateLimited = 0
    private var isStalled = false
    /// The time until which the credential counts as refused; 0 while it is not.
    private(set) var refusedUntil: UInt64 = 0

    init(_ limits: Limits, now: UInt64) {
        self.limits = limits
        self.unconnectedSince = now
        self.usedAt = now
    }

    /// The number of requests that are being made or wait for room.
    var waiting: Int { self.express + self.bulk }

    private func count(_ lane: Lane) -> Int { lane == .express ? self.express : self.bulk }

    /// Returns true when as many requests of a lane wait as may.
    func isFull(_ lane: Lane) -> Bool { self.count(lane) >= self.limits.waitingMax }

    /// Decides about a request.
    ///
    /// - Parameter oldest: the time since which the lane's first request waits; nil when none does.
    func decide(_ lane: Lane, oldest: UInt64?, now: UInt64) -> Decision {
        if now < self.refusedUntil { return .putOff(.credentials, nanoseconds: self.refusedUntil - now) }
        if now < self.restsUntil { return .putOff(.rateLimited, nanoseconds: self.restsUntil - now) }
        if self.isStalled || self.isUnreachable(now: now) {
            return self.count(lane) == 0 ? .take : .putOff(.connection, nanoseconds: 0)
        }
        guard self.isFull(lane) else { return .take }
        return self.isSlow(oldest: oldest, now: now) ? .putOff(.connection, nanoseconds: 0) : .holdBack
    }

    /// Returns true when the first request has waited for so long, or none has got room for so long, that no others are held back for the
    /// origin. Requests that are still being made tell nothing of the origin.
    func isSlow(oldest: UInt64?, now: UInt64) -> Bool {
        guard let oldest else { return false }
        let silentMin = self.unconnectedSince == nil ? self.limits.silentMin : self.limits.connectingSlowMin
        return now >= oldest + self.limits.slowMin || now >= max(oldest, self.silentSince) + silentMin
    }

    /// True when there has been no connection for so long that requests are not made to wait for one.
    func isUnreachable(now: UInt64) -> Bool {
        self.unconnectedSince.map { now >= $0 + self.limits.connectingMax } ?? false
    }

    /// Returns the state that metrics count.
    func standing(now: UInt64) -> OriginStanding {
        if now < self.refusedUntil { return .refused }
        if now < self.restsUntil { return .resting }
        if self.isUnreachable(now: now) { return .unreachable }
        return self.isStalled ? .slow : .sending
    }

    /// Returns true when a request that began to wait then has waited for too long.
    func hasWaitedTooLong(since: UInt64, now: UInt64) -> Bool { now >= since + self.limits.waitMax }

    /// Returns true when no request has got room for so long that those that wait are put off, however often they were
    /// given back and came again.
    func isCramped(now: UInt64) -> Bool { self.crampedSince.map { now >= $0 + self.limits.waitMax } ?? false }

    /// Returns true when the origin has been without requests for so long that its connections are closed.
    func isIdle(now: UInt64) -> Bool { self.waiting == 0 && now >= self.usedAt + self.limits.idleMax }

    /// The time of the last request.
    var lastUse: UInt64 { self.usedAt }

    /// Records an accepted request.
    mutating func taken(_ lane: Lane, now: UInt64) {
        if self.waiting == 0, now >= self.usedAt + self.limits.waitMax { self.crampedSince = nil }
        if self.crampedSince == nil { self.crampedSince = now }
        if self.waiting == 0 { self.silentSince = now }
        switch lane {
        case .express: self.express += 1
        case .bulk: self.bulk += 1
        }
        self.usedAt = now
    }

    /// Records that a request waits no longer.
    mutating func left(_ lane: Lane) {
        switch lane {
        case .express: self.express -= 1
        case .bulk: self.bulk -= 1
        }
        precondition(self.express >= 0 && self.bulk >= 0)
    }

    /// Records that a request that waited has got room.
    mutating func gotRoom(now: UInt64) {
        self.crampedSince = self.waiting > 0 ? now : nil
        self.silentSince = now
    }

    /// Records that all requests that waited are put off.
    mutating func emptied() { self.crampedSince = nil }

    /// Records that the origin is full and slow: until it answers, one request of each lane may wait for it.
    mutating func stall() { self.isStalled = true }

    /// Puts off all requests for a while.
    mutating func rest(now: UInt64) { self.restsUntil = now + self.limits.restDefault }

    /// Records whether there is a connection.
    mutating func connected(_ isConnected: Bool, now: UInt64) {
        if isConnected {
            if self.unconnectedSince != nil { self.silentSince = now }
            self.unconnectedSince = nil
        } else if self.unconnectedSince == nil {
            self.unconnectedSince = now
        }
    }

    /// Records an answer.
    mutating func answered(_ outcome: DeliveryOutcome, now: UInt64) {
        switch outcome {
        case .deferred(let deferral) where deferral.reason == .rateLimited:
            self.rateLimited += 1
            guard self.rateLimited >= self.limits.rateLimitedMax else { return }
            self.rateLimited = 0
            let asked = deferral.retryAfterMilliseconds.map { UInt64(max(0, $0)) * 1_000_000 }
            self.restsUntil = now + min(asked ?? self.limits.restDefault, self.limits.restMax)
        case .accepted:
            self.rateLimited = 0
            self.isStalled = false
        case .unregistered, .suspect, .rejected: self.isStalled = false
        case .deferred, .misconfigured, .lost: break
        }
    }

    /// Records that the origin refuses the credential.
    mutating func refused(now: UInt64) { self.refusedUntil = now + self.limits.refusalPause }

    /// Forgets the refusal.
    mutating func restored() { self.refusedUntil = 0 }
}

/// The states of an origin to which recipients' addresses lead, as metrics count them.
package enum OriginStanding: Int, CaseIterable, Sendable, Hashable {
    /// Its requests are sent, or wait for room or for its first connection.
    case sending
    /// It was full and slow: until it answers, further requests are put off.
    case slow
    /// It rests: its requests are put off until the time that it asked for, or for a while.
    case resting
    /// There has been no connection for so long that its requests are put off.
    case unreachable
    /// It refuses the credential, which is not tried again yet.
    case refused
}
