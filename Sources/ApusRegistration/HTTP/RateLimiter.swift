/// Limits requests per second from each of many clients, by the generic cell rate algorithm: one number for each client. It is pure: the
/// time is an argument.
package struct RateLimiter<Key: Hashable & Sendable>: Sendable {
    /// The maximum of clients that are told apart; all others share one allowance.
    package static var keysMax: Int { 65_536 }

    /// The time between two requests, in nanoseconds.
    private let interval: Int64
    /// The time that may be used in advance, in nanoseconds.
    private let burst: Int64
    /// The time at which each client's allowance is full again; a full one is left out. The nil key is shared by the clients beyond the
    /// limit.
    private var evenAt: [Key?: Int64] = [:]
    private var sweptAt: Int64 = .min

    /// Creates a limiter.
    ///
    /// - Parameters:
    ///   - perSecond: the rate, from 1.
    ///   - burstSeconds: the burst in seconds' worth of requests; one request is always allowed.
    package init(perSecond: Int, burstSeconds: Double = 2) {
        self.interval = max(1, 1_000_000_000 / Int64(perSecond))
        self.burst = max(self.interval, Int64(burstSeconds * 1_000_000_000))
    }

    /// Creates a limiter of requests that are rarer than one a second.
    ///
    /// - Parameters:
    ///   - interval: the time between two requests.
    ///   - burst: the time that may be used in advance; one request is always allowed.
    package init(interval: Duration, burst: Duration) {
        self.interval = max(1, Int64(interval / .nanoseconds(1)))
        self.burst = max(self.interval, Int64(burst / .nanoseconds(1)))
    }

    /// Counts requests that come together, or refuses all of them.
    ///
    /// - Parameters:
    ///   - now: nanoseconds of a clock that never goes back.
    ///   - count: the number of requests.
    ///   - counted: the number of those that came together with them and are counted already. When they are more than the burst, all pass
    ///     while nothing else is used: they would never pass otherwise.
    /// - Returns: nil when the requests may pass, else the nanoseconds until they may.
    package mutating func refusal(of key: Key, at now: Int64, count: Int = 1, counted: Int = 0) -> Int64? {
        var slot: Key? = key
        if self.evenAt[key] == nil, self.evenAt.count >= Self.keysMax {
            self.sweep(now)
            if self.evenAt.count >= Self.keysMax { slot = nil }
        }
        let most = max(self.burst, self.interval * Int64(count + counted))
        let even = max(self.evenAt[slot] ?? now, now) + self.interval * Int64(count)
        guard even - now <= most else { return even - now - most }
        self.evenAt[slot] = even
        return nil
    }

    /// The number of clients that are remembered.
    package var keyCount: Int { self.evenAt.count }

    /// Forgets clients whose allowance is full; at most once a second, because it looks at all.
    private mutating func sweep(_ now: Int64) {
        guard self.sweptAt == .min || now - self.sweptAt >= 1_000_000_000 else { return }
        self.sweptAt = now
        self.evenAt = self.evenAt.filter { $0.value > now }
    }
}
