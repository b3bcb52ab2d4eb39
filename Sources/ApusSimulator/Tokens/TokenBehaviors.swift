public import ApusCore

/// The behaviors of a token at its provider, which answers in its own vocabulary.
public enum TokenBehavior: Hashable, Sendable {
    /// The app was removed from the device at the given time: 410 or 404.
    case dead(since: UnixMilliseconds)
    /// The token expired at the given time; like `dead` where tokens do not expire.
    case expired(since: UnixMilliseconds)
    /// The token is invalid: 400.
    case bad
    /// The token belongs to another app: 400 or 403.
    case foreign
    /// The token is alive, even if the dead share contains it.
    case alive
}

/// A random share of all tokens: the same tokens for the same seed, in every process.
public struct DeadShare: Hashable, Sendable {
    /// The share, 0...1.
    public let share: Double
    /// The seed that selects the tokens.
    public let seed: UInt64

    private let threshold: UInt64

    /// Creates a share of 0...1.
    public init(_ share: Double, seed: UInt64) {
        precondition((0...1).contains(share), "a share is 0 to 1")
        self.share = share
        self.seed = seed
        self.threshold = share >= 1 ? .max : UInt64(share * 0x1p64)
    }

    /// Returns true when the share contains a token.
    public func contains(_ token: TokenDigest) -> Bool {
        guard self.threshold > 0 else { return false }
        let draw = TokenDigest.fold(token.high ^ self.seed, 0xa24b_aed4_963e_e407)
        return draw < self.threshold || self.threshold == .max
    }

    /// Returns true when the share contains a token; it can be computed wherever the seed is known.
    public func contains(_ token: String, provider: Provider) -> Bool {
        self.contains(TokenDigest(token, provider: provider))
    }
}

/// Holds the behaviors of tokens: declared ones, scheduled ones, otherwise the dead share.
public struct TokenBehaviors: Sendable {
    /// The share of tokens that are dead.
    public var deadShare: DeadShare
    /// The time at which those tokens died; nil for just before each request.
    public var deadSince: UnixMilliseconds?

    private var declared: [TokenDigest: TokenBehavior] = [:]
    private var scheduled: [TokenDigest: [Change]] = [:]

    /// A change of a token's behavior at a time.
    struct Change: Hashable, Sendable {
        /// The time from which it holds.
        let at: UnixMilliseconds
        let behavior: TokenBehavior
    }

    /// Creates behaviors in which all tokens except a share are alive.
    public init(deadShare: DeadShare = DeadShare(0, seed: 0), deadSince: UnixMilliseconds? = nil) {
        self.deadShare = deadShare
        self.deadSince = deadSince
    }

    /// Declares one token's behavior, replacing earlier ones.
    public mutating func declare(_ behavior: TokenBehavior, of token: TokenDigest) { self.declared[token] = behavior }

    /// Schedules changes of one token's behavior, in order of time; a declared behavior takes precedence.
    mutating func schedule(_ changes: [Change], of token: TokenDigest) { self.scheduled[token] = changes }

    /// Returns the behavior of a token; nil when it is alive.
    public func behavior(of token: TokenDigest, now: UnixMilliseconds) -> TokenBehavior? {
        if !self.declared.isEmpty, let behavior = self.declared[token] { return behavior == .alive ? nil : behavior }
        if !self.scheduled.isEmpty, let changes = self.scheduled[token] {
            let behavior = changes.last { $0.at <= now }?.behavior
            return behavior == .alive ? nil : behavior
        }
        guard self.deadShare.contains(token) else { return nil }
        return .dead(since: self.deadSince ?? now)
    }
}
