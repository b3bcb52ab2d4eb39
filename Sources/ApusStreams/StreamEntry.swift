public import ApusCore
internal import ApusTLS
internal import Glibc

/// Holds one message as a consumer reads it.
public struct StreamEntry: Hashable, Sendable {
    /// The key of its stream.
    public let stream: String
    /// The id that Redis gave it.
    public let id: String
    /// The packed message.
    public let message: [UInt8]
    /// The number of its deliveries, with this one.
    public let deliveries: UInt32
    /// The journal that an earlier owner of the unit left; nil when there is none.
    public let journal: UnitJournal?
    /// The digest of a command's content, ``SendIdentity/digest``, written by the function that published the command when it found that
    /// no other entry and no other send has the command's key or id; nil when nobody has looked.
    public let admittedDigest: [UInt8]?
    /// The error for which the entry can never be handled, as a try has shown; nil while there is none.
    private(set) var refusal: String?
    private let digest: UInt64

    /// Creates an entry.
    public init(
        stream: String,
        id: String,
        message: [UInt8],
        deliveries: UInt32 = 1,
        journal: UnitJournal? = nil,
        admittedDigest: [UInt8]? = nil,
    ) {
        self.stream = stream
        self.id = id
        self.message = message
        self.deliveries = deliveries
        self.journal = journal
        self.admittedDigest = admittedDigest
        self.digest = EntryName.digest(of: message)
    }

    /// The place where it was written, which never changes: "<stream>/<id>".
    public var origin: String { self.name.origin }

    /// The name of a command that has no id of its own: the place where it was written, and the digest of its bytes, because a server that
    /// has forgotten it may give its place to another: "<stream>/<id>#<digest>".
    public var source: String { self.name.source }

    /// The time at which Redis appended it, by its own clock; nil when the writer chose the id, which is not a time then.
    public var writtenAt: UnixMilliseconds? { Self.time(ofID: self.id) }

    /// Returns the time in an entry's id; nil when its writer chose the id, which is not a time then.
    static func time(ofID id: String) -> UnixMilliseconds? {
        let digits = Substring(id.utf8.prefix { $0 != UInt8(ascii: "-") })
        guard let milliseconds = Int64(digits), milliseconds >= 1_000_000_000_000 else { return nil }
        return UnixMilliseconds(milliseconds)
    }

    /// True when nothing has happened to a command since the function that published it admitted it: nobody needs to ask again.
    public var isAdmitted: Bool { self.admittedDigest != nil && self.deliveries == 1 }

    /// True when it may be poison, which ends its owners: it was delivered again and again without progress, and needs a turn of its own.
    var isPoison: Bool {
        self.deliveries > StreamLimits.deliveriesTogetherMax && self.deliveries < StreamLimits.deliveriesMax
    }

    /// The reason to bury the entry rather than to handle it: it was delivered again and again without progress, or can never
    /// be handled. Nil while it is to be handled.
    package var burial: String? {
        if let refusal { return refusal }
        guard self.deliveries >= StreamLimits.deliveriesMax else { return nil }
        return "delivered \(self.deliveries == 1 ? "once" : "\(self.deliveries) times") without progress"
    }

    /// Returns the entry as one that can never be handled.
    package func refused(because error: any Error) -> StreamEntry {
        var entry = self
        entry.refusal = "it can never be handled: \(error)"
        return entry
    }

    var name: EntryName { EntryName(stream: self.stream, id: self.id, digest: self.digest) }
}

/// Names an entry of a stream by its id and its message: a server that has forgotten an entry, and whose clock is behind, may give another
/// one the same id.
struct EntryName: Hashable, Sendable {
    var stream: String
    var id: String
    var digest: UInt64

    /// The place where it was written: "<stream>/<id>".
    var origin: String { self.stream + "/" + self.id }

    /// The same with the digest.
    var source: String { self.origin + "#" + self.digestText }

    /// The digest as the functions compare it, sixteen hexadecimal digits.
    var digestText: String {
        Hexadecimal.encode((0..<8).map { UInt8(truncatingIfNeeded: self.digest >> (56 - 8 * $0)) })
    }

    /// Returns the first eight bytes of a message's SHA-1, which is the only digest that functions of Redis can compute. Of a message that is
    /// larger than any only the beginning counts, because takeovers bring no more of it.
    static func digest(of message: [UInt8]) -> UInt64 {
        let hash = SHA1.hash(message.span.extracting(first: StreamLimits.entryBytesMax))
        return hash.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}

/// Names a consumer of a group; one process uses the name, once.
public struct StreamConsumer: Hashable, Sendable {
    /// The name of the group.
    public let group: String
    /// The name of the consumer: `<host>-<pid>-<64-bit nonce>`.
    public let name: String

    /// Creates the name of a consumer.
    public init(group: String, name: String) {
        self.group = group
        self.name = name
    }
}

/// Holds the progress of a unit: the number of the last report, which recipients are done and, for a send that may go out once only, which
/// may have been sent to.
public struct UnitJournal: Hashable, Sendable {
    /// The number of the last report, from 1.
    public var sequence: UInt32
    /// The done bits: bit i is bit i % 8 of byte i / 8. When as many bytes follow, they are the marked bits.
    public var bitmap: [UInt8]

    /// Creates a journal.
    public init(sequence: UInt32, bitmap: [UInt8]) {
        self.sequence = sequence
        self.bitmap = bitmap
    }

    /// Reads a journal from Redis: the number in four bytes, big endian, then the bits. Nil when it is shorter than that.
    init?(encoded: [UInt8]) {
        guard encoded.count >= 4 else { return nil }
        self.sequence = encoded.prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
        self.bitmap = Array(encoded.dropFirst(4))
    }

    var encoded: [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: self.sequence >> UInt32($0)) } + self.bitmap
    }
}

extension StreamConsumer {
    /// Creates the name of a consumer in this process: `<host>-<pid>-<64-bit nonce>`, so that it never equals that of a later process.
    public static func ofThisProcess(group: String) -> StreamConsumer {
        var name = [CChar](repeating: 0, count: 256)
        let isNamed = unsafe gethostname(&name, name.count - 1) == 0
        let host =
            isNamed ? String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self) : "host"
        return StreamConsumer(
            group: group,
            name: "\(host)-\(getpid())-\(String(UInt64.random(in: .min ... .max), radix: 16))"
        )
    }
}
