internal import ApusCore
public import ApusMessages
internal import ApusTLS

/// What makes two commands the same send, and where the send lives.
public struct SendIdentity: Hashable, Sendable {
    /// The send's id: the publisher's, else derived from where the command was written.
    public let send: String
    /// What the window of idempotency knows it by; empty: neither a key nor an id was given.
    public let key: String
    /// What chooses the home shard, together with the app.
    public let home: String
    /// Digest of what is sent and to whom: of neither the id nor the time nor the trace.
    public let digest: String

    /// The identity of a command written at that origin ("<stream>/<entry id>").
    public init(of command: SendCommand, origin: String) {
        self.send = Self.send(id: command.id, origin: origin)
        if command.idempotencyKey.isEmpty {
            self.key = command.id.isEmpty ? "" : "id:\(command.id)"
            self.home = self.send
        } else {
            self.key = command.idempotencyKey
            self.home = command.idempotencyKey
        }
        var content = command
        content.id = ""
        content.publishedAtNanoseconds = 0
        content.traceparent = ""
        content.tracestate = ""
        self.digest = Self.short((try? content.encode()) ?? [])
    }

    /// The id of the send that a command names, or that is derived from where it was written.
    package static func send(id: String, origin: String) -> String {
        id.isEmpty ? "s" + Self.short(Array(origin.utf8)) : id
    }

    private static func short(_ bytes: [UInt8]) -> String {
        Hexadecimal.encode(SHA256.hash(bytes).prefix(10))
    }
}
