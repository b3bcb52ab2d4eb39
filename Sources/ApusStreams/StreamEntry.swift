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
    /// The done bitmap an earlier owner left; empty: none.
    public let journal: [UInt8]

    /// An entry.
    public init(stream: String, id: String, message: [UInt8], deliveries: UInt32 = 1, journal: [UInt8] = []) {
        self.stream = stream
        self.id = id
        self.message = message
        self.deliveries = deliveries
        self.journal = journal
    }

    /// Where it came from, for ever: "<stream>/<id>".
    public var origin: String { "\(self.stream)/\(self.id)" }
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
