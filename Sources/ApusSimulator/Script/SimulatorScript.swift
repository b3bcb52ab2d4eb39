public import ApusCore

/// What the certificate of a listener is worth.
public enum CertificateForm: String, CaseIterable, Hashable, Sendable {
    /// Good.
    case valid
    /// Expired a day ago.
    case expired
    /// Of another name than the one that is asked for.
    case wrongName = "wrong_name"
}

/// A story for the simulator, as data: what goes wrong when and how often, which certificates it shows, and what becomes of tokens.
///
/// The same script with the same seed has the same faults for the same numbers of requests.
public struct SimulatorScript: Hashable, Sendable {
    /// A token and what becomes of it.
    public struct TokenLife: Hashable, Sendable {
        /// Whose token.
        public var provider: Provider
        /// As the app has it.
        public var token: String
        /// In order of time: milliseconds after the start, and the fate from then on.
        public var turns: [Turn]

        /// One change.
        public struct Turn: Hashable, Sendable {
            /// Milliseconds after the start.
            public var atMilliseconds: Int64
            /// What happens.
            public var event: Event
        }

        /// What may become of a token.
        public enum Event: String, CaseIterable, Hashable, Sendable {
            /// The app is gone: from then on unregistered, with that time as the provider's timestamp.
            case dies
            /// Apple's `ExpiredToken`, with that time.
            case expires
            /// Called bad.
            case spoils
            /// Of another app.
            case defects
            /// It is good again.
            case returns

            /// What a provider knows of a token from that time on.
            func fate(since time: UnixMilliseconds) -> TokenFate {
                switch self {
                case .dies: .dead(since: time)
                case .expires: .expired(since: time)
                case .spoils: .bad
                case .defects: .foreign
                case .returns: .alive
                }
            }
        }
    }

    /// What goes wrong; nil: nothing.
    public var plan = FaultPlan()
    /// One-shot misfortunes, in the order they strike.
    public var scripts: [FaultScript] = []
    /// The certificates of the listeners; those that are not named are good.
    public var certificates: [FaultRoute: CertificateForm] = [:]
    /// Tokens with a story.
    public var tokens: [TokenLife] = []
    /// Whether the script names a seed.
    public var hasSeed = false

    /// Nothing happens.
    public init() {}

    /// In few words, for people.
    public var summary: String {
        "seed \(self.plan.seed), \(self.plan.phases.count) phases, \(self.scripts.count) scripts, "
            + "\(self.tokens.count) tokens with a story"
    }
}

extension TokenFates {
    /// Lets a script's tokens live their lives from `start` on.
    package mutating func adopt(_ lives: [SimulatorScript.TokenLife], start: UnixMilliseconds) {
        for life in lives {
            let turns = life.turns.map { turn in
                let time = start.advanced(byMilliseconds: turn.atMilliseconds)
                return Turn(at: time, fate: turn.event.fate(since: time))
            }
            self.schedule(turns, of: TokenDigest(life.token, provider: life.provider))
        }
    }
}
