public import ApusCore

/// One request as the simulator saw it.
public struct LedgerEntry: Hashable, Sendable {
    /// When it had arrived and was judged, however long the answer was held back: nanoseconds since 1970.
    public let timeNanoseconds: Int64
    /// `apns` or `fcm`.
    public let provider: Provider
    /// The token: Apple's in lower-case hexadecimal; "/topics/…" or a condition for such messages. Empty when it was too
    /// long and the ledger keeps digests only.
    public let token: String
    /// The token's digest, kept in any case.
    public let digest: TokenDigest
    /// `apns-id`, or the last part of an FCM message's name.
    public let id: String?
    /// The send that the payload names.
    public let send: String?
    /// What the provider decided; 0 when it did not look at the request. Whether the answer got through, the fault says:
    /// after `silence` and `drop` nobody heard it.
    public let status: Int
    /// The fault that struck it.
    public let fault: String?

    /// Whether the provider took it.
    public var isAccepted: Bool { self.status == 200 }
}

extension LedgerEntry {
    init(_ entry: PackedEntry, in pages: LedgerPages) {
        self.timeNanoseconds = entry.time
        self.provider = entry.route == FaultRoute.apns.rawValue ? .apns : .fcm
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
        return MessageName.text(number: entry.id.1)
    }

    /// One line of NDJSON, without its end.
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

extension TokenDigest: CustomStringConvertible {
    /// 32 hexadecimal digits.
    public var description: String {
        var bytes: [UInt8] = []
        for word in [self.high, self.low] {
            for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(word >> UInt64(shift) & 0xff)) }
        }
        return Hexadecimal.encode(bytes)
    }
}
