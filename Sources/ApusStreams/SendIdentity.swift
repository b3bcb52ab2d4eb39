internal import ApusCore
public import ApusMessages
internal import ApusRedis
internal import ApusTLS

/// Identifies a send: two commands with the same identity are the same send, which lives in the same shard.
public struct SendIdentity: Hashable, Sendable {
    /// The send's id: the publisher's, else one that is derived from the command's bytes and the place where it was written.
    public let send: String
    /// The key in the window of idempotency: a digest of the app and the idempotency key or, with another first byte, of the app and the
    /// id. Empty when the command has neither.
    public let key: [UInt8]
    /// The text that, together with the app, determines the home shard.
    public let home: String
    /// The hash that places ``home``, of which ``key`` has the beginning.
    let homeHash: [UInt8]
    /// The digest of what is sent and to whom, without the id, the time and the trace.
    public let digest: [UInt8]

    /// The bytes of ``key``: few, since keys are kept for hours, and enough that no two of a billion are the same.
    static let keyBytes = 12
    /// The bytes of ``digest``.
    static let digestBytes = 8

    /// Creates the identity of a command.
    ///
    /// - Parameters:
    ///   - source: the ``StreamEntry/source`` of its entry, which names a command that has no id.
    ///   - digest: the command's ``digest``; nil when it is not known yet.
    public init(of command: borrowing SendCommand, source: @autoclosure () -> String, digest: [UInt8]? = nil) {
        self.send = Self.send(id: command.id, source: source())
        self.home = command.idempotencyKey.isEmpty ? self.send : command.idempotencyKey
        self.homeHash = Keyspace.hash(app: command.app, id: self.home)
        if command.idempotencyKey.isEmpty {
            self.key = command.id.isEmpty ? [] : Self.key(UInt8(ascii: "i"), self.homeHash)
        } else {
            self.key = Self.key(UInt8(ascii: "k"), self.homeHash)
        }
        self.digest = digest ?? Self.digest(ofEncoded: (try? command.encode()) ?? [])
    }

    /// Returns a number by which sends that use one id are told apart, in another hour or with another idempotency key. A command that is
    /// published again within the hour, because Redis may have lost it, has the same one.
    package static func idUse(of command: SendCommand) -> UInt32 {
        let hour = UInt32(truncatingIfNeeded: command.publishedAtNanoseconds / 3_600_000_000_000)
        guard !command.idempotencyKey.isEmpty else { return hour }
        let digest = SHA256.hash(utf8: "\(hour)/\(command.idempotencyKey)")
        return digest.prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// Returns the ``digest`` of an encoded command.
    package static func digest(ofEncoded command: [UInt8]) -> [UInt8] {
        Array(SHA256.hash(SendCommand.content(ofEncoded: command)).prefix(Self.digestBytes))
    }

    /// Returns the key of a send that is published by its id.
    static func key(ofID id: String, app: String) -> [UInt8] {
        Self.key(UInt8(ascii: "i"), Keyspace.hash(app: app, id: id))
    }

    /// Returns the id that a command names, or one that is derived from its entry's ``StreamEntry/source``.
    package static func send(id: String, source: @autoclosure () -> String) -> String {
        id.isEmpty ? "s" + Hexadecimal.encode(SHA256.hash(utf8: source()).prefix(10)) : id
    }

    private static func key(_ kind: UInt8, _ hash: [UInt8]) -> [UInt8] {
        [kind] + hash.prefix(Self.keyBytes - 1)
    }
}
