internal import ApusMessages
internal import ApusRedis
internal import ApusStreams

/// A command that stands in its mailbox: what it is found by.
public struct Publication: Hashable, Sendable {
    /// The send's id.
    public internal(set) var send: String
    /// The app.
    public let app: String
    /// The same key with the same body was published within a day; nothing was written now.
    public internal(set) var isDuplicate = false
    /// How safe it is known to be.
    public let acknowledgement: Acknowledgement
    /// False: it stands in the mailbox, but what was to be waited for did not happen in time. It may yet: publishing the
    /// same command (with its id or key) again asks anew, and never sends twice.
    public let isAcknowledged: Bool
    /// The time at which it was published, in nanoseconds since 1970.
    public let publishedAtNanoseconds: Int64

    /// The stream that its receipts come to.
    let receipts: String
    /// The entry after which they come.
    package let after: String

    /// Creates a command in its mailbox.
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
        self.receipts = command.replyTo.isEmpty ? call.keys.receipts : command.replyTo
        self.after = after
    }

    /// The entry id before all that is written from a moment on; that moment is another entry's of the same server.
    static func before(_ entry: String) -> String {
        let milliseconds = entry.prefix { $0 != "-" }
        guard let value = Int64(milliseconds), value > 0 else { return "0" }
        return "\(value - 1)-0"
    }
}
