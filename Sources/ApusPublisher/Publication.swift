internal import ApusMessages
internal import ApusRedis
internal import ApusStreams

/// Identifies a command in its mailbox.
public struct Publication: Hashable, Sendable {
    /// The send's id.
    public internal(set) var send: String
    /// The app.
    public let app: String
    /// True when the id or the key names a send with the same body already, also if it was refused since; nothing was written now.
    public internal(set) var isDuplicate = false
    /// The level of safety that is proven.
    public let acknowledgement: Acknowledgement
    /// False when the publication is in the mailbox, but the requested safety was not confirmed in time. It may still
    /// be reached: publishing the same command again, with its key or with `send` as its id, checks anew and never sends twice.
    public let isAcknowledged: Bool
    /// False when a replica was to have the publication and Redis has none: to repeat it proves nothing.
    public internal(set) var hasReplica = true
    /// The time of publication in nanoseconds since 1970.
    public let publishedAtNanoseconds: Int64

    /// The stream of its receipts.
    package let receipts: String
    /// The stream of its home shard, where they go if the one that it names takes none.
    package let homeReceipts: String
    /// The entry after which its receipts come.
    package let after: String

    /// Creates the description of a command in its mailbox.
    init(
        _ command: SendCommand,
        _ call: Mailboxes.PreparedCommand,
        after: String,
        _ acknowledgement: Acknowledgement,
        isAcknowledged: Bool,
    ) {
        self.send = command.id
        self.app = command.app
        self.acknowledgement = acknowledgement
        self.isAcknowledged = isAcknowledged
        self.publishedAtNanoseconds = command.publishedAtNanoseconds
        self.homeReceipts = call.keys.receipts
        self.receipts = command.replyTo.isEmpty ? self.homeReceipts : command.replyTo
        self.after = after
    }

    /// The entry after which its receipts come although Redis' clock has gone back since.
    package var wellBefore: String { Self.before(self.after, milliseconds: StreamLimits.clockSkewMaxMilliseconds) }

    /// Returns the entry id before everything that is written from a moment on.
    ///
    /// - Parameters:
    ///   - entry: an entry that was written then.
    ///   - milliseconds: the maximum by which the clock of its server is ahead of that of the others.
    static func before(_ entry: String, milliseconds: Int64) -> String {
        guard let value = Int64(entry.prefix { $0 != "-" }), value > milliseconds else { return "0" }
        return "\(value - milliseconds)-0"
    }
}
