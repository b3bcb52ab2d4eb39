internal import ApusCore

/// Decides what becomes of requests to one origin of many: sent, made to wait, or put off. A pure state machine; times
/// are nanoseconds of one monotonic clock.
///
/// Trouble at one origin must not stop the others: while nothing can be sent to it, its requests are put off, and those
/// of others go on. What only takes its time holds back everything, as a provider of one address does.
struct OriginState: Sendable {
    /// The sizes and times of an origin.
    struct Limits: Hashable, Sendable {
        /// The maximum number of requests that wait for room at one origin.
        var waitingMax = 256
        /// The time without a connection for which requests are made to wait for it.
        var connectingMax: UInt64 = 2_000_000_000
        /// The maximum time for which a request waits for room.
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
        /// Accept no request at all now: the origin has as many waiting as it may.
        case holdBack
        /// Answer the request without sending it.
        case putOff(Reason, nanoseconds: UInt64)
    }

    private let limits: Limits
    /// The number of requests that are being made or wait for room.
    private(set) var waiting = 0
    /// The time since which there has been no connection; nil while there is one.
    private(set) var unconnectedSince: UInt64?
    private var usedAt: UInt64
    private var restsUntil: UInt64 = 0
    private var rateLimited = 0
    /// The time until which the credential counts as refused; 0 while it is not.
    private(set) var refusedUntil: UInt64 = 0

    init(_ limits: Limits, now: UInt64) {
        self.limits = limits
        self.unconnectedSince = now
        self.usedAt = now
    }

    /// Returns true when as many requests wait as may.
    var isFull: Bool { self.waiting >= self.limits.waitingMax }

    /// Decides about a request.
    func decide(now: UInt64) -> Decision {
        if now < self.refusedUntil { return .putOff(.credentials, nanoseconds: self.refusedUntil - now) }
        if now < self.restsUntil { return .putOff(.rateLimited, nanoseconds: self.restsUntil - now) }
        guard self.isFull else { return .take }
        return self.isUnreachable(now: now) ? .putOff(.connection, nanoseconds: 0) : .holdBack
    }

    /// True when there has been no connection for so long that requests are not made to wait for one.
    func isUnreachable(now: UInt64) -> Bool {
        self.unconnectedSince.map { now >= $0 + self.limits.connectingMax } ?? false
    }

    /// Returns true when a request that began to wait then has waited for too long.
    func hasWaitedTooLong(since: UInt64, now: UInt64) -> Bool { now >= since + self.limits.waitMax }

    /// Returns true when the origin has been without requests for so long that its connections are closed.
    func isIdle(now: UInt64) -> Bool { self.waiting == 0 && now >= self.usedAt + self.limits.idleMax }

    /// The time of the last request.
    var lastUse: UInt64 { self.usedAt }

    /// Records an accepted request.
    mutating func taken(now: UInt64) {
        self.waiting += 1
        self.usedAt = now
    }

    /// Records that a request waits no longer.
    mutating func left() {
        precondition(self.waiting > 0)
        self.waiting -= 1
    }

    /// Records whether there is a connection.
    mutating func connected(_ isConnected: Bool, now: UInt64) {
        if isConnected {
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
        case .unregistered, .suspect, .rejected, .deferred, .misconfigured, .lost: break
        }
    }

    /// Records that the origin refuses the credential.
    mutating func refused(now: UInt64) { self.refusedUntil = now + self.limits.refusalPause }

    /// Forgets the refusal.
    mutating func restored() { self.refusedUntil = 0 }
}
