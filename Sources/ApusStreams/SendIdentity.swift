internal import ApusCore
public import ApusMessages
internal import ApusTLS

/// What makes two commands the same send, and where the send lives.
public struct SendIdentity: Hashable, Sendable {
    /// The send's id: the publisher's, else derived from where the command was written.
    public let send: String
    /// What the window of idempotency knows it by: a digest of the app and the key or, with another first byte, of the app and the id; empty:
    /// neither was given.
    public let key: [UInt8]
    /// What chooses the home shard, together with the app.
    public let home: String
    /// Digest of what is sent and to whom: of neither the id nor the time nor the trace.
    public let digest: [UInt8]

    /// Bytes of ``key``: few, since keys are kept for hours, and enough that no two of a billion are the same.
    static let keyBytes = 12
    /// Bytes of ``digest``.
    static let digestBytes = 8

    /// The identity of a command written at that origin ("<stream>/<entry id>").
    public init(of command: SendCommand, origin: String) {
        self.send = Self.send(id: command.id, origin: origin)
        if command.idempotencyKey.isEmpty {
            self.key = command.id.isEmpty ? [] : Self.key(ofID: command.id, app: command.app)
            self.home = self.send
        } else {
            self.key = Self.keyDigest("k", command.idempotencyKey, command.app)
            self.home = command.idempotencyKey
        }
        var content = command
        content.id = ""
        content.publishedAtNanoseconds = 0
        content.traceparent = ""
        content.tracestate = ""
        self.digest = Array(SHA256.hash((try? content.encode()) ?? []).prefix(Self.digestBytes))
    }

    /// The key of a send that is published by its id.
    static func key(ofID id: String, app: String) -> [UInt8] { Self.keyDigest("i", id, app) }

    /// Returns the id of the send that a command names, or that is derived from where it was written.
    package static func send(id: String, origin: String) -> String {
        id.isEmpty ? "s" + Hexadecimal.encode(SHA256.hash(utf8: origin).prefix(10)) : id
    }

    private static func keyDigest(_ kind: Character, _ text: String, _ app: String) -> [UInt8] {
        Array("\(kind)".utf8) + SHA256.hash(utf8: "\(app)\u{0}\(text)").prefix(Self.keyBytes - 1)
    }
}
