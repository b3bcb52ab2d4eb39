public import ApusCore
public import ApusMessages
internal import ApusRedis

/// The state and counts of one send, as its hash in Redis has them.
public struct SendLedger: Hashable, Sendable {
    /// What the send is doing.
    public enum State: String, Sendable {
        /// Being planned or sent.
        case running
        /// Held back by an operator.
        case paused
        /// Stopped for good.
        case cancelled
        /// Every recipient has its outcome.
        case done
    }

    /// The app.
    public var app: String = ""
    /// What the send is doing.
    public var state: State = .running
    /// Whether recipients are still being found.
    public var isPlanning = false
    /// Whether it lost its worth before all its recipients were found.
    public var isExpired = false
    /// Plans of it that lie among the dead letters: whom they would have found is not in `planned`.
    public var unplanned: UInt32 = 0
    /// How often it was opened again after its end, by a plan that was replayed.
    public var reopened: UInt32 = 0
    /// Fields of the message that a provider called wrong, of which route; empty: none.
    public var blamedFields: [String] = []
    /// The field for which a provider refused everybody, so that whoever was left of the route was rejected unsent; nil: none did.
    public var refusedField: String?
    /// Recipients per second that it may reach; 0: as many as its routes allow.
    public var ratePerSecond: UInt32 = 0
    /// Recipients found so far.
    public var planned: UInt64 = 0
    /// How many ended how.
    public var counts: [OutcomeCount] = []
    /// When it was accepted.
    public var acceptedAt: UnixMilliseconds?
    /// When the first recipient ended.
    public var firstAt: UnixMilliseconds?
    /// When the last recipient ended.
    public var lastAt: UnixMilliseconds?

    /// Recipients of that outcome, over all providers and reasons.
    public func total(_ outcome: Outcome) -> UInt64 {
        guard outcome == .open else { return self.counts.reduce(0) { $0 + ($1.outcome == outcome ? $1.count : 0) } }
        let closed = self.counts.reduce(0) { $0 + $1.count }
        return self.planned > closed ? self.planned - closed : 0
    }

    /// What is wrong with it as a whole: not everybody was looked for whom it was meant for, or a provider refuses its message; nil:
    /// nothing of that kind.
    public var problem: Problem? {
        if self.unplanned > 0 {
            let detail =
                "some of its recipients were never looked for: a plan of it is a dead letter, and goes on when replayed"
            return Problem(code: "incomplete", field: "target", detail: detail)
        }
        if let refusedField {
            let detail = "a provider refuses the message for everybody: whoever was left was rejected unsent"
            return Problem(code: "message_refused", field: refusedField, detail: detail)
        }
        guard self.isExpired else { return self.blame }
        let detail = "it lost its worth before all its recipients were found"
        return Problem(code: "expired", field: "notification.expiry", detail: detail)
    }

    private var blame: Problem? {
        guard let field = self.blamedFields.first else { return nil }
        let detail = "a provider refused the message for some recipients"
        return Problem(code: "message_partly_refused", field: field, detail: detail)
    }

    /// The name of a count in the hash.
    static func field(_ count: OutcomeCount) -> String {
        "\(count.provider.name)/\(count.outcome.name)/\(count.reason.name)"
    }

    /// From the fields and values of the hash; nil when there are none.
    init?(fields: [(String, String)]) {
        guard !fields.isEmpty else { return nil }
        for (name, value) in fields {
            switch name {
            case "app": self.app = value
            case "state": self.state = State(rawValue: value) ?? .running
            case "planning": self.isPlanning = (UInt64(value) ?? 0) > 0
            case "expired": self.isExpired = value == "1"
            case "unplanned": self.unplanned = UInt32(value) ?? 0
            case "reopened": self.reopened = UInt32(value) ?? 0
            case "rate": self.ratePerSecond = UInt32(value) ?? 0
            case "planned": self.planned = UInt64(value) ?? 0
            case "accepted_at": self.acceptedAt = Int64(value).map { UnixMilliseconds($0) }
            case "first_at": self.firstAt = Int64(value).map { UnixMilliseconds($0) }
            case "last_at": self.lastAt = Int64(value).map { UnixMilliseconds($0) }
            case _ where name.hasPrefix("refused:"): self.refusedField = value
            case _ where name.hasPrefix("blamed:"): self.blamedFields.append(value)
            default: self.addCount(name, value)
            }
        }
        self.blamedFields.sort()
        self.counts.sort {
            ($0.provider, $0.outcome.rawValue, $0.reason.rawValue) < (
                $1.provider, $1.outcome.rawValue, $1.reason.rawValue
            )
        }
    }

    private mutating func addCount(_ name: String, _ value: String) {
        let parts = name.split(separator: "/")
        guard parts.count == 3, let provider = Provider(name: parts[0]),
            let outcome = Outcome.allCases.first(where: { $0.name == parts[1] }),
            let reason = Reason.allCases.first(where: { $0.name == parts[2] }), let count = UInt64(value)
        else { return }
        self.counts.append(OutcomeCount(provider: provider, outcome: outcome, reason: reason, count: count))
    }
}
