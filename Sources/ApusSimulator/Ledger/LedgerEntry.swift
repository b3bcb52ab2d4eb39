public import ApusCore

/// One request as the simulator saw it.
public struct LedgerEntry: Hashable, Sendable {
    /// When it was judged: nanoseconds since 1970.
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
    /// 0 when it was never answered.
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

/// UUIDs between text and two words, big endian.
enum UUIDText {
    /// 8-4-4-4-12 digits in lower case.
    static func text(_ high: UInt64, _ low: UInt64) -> String {
        let digits = Array(TokenDigest(high: high, low: low).description)
        let parts = [digits[0..<8], digits[8..<12], digits[12..<16], digits[16..<20], digits[20..<32]]
        return parts.map { String($0) }.joined(separator: "-")
    }

    /// The words of 36 characters; nil if they are not in that form.
    static func words(_ text: Span<UInt8>) -> (UInt64, UInt64)? {
        guard text.count == 36 else { return nil }
        var high: UInt64 = 0
        var low: UInt64 = 0
        for index in text.indices {
            let byte = text[index]
            if index == 8 || index == 13 || index == 18 || index == 23 {
                guard byte == 0x2d else { return nil }
                continue
            }
            let digit: UInt8
            switch byte {
            case 0x30...0x39: digit = byte - 0x30
            case 0x61...0x66: digit = byte - 0x61 + 10
            case 0x41...0x46: digit = byte - 0x41 + 10
            default: return nil
            }
            if index < 18 { high = high << 4 | UInt64(digit) } else { low = low << 4 | UInt64(digit) }
        }
        return (high, low)
    }
}

/// The last part of an FCM message's name.
enum MessageName {
    /// "0:" and 16 digits.
    static func text(number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return "0:" + String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }
}
