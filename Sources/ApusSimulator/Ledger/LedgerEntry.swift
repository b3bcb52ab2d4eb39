public import ApusCore

/// An entry of the ledger: one message.
public struct LedgerEntry: Hashable, Sendable {
    /// The time at which the request was complete, however long the answer was delayed, in nanoseconds since 1970.
    public let timeNanoseconds: Int64
    /// The provider that it was sent to.
    public let provider: Provider
    /// The token, in lower-case hexadecimal if it is raw bytes; or a topic, a condition or a channel. Empty when it was
    /// too long and the ledger keeps digests only.
    public let token: String
    /// The token's digest, which is always known.
    public let digest: TokenDigest
    /// The id of the request, or the one in its answer.
    public let id: String?
    /// The send that the payload names.
    public let send: String?
    /// The status of the answer; 0 when the request was not processed. With the faults `silence` and `drop` the client
    /// did not receive the answer.
    public let status: Int
    /// The fault of the request.
    public let fault: String?

    /// True when the request was accepted.
    public var isAccepted: Bool { (200..<300).contains(self.status) }
}

extension LedgerEntry {
    init(_ entry: PackedEntry, in pages: LedgerPages) {
        self.timeNanoseconds = entry.time
        self.provider = FaultRoute.provider(number: entry.route)
        let token = pages.token(of: entry)
        self.token =
            entry.flags.contains(.rawToken) ? Hexadecimal.encode(token) : String(decoding: token, as: UTF8.self)
        self.digest = pages.digest(of: entry)
        self.id = Self.id(of: entry)
        self.send = pages.sends.bytes(entry.send).map { String(decoding: $0, as: UTF8.self) }
        self.status = entry.status
        self.fault = Fault.name(code: entry.fault)
    }

    private static func id(of entry: PackedEntry) -> String? {
        if entry.flags.contains(.uuid) { return UUIDText.text(entry.id.0, entry.id.1) }
        guard entry.flags.contains(.number) else { return nil }
        return UUIDText.messageID(entry.id.1)
    }

    /// Writes a line of NDJSON.
    func write(to writer: inout LineWriter) {
        writer.begin()
        writer.member("time", self.timeNanoseconds)
        writer.member("provider", self.provider.name)
        if self.token.isEmpty {
            writer.member("digest", self.digest.description)
        } else {
            writer.member("token", self.token)
        }
        if let id { writer.member("id", id) }
        if let send { writer.member("send", send) }
        writer.member("status", Int64(self.status))
        if let fault { writer.member("fault", fault) }
        writer.end()
    }
}
