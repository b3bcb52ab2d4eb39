public import ApusCore

/// Counts the recipients with the same provider, outcome and reason.
public struct OutcomeCount: Hashable, Sendable {
    /// The provider.
    public var provider: Provider
    /// The outcome.
    public var outcome: Outcome
    /// The reason.
    public var reason: Reason
    /// The number of recipients.
    public var count: UInt64

    /// Creates a count.
    public init(provider: Provider, outcome: Outcome, reason: Reason, count: UInt64) {
        self.provider = provider
        self.outcome = outcome
        self.reason = reason
        self.count = count
    }
}

extension [OutcomeCount] {
    /// Adds a count to that of the same provider, outcome and reason.
    package mutating func add(_ other: OutcomeCount) {
        let index = self.firstIndex {
            $0.provider == other.provider && $0.outcome == other.outcome && $0.reason == other.reason
        }
        if let index { self[index].count += other.count } else { self.append(other) }
    }
}

/// Identifies a recipient of a send.
public enum RecipientPlace: Hashable, Sendable {
    /// A device in the store.
    case device(DeviceReference)
    /// The index of an address in the command.
    case address(UInt32)
}

/// A provider's statement about a token.
public struct TokenVerdict: Hashable, Sendable {
    /// The recipient whose token it is.
    public var place: RecipientPlace
    /// The digest of the token that was sent to.
    public var tokenDigest: UInt64
    /// The provider's timestamp, otherwise the time at which the request started.
    public var asOf: UnixMilliseconds
    /// The reason in our vocabulary.
    public var reason: Reason
    /// The reason in the provider's words.
    public var providerReason: String

    /// Creates a verdict.
    public init(
        place: RecipientPlace,
        tokenDigest: UInt64,
        asOf: UnixMilliseconds,
        reason: Reason,
        providerReason: String,
    ) {
        self.place = place
        self.tokenDigest = tokenDigest
        self.asOf = asOf
        self.reason = reason
        self.providerReason = providerReason
    }
}

/// The outcome of one recipient.
public struct RecipientOutcome: Hashable, Sendable {
    /// The recipient.
    public var place: RecipientPlace
    /// The outcome.
    public var outcome: Outcome
    /// The reason.
    public var reason: Reason
    /// The reason in the provider's words.
    public var providerReason: String = ""
    /// The provider's own id or name of the notification.
    public var providerID: String = ""
    /// The time of the outcome.
    public var at: UnixMilliseconds
    /// The id of a device in the store; empty when its record was missing, and for an address.
    public var device: String = ""
    /// The provider of a recipient that is not on the batch's route; nil: the batch's route is its own.
    public var provider: Provider?
    /// The environment of such a recipient.
    public var environment: ProviderEnvironment = .production

    /// Creates an outcome.
    public init(place: RecipientPlace, outcome: Outcome, reason: Reason, at: UnixMilliseconds) {
        self.place = place
        self.outcome = outcome
        self.reason = reason
        self.at = at
    }
}

/// The outcomes of the recipients newly settled in one unit, or of a direct send.
public struct OutcomeBatch: Hashable, Sendable {
    /// The send.
    public var send: String
    /// The app.
    public var app: String
    /// The number of the route.
    public var route: RouteNumber
    /// The provider.
    public var provider: Provider
    /// The provider's environment.
    public var environment: ProviderEnvironment = .production
    /// The stream entry of the unit; empty for a direct send.
    public var unit: String = ""
    /// The number of the batch within the unit.
    public var sequence: UInt64 = 0
    /// The numbers of recipients by outcome.
    public var counts: [OutcomeCount] = []
    /// The tokens that the provider called dead.
    public var unregistered: [TokenVerdict] = []
    /// The tokens that the provider called bad, which may be our mistake.
    public var suspects: [TokenVerdict] = []
    /// The tokens for which a message was refused although the provider may mean the token, with the reason `payload`; and those of such
    /// tokens that the provider accepted afterwards, with the reason `none`.
    public var refusals: [TokenVerdict] = []
    /// The outcomes one by one: at receipt level `recipients`, or of a send that names its recipients.
    public var recipients: [RecipientOutcome] = []
    /// The time of the first outcome; nil when unknown.
    public var firstAt: UnixMilliseconds?
    /// The time of the last outcome; nil when unknown.
    public var lastAt: UnixMilliseconds?
    /// True for a direct send: all its batches, one of each route, were written together.
    public var isFinal: Bool = false
    /// True for a direct send whose final receipt was written by the call that wrote the batch.
    public var receiptIsWritten: Bool = false
    /// True when the send names a few devices or users: each outcome is added to its device's history.
    public var namesRecipients: Bool = false
    /// The stream for receipts.
    public var replyTo: String = ""
    /// The level of detail of receipts.
    public var receiptLevel: SendCommand.ReceiptLevel = .summary
    /// The trace context (W3C `traceparent`).
    public var traceparent: String = ""
    /// The state that other systems carry along with the trace (W3C `tracestate`), unread.
    public var tracestate: String = ""
    /// The number of all recipients of a direct send, in the first of its batches.
    public var planned: UInt64 = 0
    /// The time of publication in nanoseconds since 1970; 0 when unknown.
    public var publishedAtNanoseconds: Int64 = 0
    /// A number by which sends that use one id are told apart; 0 when unknown.
    public var idUse: UInt32 = 0

    /// The send, by its app and its id.
    public var sendKey: SendKey { SendKey(app: self.app, id: self.send) }

    /// The name of the send in the ids of its receipts: another send that uses its id has another one.
    package var receiptName: String {
        self.idUse == 0 ? self.sendKey.description : "\(self.sendKey):\(String(self.idUse, radix: 16))"
    }

    /// Creates an empty batch.
    public init(send: String, app: String, route: RouteNumber, provider: Provider) {
        self.send = send
        self.app = app
        self.route = route
        self.provider = provider
    }
}
