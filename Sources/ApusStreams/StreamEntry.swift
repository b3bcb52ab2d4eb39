public import ApusCore
internal import Glibc

/// One message as a consumer gets it.
public struct StreamEntry: Hashable, Sendable {
    /// The key of its stream.
    public let stream: String
    /// Redis' id of it.
    public let id: String
    /// The packed message.
    public let message: [UInt8]
    /// How often it was handed out, this time included.
    public let deliveries: UInt32
    /// What an earlier owner of the unit left; nil: nothing.
    public let journal: UnitJournal?
    /// True when the function that published a command found that no other entry and no other send has its key or its id.
    public let isAdmitted: Bool

    /// An entry.
    public init(
        stream: String,
        id: String,
        message: [UInt8],
        deliveries: UInt32 = 1,
        journal: UnitJournal? = nil,
        isAdmitted: Bool = false,
    ) {
        self.stream = stream
        self.id = id
        self.message = message
        self.deliveries = deliveries
        self.journal = journal
        self.isAdmitted = isAdmitted
    }

    /// Where it came from, for ever: "<stream>/<id>".
    public var origin: String { "\(self.stream)/\(self.id)" }

    /// When Redis took it, by its own clock; nil: the id was chosen by the writer, and is no time.
    public var writtenAt: UnixMilliseconds? {
        guard let milliseconds = Int64(self.id.prefix { $0 != "-" }), milliseconds >= 1_000_000_000_000 else {
            return nil
        }
        return UnixMilliseconds(milliseconds)
    }

    /// Whether it may be poison, which ends its owners: delivered again and again without progress, it needs a turn of its own.
    var isPoison: Bool {
        self.deliveries > StreamLimits.deliveriesTogetherMax && self.deliveries < StreamLimits.deliveriesMax
    }

    var name: EntryName { EntryName(stream: self.stream, id: self.id) }
}

/// An entry of a stream, by name.
struct EntryName: Hashable, Sendable {
    var stream: String
    var id: String
}

/// Who reads: a name used by one process only, once.
public struct StreamConsumer: Hashable, Sendable {
    /// The group.
    public let group: String
    /// `<host>-<pid>-<64-bit nonce>`.
    public let name: String

    /// A consumer.
    public init(group: String, name: String) {
        self.group = group
        self.name = name
    }
}

/// What is known of a unit's progress: which report was the last, which recipients are done and, of a send that may go out once
/// only, which may have been sent to.
public struct UnitJournal: Hashable, Sendable {
    /// The number of the last report, from 1.
    public var sequence: UInt32
    /// The done bits: bit i is bit i % 8 of byte i / 8. When as many bytes follow, they are the marked bits.
    public var bitmap: [UInt8]

    /// A journal.
    public init(sequence: UInt32, bitmap: [UInt8]) {
        self.sequence = sequence
        self.bitmap = bitmap
    }

    /// As it stands in Redis: the number in four bytes, big endian, then the bits. Nil when it is shorter than that.
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
    /// A consumer of this process: `<host>-<pid>-<64-bit nonce>`, so that no later process is taken for it.
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
