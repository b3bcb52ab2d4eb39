public import ApusCore

/// How many recipients ended how.
public struct OutcomeCount: Hashable, Sendable {
    /// By whom.
    public var provider: Provider
    /// How.
    public var outcome: Outcome
    /// Why.
    public var reason: Reason
    /// How many.
    public var count: UInt64

    /// A count.
    public init(provider: Provider, outcome: Outcome, reason: Reason, count: UInt64) {
        self.provider = provider
        self.outcome = outcome
        self.reason = reason
        self.count = count
    }
}

/// Which recipient is meant.
public enum RecipientPlace: Hashable, Sendable {
    /// A device of the store.
    case device(DeviceReference)
    /// An index into the command's addresses.
    case address(UInt32)
}

/// What a provider said about a token.
public struct TokenVerdict: Hashable, Sendable {
    /// Whose token.
    public var place: RecipientPlace
    /// Of the token that was sent to.
    public var tokenDigest: UInt64
    /// The provider's timestamp, else when the request started.
    public var asOf: UnixMilliseconds
    /// Our word.
    public var reason: Reason
    /// The provider's word.
    public var providerReason: String

    /// A verdict.
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

/// How one recipient ended.
public struct RecipientOutcome: Hashable, Sendable {
    /// Which.
    public var place: RecipientPlace
    /// How.
    public var outcome: Outcome
    /// Why.
    public var reason: Reason
    /// The provider's word.
    public var providerReason: String = ""
    /// The provider's own id or name of the notification.
    public var providerID: String = ""
    /// When.
    public var at: UnixMilliseconds
    /// The id of a device of the store; empty: its record was not there, or it is an address.
    public var device: String = ""

    /// An outcome.
    public init(place: RecipientPlace, outcome: Outcome, reason: Reason, at: UnixMilliseconds) {
        self.place = place
        self.outcome = outcome
        self.reason = reason
        self.at = at
    }
}

/// The outcomes of the bits newly set in one unit, or of a direct send.
public struct OutcomeBatch: Hashable, Sendable {
    /// The send.
    public var send: String
    /// The app.
    public var app: String
    /// Where it went.
    public var route: RouteNumber
    /// Who delivered.
    public var provider: Provider
    /// Which of the provider's worlds.
    public var environment: ProviderEnvironment = .production
    /// Stream entry of the unit; empty for a direct send.
    public var unit: String = ""
    /// Of the batch within the unit.
    public var sequence: UInt64 = 0
    /// How many ended how.
    public var counts: [OutcomeCount] = []
    /// Tokens said to be dead.
    public var unregistered: [TokenVerdict] = []
    /// Tokens said to be bad, which may be our mistake.
    public var suspects: [TokenVerdict] = []
    /// At receipt level `recipients`, or of a send that names its recipients.
    public var recipients: [RecipientOutcome] = []
    /// When the first of them ended; nil: unknown.
    public var firstAt: UnixMilliseconds?
    /// When the last of them ended; nil: unknown.
    public var lastAt: UnixMilliseconds?
    /// A direct send: nothing follows.
    public var isFinal: Bool = false
    /// Whether the send names a few devices or users: each outcome goes into its device's history.
    public var namesRecipients: Bool = false
    /// Where receipts go.
    public var replyTo: String = ""
    /// What is told back.
    public var receiptLevel: SendCommand.ReceiptLevel = .summary
    /// W3C trace context.
    public var traceparent: String = ""
    /// What other systems carry along with the trace (W3C `tracestate`); unread.
    public var tracestate: String = ""
    /// A direct send: how many recipients it had in all.
    public var planned: UInt64 = 0
    /// Nanoseconds since 1970; 0: unknown.
    public var publishedAtNanoseconds: Int64 = 0

    /// The send, by its app and its id.
    public var sendKey: SendKey { SendKey(app: self.app, id: self.send) }

    /// An empty batch.
    public init(send: String, app: String, route: RouteNumber, provider: Provider) {
        self.send = send
        self.app = app
        self.route = route
        self.provider = provider
    }
}
