internal import ApusRedis

/// A command that stands in its mailbox: what it is found by.
public struct Publication: Hashable, Sendable {
    /// The send's id.
    public let send: String
    /// The app.
    public let app: String
    /// The same key with the same body was published within a day; nothing was written now.
    public let isDuplicate: Bool
    /// When it was published, in nanoseconds since 1970.
    public let publishedAtNanoseconds: Int64

    /// The stream that its receipts come to.
    let receipts: String
    /// The entry after which they come.
    package let after: String

    /// The entry id before all that is written from a moment on; that moment is another entry's of the same server.
    static func before(_ entry: String) -> String {
        let milliseconds = entry.prefix { $0 != "-" }
        guard let value = Int64(milliseconds), value > 0 else { return "0" }
        return "\(value - 1)-0"
    }
}
