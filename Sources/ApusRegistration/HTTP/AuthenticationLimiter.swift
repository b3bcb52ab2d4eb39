/// Limits the failed authentications of each client address, by the generic cell rate algorithm, and remembers which tokens have been
/// accepted. It is pure: the time is an argument.
///
/// The verification of a signature is what a false token costs. While an address is beyond its limit, tokens from it are verified only if they
/// have been accepted before; keys cost a digest, and are always compared. So whoever shares the address of an attacker, behind one network
/// address translator, goes on with what worked before.
package struct AuthenticationLimiter: Sendable {
    /// The maximum of addresses that are told apart. Those beyond are not limited: otherwise whoever has many addresses could shut out all
    /// others.
    package static let addressesMax = 65_536
    /// The maximum of accepted tokens that are remembered; each takes the place of another one.
    package static let tokensMax = 16_384
    private static let nanosecondsPerMinute: Int64 = 60_000_000_000

    /// The time in which one failure is forgotten, in nanoseconds.
    private let interval: Int64
    /// The time at which the last failure of an address is forgotten.
    private var evenAt: [AddressCounts.Address: Int64] = [:]
    private var sweptAt = Int64.min
    /// A part of the digest of each accepted token, at the place that the digest says; 0 for none.
    private var tokens = [UInt64](repeating: 0, count: Self.tokensMax)

    /// Creates a limiter of addresses without failures.
    ///
    /// - Parameter perMinute: the failures of one address in a minute, from 1; as many may come at once.
    package init(perMinute: Int) {
        precondition(perMinute > 0)
        self.interval = max(1, Self.nanosecondsPerMinute / Int64(perMinute))
    }

    /// True while an address has failures that are not forgotten; otherwise none is beyond its limit.
    package var hasFailures: Bool { !self.evenAt.isEmpty }

    /// The number of addresses that are remembered.
    package var addressCount: Int { self.evenAt.count }

    /// Returns how long an address is beyond its limit, in nanoseconds; nil when it is not.
    ///
    /// - Parameter now: nanoseconds of a clock that never goes back.
    package func wait(of address: AddressCounts.Address, at now: Int64) -> Int64? {
        guard let even = self.evenAt[address] else { return nil }
        let excess = even + self.interval - now - Self.nanosecondsPerMinute
        return excess > 0 ? excess : nil
    }

    /// Counts a failure of an address that is not beyond its limit.
    package mutating func recordFailure(of address: AddressCounts.Address, at now: Int64) {
        if self.evenAt[address] == nil, self.evenAt.count >= Self.addressesMax {
            self.sweep(now)
            guard self.evenAt.count < Self.addressesMax else { return }
        }
        guard self.wait(of: address, at: now) == nil else { return }
        self.evenAt[address] = max(self.evenAt[address] ?? now, now) + self.interval
    }

    /// Remembers that a token was accepted.
    ///
    /// - Parameter token: a part of its digest.
    package mutating func recordAcceptance(of token: UInt64) {
        self.tokens[Int(token % UInt64(Self.tokensMax))] = token
    }

    /// Returns true when a token is remembered as accepted. It may have expired since, and is to be verified all the same.
    package func hasAccepted(_ token: UInt64) -> Bool {
        token != 0 && self.tokens[Int(token % UInt64(Self.tokensMax))] == token
    }

    /// Forgets addresses whose failures are forgotten; at most once a second, because it looks at all.
    private mutating func sweep(_ now: Int64) {
        guard self.sweptAt == .min || now - self.sweptAt >= 1_000_000_000 else { return }
        self.sweptAt = now
        self.evenAt = self.evenAt.filter { $0.value > now }
    }
}
