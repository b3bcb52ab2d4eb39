public import ApusCore

/// The kinds of a listener's certificate.
public enum CertificateForm: String, CaseIterable, Hashable, Sendable {
    /// The certificate is valid.
    case valid
    /// The certificate expired a day ago.
    case expired
    /// The certificate is for another host name.
    case wrongName = "wrong_name"
}

/// A script for the simulator: the faults with their rates and times, the listeners' certificates, and schedules of tokens.
///
/// The same script with the same seed has the same faults for the same numbers of requests.
public struct SimulatorScript: Hashable, Sendable {
    /// A token and the events in its schedule.
    public struct TokenSchedule: Hashable, Sendable {
        /// The provider of the token.
        public var provider: Provider
        /// The token in the app's form.
        public var token: String
        /// The events in order of time.
        public var events: [TimedEvent]

        /// An event at a time.
        public struct TimedEvent: Hashable, Sendable {
            /// The time in milliseconds after the start.
            public var atMilliseconds: Int64
            /// The event.
            public var event: Event
        }

        /// The events of a token.
        public enum Event: String, CaseIterable, Hashable, Sendable {
            /// The app is removed from the device; answers carry the time where the provider has a timestamp.
            case dies
            /// The token expires; answers carry the time where the provider has a timestamp.
            case expires
            /// The token becomes invalid.
            case spoils
            /// The token belongs to another app from now on.
            case defects
            /// The token is alive again.
            case returns

            /// Returns the behavior of the token from that time on.
            func behavior(since time: UnixMilliseconds) -> TokenBehavior {
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

    /// The plan of faults.
    public var plan = FaultPlan()
    /// The single faults, in order.
    public var scripts: [FaultScript] = []
    /// The certificates of the listeners; others are valid.
    public var certificates: [FaultRoute: CertificateForm] = [:]
    /// The schedules of tokens.
    public var tokens: [TokenSchedule] = []
    /// True when the script names a seed.
    public var hasSeed = false

    /// Creates a script without faults and events.
    public init() {}

    /// A summary for people.
    public var summary: String {
        "seed \(self.plan.seed), \(self.plan.phases.count) phases, \(self.scripts.count) scripts, "
            + "\(self.tokens.count) tokens with a schedule"
    }
}

extension TokenBehaviors {
    /// Adds a script's schedules, with times relative to `start`.
    package mutating func adopt(_ schedules: [SimulatorScript.TokenSchedule], start: UnixMilliseconds) {
        for schedule in schedules {
            let changes = schedule.events.map { timed in
                let time = start.advanced(byMilliseconds: timed.atMilliseconds)
                return Change(at: time, behavior: timed.event.behavior(since: time))
            }
            self.schedule(changes, of: TokenDigest(schedule.token, provider: schedule.provider))
        }
    }
}
