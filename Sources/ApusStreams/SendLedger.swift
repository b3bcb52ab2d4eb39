public import ApusCore
public import ApusMessages
internal import ApusRedis

/// Holds the state and counts of one send, as they stand in its hash in Redis.
public struct SendLedger: Hashable, Sendable {
    /// The state of a send.
    public enum State: String, Sendable {
        /// The send is being planned or sent.
        case running
        /// An operator holds the send.
        case paused
        /// The send was stopped for good.
        case cancelled
        /// Every recipient has its outcome.
        case done
    }

    /// The app.
    public var app: String = ""
    /// The state of the send.
    public var state: State = .running
    /// The routes on which its recipients are looked for.
    public var routes: [RouteNumber] = []
    /// True while recipients are still being found.
    public var isPlanning = false
    /// True when the message expired before all its recipients were found.
    public var isExpired = false
    /// True when it was stopped for good, also after its end.
    public var isCancelled = false
    /// The time at which it begins; nil when that is not later than its acceptance.
    public var notBefore: UnixMilliseconds?
    /// The number of its plans among the dead letters; the recipients that they would have found are not in `planned`.
    public var unplanned: UInt32 = 0
    /// The number of times that it was opened again after its end, by a plan that was replayed.
    public var reopened: UInt32 = 0
    /// The fields of the message that a provider rejected, by route; empty when there are none.
    public var rejectedFields: [String] = []
    /// The field for which a provider refused everybody, so that the other recipients of the route were rejected unsent; nil when there is
    /// none.
    public var refusedField: String?
    /// The maximum of recipients per second; 0 for as many as its routes allow.
    public var ratePerSecond: UInt32 = 0
    /// The number of recipients found so far.
    public var planned: UInt64 = 0
    /// The number of recipients of each outcome.
    public var counts: [OutcomeCount] = []
    /// The time at which it was accepted.
    public var acceptedAt: UnixMilliseconds?
    /// The time at which the first recipient ended.
    public var firstAt: UnixMilliseconds?
    /// The time at which the last recipient ended.
    public var lastAt: UnixMilliseconds?

    /// Returns the number of recipients of that outcome, over all providers and reasons.
    public func total(_ outcome: Outcome) -> UInt64 {
        guard outcome == .open else { return self.counts.reduce(0) { $0 + ($1.outcome == outcome ? $1.count : 0) } }
        let closed = self.counts.reduce(0) { $0 + $1.count }
        return self.planned > closed ? self.planned - closed : 0
    }

    /// Describes what is wrong with the send as a whole: not every recipient was searched for, or a provider refuses its message. Nil when
    /// nothing is.
    public var problem: Problem? {
        if self.unplanned > 0 {
            let detail =
                "some of its recipients were never looked for: a plan of it is a dead letter, and goes on when replayed"
            return Problem(code: "incomplete", field: "target", detail: detail)
        }
        if let refusedField {
            let detail = "a provider refuses the message for every recipient: the others were rejected unsent"
            return Problem(code: "message_refused", field: refusedField, detail: detail)
        }
        if self.state == .done, self.planned == 0, !self.isCancelled, !self.isExpired {
            return Problem(code: "no_recipients", field: "target", detail: "nobody matches it")
        }
        guard self.isExpired else { return self.partialRejection }
        let detail = "it lost its worth before all its recipients were found"
        return Problem(code: "expired", field: "notification.expiry", detail: detail)
    }

    private var partialRejection: Problem? {
        guard let field = self.rejectedFields.first else { return nil }
        let detail = "a provider refused the message for some recipients"
        return Problem(code: "message_partly_refused", field: field, detail: detail)
    }

    /// Returns one ledger for the sends of an app that have the same id: what any of them still does is its state, and their numbers are
    /// added up. Nil when there is none.
    static func sum(_ ledgers: [SendLedger]) -> SendLedger? {
        guard var sum = ledgers.first else { return nil }
        for other in ledgers.dropFirst() { sum.add(other) }
        return sum
    }

    private mutating func add(_ other: SendLedger) {
        let states = [State.running, .paused, .cancelled, .done]
        self.state = states.first { $0 == self.state || $0 == other.state } ?? .done
        self.routes = Set(self.routes + other.routes).sorted()
        self.isPlanning = self.isPlanning || other.isPlanning
        self.isExpired = self.isExpired || other.isExpired
        self.isCancelled = self.isCancelled || other.isCancelled
        self.notBefore = self.notBefore.flatMap { one in other.notBefore.map { min(one, $0) } }
        self.unplanned += other.unplanned
        self.reopened += other.reopened
        self.rejectedFields = (self.rejectedFields + other.rejectedFields).sorted()
        self.refusedField = self.refusedField ?? other.refusedField
        let isLimited = self.ratePerSecond > 0 && other.ratePerSecond > 0
        self.ratePerSecond = isLimited ? self.ratePerSecond + other.ratePerSecond : 0
        self.planned += other.planned
        self.counts += other.counts
        self.addUpCounts()
        self.acceptedAt = [self.acceptedAt, other.acceptedAt].compactMap(\.self).min()
        self.firstAt = [self.firstAt, other.firstAt].compactMap(\.self).min()
        self.lastAt = [self.lastAt, other.lastAt].compactMap(\.self).max()
    }

    /// Adds up the counts of the same outcome, and orders them.
    private mutating func addUpCounts() {
        self.counts = Dictionary(grouping: self.counts) { Self.field($0) }.values.map { counts in
            var sum = counts[0]
            sum.count = counts.reduce(0) { $0 + $1.count }
            return sum
        }
        self.counts.sort {
            ($0.provider, $0.outcome.rawValue, $0.reason.rawValue) < (
                $1.provider, $1.outcome.rawValue, $1.reason.rawValue
            )
        }
    }

    /// Returns the name of a count in the hash.
    static func field(_ count: OutcomeCount) -> String {
        "\(count.provider.name)/\(count.outcome.name)/\(count.reason.name)"
    }

    /// Creates a ledger from the fields and values of the hash; nil when there are none.
    init?(fields: [(String, String)]) {
        guard !fields.isEmpty else { return nil }
        for (name, value) in fields {
            switch name {
            case "app": self.app = value
            case "state": self.state = State(rawValue: value) ?? .running
            case "routes": self.routes = value.split(separator: ",").compactMap { UInt32($0) }.map(RouteNumber.init)
            case "planning": self.isPlanning = (UInt64(value) ?? 0) > 0
            case "expired": self.isExpired = value == "1"
            case "cancelled": self.isCancelled = value == "1"
            case "not_before": self.notBefore = Int64(value).map { UnixMilliseconds($0) }
            case "unplanned": self.unplanned = UInt32(value) ?? 0
            case "reopened": self.reopened = UInt32(value) ?? 0
            case "rate": self.ratePerSecond = UInt32(value) ?? 0
            case "planned": self.planned = UInt64(value) ?? 0
            case "accepted_at": self.acceptedAt = Int64(value).map { UnixMilliseconds($0) }
            case "first_at": self.firstAt = Int64(value).map { UnixMilliseconds($0) }
            case "last_at": self.lastAt = Int64(value).map { UnixMilliseconds($0) }
            case _ where name.hasPrefix("refused:"): self.refusedField = value
            case _ where name.hasPrefix("blamed:"): self.rejectedFields.append(value)
            default: self.addCount(name, value)
            }
        }
        self.rejectedFields.sort()
        self.addUpCounts()
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
