public import ApusCore

/// What the providers know about a token.
public enum TokenFate: Hashable, Sendable {
    /// The app is gone. Apple: 410 `Unregistered` with that time; Google: 404 `UNREGISTERED`.
    case dead(since: UnixMilliseconds)
    /// Apple: 410 `ExpiredToken` with that time; Google: as `dead`.
    case expired(since: UnixMilliseconds)
    /// Apple: 400 `BadDeviceToken`; Google: 400 `INVALID_ARGUMENT`.
    case bad
    /// Of another app. Apple: 400 `DeviceTokenNotForTopic`; Google: 403 `SENDER_ID_MISMATCH`.
    case foreign
    /// Alive, whatever the lots say.
    case alive
}

/// A share of all tokens, drawn by lot: the same tokens for the same seed, in every process.
public struct DeadShare: Hashable, Sendable {
    /// 0...1.
    public let share: Double
    /// Which tokens.
    public let seed: UInt64

    private let threshold: UInt64

    /// A share of 0...1.
    public init(_ share: Double, seed: UInt64) {
        precondition((0...1).contains(share), "a share is 0 to 1")
        self.share = share
        self.seed = seed
        self.threshold = share >= 1 ? .max : UInt64(share * 0x1p64)
    }

    /// Whether the token drew the lot.
    public func contains(_ token: TokenDigest) -> Bool {
        guard self.threshold > 0 else { return false }
        let lot = TokenDigest.fold(token.high ^ self.seed, 0xa24b_aed4_963e_e407)
        return lot < self.threshold || self.threshold == .max
    }

    /// Whether the token drew the lot: callable wherever the seed is known.
    public func contains(_ token: String, provider: Provider) -> Bool {
        self.contains(TokenDigest(token, provider: provider))
    }
}

/// Who is dead, bad or of another app: what was declared, else the lots.
public struct TokenFates: Sendable {
    /// The tokens that died by lot.
    public var deadShare: DeadShare
    /// When those died; nil: just before each request, as far as the answer says.
    public var deadSince: UnixMilliseconds?

    private var declared: [TokenDigest: TokenFate] = [:]
    private var scheduled: [TokenDigest: [Turn]] = [:]

    /// A change of a token's fate.
    struct Turn: Hashable, Sendable {
        /// From when on.
        let at: UnixMilliseconds
        let fate: TokenFate
    }

    /// Everyone is alive, up to a share.
    public init(deadShare: DeadShare = DeadShare(0, seed: 0), deadSince: UnixMilliseconds? = nil) {
        self.deadShare = deadShare
        self.deadSince = deadSince
    }

    /// Declares one token's fate, over the lots and over what was declared before.
    public mutating func declare(_ fate: TokenFate, of token: TokenDigest) { self.declared[token] = fate }

    /// Lets one token's fate change at times, in their order; what is declared of it counts more.
    mutating func schedule(_ turns: [Turn], of token: TokenDigest) { self.scheduled[token] = turns }

    /// Forgets all declarations and all that was to come.
    public mutating func forgetDeclared() {
        self.declared = [:]
        self.scheduled = [:]
    }

    /// How many tokens were declared.
    public var declaredCount: Int { self.declared.count }

    /// What the provider knows; nil: the token is alive.
    public func fate(of token: TokenDigest, now: UnixMilliseconds) -> TokenFate? {
        if !self.declared.isEmpty, let fate = self.declared[token] { return fate == .alive ? nil : fate }
        if !self.scheduled.isEmpty, let turns = self.scheduled[token] {
            let fate = turns.last { $0.at <= now }?.fate
            return fate == .alive ? nil : fate
        }
        guard self.deadShare.contains(token) else { return nil }
        return .dead(since: self.deadSince ?? now)
    }
}
