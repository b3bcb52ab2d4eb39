public import ApusCore

/// Describes an error in a command and its place.
public struct Problem: Error, Hashable, Sendable, CustomStringConvertible {
    /// The code, one of the closed set that `Protos/apus/v1/receipt.proto` lists, such as "unknown_app".
    public var code: String
    /// The path, such as "notification.collapse_key"; empty for the whole command.
    public var field: String
    /// The rule that was broken.
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

extension Problem {
    /// An entry of a stream has no message: whoever wrote it used another field.
    package static let noMessage = Problem(code: "malformed", detail: "the entry has no field m, with the message")
}

/// Reports to a publisher about a send. Delivered at least once; the same receipt has the same id.
public struct SendReceipt: Hashable, Sendable {
    /// The kinds of receipts.
    public enum Kind: UInt8, CaseIterable, Sendable {
        /// The command was refused.
        case refused = 1
        /// The send is in progress.
        case progress = 2
        /// Every recipient has its outcome.
        case final = 3
        /// The receipt lists outcomes one by one.
        case recipients = 4
        /// The receipt says what the command would do: it asked for a dry run, and nothing was sent.
        case dryRun = 5
    }

    /// The request that a provider would receive in one language, in a dry run.
    public struct Rendering: Hashable, Sendable {
        /// The provider.
        public var provider: Provider
        /// The provider's environment.
        public var environment: ProviderEnvironment
        /// The variant's locale; empty for the notification's own language.
        public var locale: String
        /// The bytes that count against the provider's limit.
        public var payloadBytes: UInt32
        /// The provider's limit of those bytes.
        public var payloadBytesMax: UInt32
        /// The body, with a placeholder for the token; empty when the receipt has no room for it.
        public var payload = ""
        /// The headers that are the same for every device, each as "name: value".
        public var headers: [String] = []

        /// Creates a rendering without its body and headers.
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

    /// The receipt's id, derived from its content.
    public var id: String
    /// The send.
    public var send: String
    /// The app.
    public var app: String
    /// The kind of receipt.
    public var kind: Kind
    /// The reason of a refusal.
    public var problem: Problem?
    /// The number of recipients.
    public var planned: UInt64 = 0
    /// The numbers of recipients by outcome; in a dry run those who would be sent to are open.
    public var counts: [OutcomeCount] = []
    /// The outcomes one by one.
    public var recipients: [RecipientOutcome] = []
    /// The time of publication in nanoseconds since 1970; 0 when unknown.
    public var publishedAtNanoseconds: Int64 = 0
    /// The time of the first outcome.
    public var firstAt: UnixMilliseconds?
    /// The time of the last outcome.
    public var lastAt: UnixMilliseconds?
    /// The trace context (W3C `traceparent`).
    public var traceparent: String = ""
    /// The state that other systems carry along with the trace (W3C `tracestate`), unread.
    public var tracestate: String = ""
    /// The command's idempotency key.
    public var idempotencyKey: String = ""
    /// The earlier send with the same key.
    public var duplicateOf: String = ""
    /// The renderings of a dry run, by route and language.
    public var renderings: [Rendering] = []
    /// The warnings of a dry run, none of which would stop the send.
    public var lints: [Problem] = []

    /// Creates a receipt.
    public init(id: String, send: String, app: String, kind: Kind) {
        self.id = id
        self.send = send
        self.app = app
        self.kind = kind
    }

    /// True when it says that the same command was there before under the same id: what became of the send is in other receipts.
    package var tellsOfRepetition: Bool { self.kind == .refused && self.duplicateOf == self.send && !self.send.isEmpty }

    /// True when it says that another command was there before under that id: what became of the send that has it is in other receipts. Where
    /// the key of a command was used for another one, its id names no other send.
    package var tellsOfAnotherCommand: Bool {
        self.kind == .refused && self.problem?.code == "conflict" && self.problem?.field == "id"
    }

    /// Creates the final receipt of a direct send, which has one batch and no ledger.
    public init(final batch: OutcomeBatch) {
        self.init(id: "final:\(batch.receiptName)", send: batch.send, app: batch.app, kind: .final)
        self.planned = batch.planned
        self.counts = batch.counts
        self.firstAt = batch.firstAt
        self.lastAt = batch.lastAt
        self.carry(batch)
    }

    /// Creates the final receipt of a direct send from its batches, one of each route. The first has the number of recipients.
    package init(final batches: [OutcomeBatch]) {
        self.init(final: batches[0])
        for batch in batches.dropFirst() {
            for count in batch.counts { self.counts.add(count) }
            self.firstAt = [self.firstAt, batch.firstAt].compactMap(\.self).min()
            self.lastAt = [self.lastAt, batch.lastAt].compactMap(\.self).max()
        }
    }

    /// Sets when the batch's send was published, and its trace.
    package mutating func carry(_ batch: OutcomeBatch) {
        self.publishedAtNanoseconds = batch.publishedAtNanoseconds
        self.traceparent = batch.traceparent
        self.tracestate = batch.tracestate
    }
}
