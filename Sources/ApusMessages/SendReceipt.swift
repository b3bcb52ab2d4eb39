public import ApusCore

/// What is wrong with a command, and where.
public struct Problem: Error, Hashable, Sendable, CustomStringConvertible {
    /// A closed set in snake_case: malformed, unknown_app, conflict, too_many_recipients …
    public var code: String
    /// The path, "notification.collapse_key"; empty: the whole.
    public var field: String
    /// A sentence.
    public var detail: String

    /// Creates a problem.
    public init(code: String, field: String = "", detail: String) {
        self.code = code
        self.field = field
        self.detail = detail
    }

    /// The sentence, with the path before it.
    public var description: String { self.field.isEmpty ? self.detail : "\(self.field): \(self.detail)" }
}

/// What publishers read back. Delivered at least once; the same receipt has the same id.
public struct SendReceipt: Hashable, Sendable {
    /// What it tells.
    public enum Kind: UInt8, CaseIterable, Sendable {
        /// The command could not be taken.
        case refused = 1
        /// It is under way.
        case progress = 2
        /// Every recipient has its outcome.
        case final = 3
        /// Outcomes one by one.
        case recipients = 4
        /// What the command would do: it asked for a dry run, and nothing was sent.
        case dryRun = 5
    }

    /// What a provider would be given in one language: of a dry run.
    public struct Rendering: Hashable, Sendable {
        /// Who would deliver.
        public var provider: Provider
        /// Which of the provider's worlds.
        public var environment: ProviderEnvironment
        /// The variant's; empty: the notification's own words.
        public var locale: String
        /// Bytes that count against the provider's limit.
        public var payloadBytes: UInt32
        /// The limit.
        public var payloadBytesMax: UInt32

        /// Creates a rendering.
        public init(
            provider: Provider,
            environment: ProviderEnvironment,
            locale: String,
            payloadBytes: UInt32,
            payloadBytesMax: UInt32,
        ) {
            self.provider = provider
            self.environment = environment
            self.locale = locale
            self.payloadBytes = payloadBytes
            self.payloadBytesMax = payloadBytesMax
        }
    }

    /// Derived from what it tells.
    public var id: String
    /// The send.
    public var send: String
    /// The app.
    public var app: String
    /// What it tells.
    public var kind: Kind
    /// The reason why it was refused.
    public var problem: Problem?
    /// The number of recipients it has.
    public var planned: UInt64 = 0
    /// The number of ended how; of a dry run, who would be sent to is open.
    public var counts: [OutcomeCount] = []
    /// Outcomes one by one.
    public var recipients: [RecipientOutcome] = []
    /// Nanoseconds since 1970; 0: unknown.
    public var publishedAtNanoseconds: Int64 = 0
    /// The time at which the first recipient ended.
    public var firstAt: UnixMilliseconds?
    /// The time at which the last recipient ended.
    public var lastAt: UnixMilliseconds?
    /// W3C trace context.
    public var traceparent: String = ""
    /// What other systems carry along with the trace (W3C `tracestate`); unread.
    public var tracestate: String = ""
    /// The command's.
    public var idempotencyKey: String = ""
    /// The send that the same key named before.
    public var duplicateOf: String = ""
    /// Of a dry run, by route and language.
    public var renderings: [Rendering] = []
    /// Of a dry run: advice, nothing of which would stop the send.
    public var lints: [Problem] = []

    /// Creates a receipt.
    public init(id: String, send: String, app: String, kind: Kind) {
        self.id = id
        self.send = send
        self.app = app
        self.kind = kind
    }
}
