/// So many requests per second from each of many, by the generic cell rate algorithm: one number for each of them. Pure: the
/// time is given.
package struct RateLimiter<Key: Hashable & Sendable>: Sendable {
    /// How many are told apart; all beyond share one allowance.
    package static var keysMax: Int { 65_536 }

    /// Between two requests, in nanoseconds.
    private let interval: Int64
    /// How much may be used ahead of time, in nanoseconds.
    private let burst: Int64
    /// When each would be even again; those who are even are left out. The nil key is everybody beyond the limit.
    private var evenAt: [Key?: Int64] = [:]
    private var sweptAt: Int64 = .min

    /// A limiter.
    ///
    /// - Parameters:
    ///   - perSecond: from 1.
    ///   - burstSeconds: what may come at once, in seconds' worth; one request always may.
    package init(perSecond: Int, burstSeconds: Double = 2) {
        self.interval = max(1, 1_000_000_000 / Int64(perSecond))
        self.burst = max(self.interval, Int64(burstSeconds * 1_000_000_000))
    }

    /// Takes one request into account, or refuses it.
    ///
    /// - Parameter now: nanoseconds of a clock that never goes back.
    /// - Returns: nil: it may pass; else in how many nanoseconds the next one may.
    package mutating func refusal(of key: Key, at now: Int64) -> Int64? {
        var slot: Key? = key
        if self.evenAt[key] == nil, self.evenAt.count >= Self.keysMax {
            self.sweep(now)
            if self.evenAt.count >= Self.keysMax { slot = nil }
        }
        let even = max(self.evenAt[slot] ?? now, now) + self.interval
        guard even - now <= self.burst else { return even - now - self.burst }
        self.evenAt[slot] = even
        return nil
    }

    /// How many are remembered.
    package var keyCount: Int { self.evenAt.count }

    /// Forgets who is even; at most once a second, since it looks at all.
    private mutating func sweep(_ now: Int64) {
        guard self.sweptAt == .min || now - self.sweptAt >= 1_000_000_000 else { return }
        self.sweptAt = now
        self.evenAt = self.evenAt.filter { $0.value > now }
    }
}
