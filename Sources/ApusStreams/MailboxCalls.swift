package import ApusRedis

struct PublishCall: FunctionCall {
    static let function = "apus2_publish"
    var keys: [String]
    var key: [UInt8]
    var digest: [UInt8]
    var app: String
    var send: String
    var entriesMax: Int
    var command: [UInt8]

    func set(_ fields: inout CallFields) {
        fields.set("key", CallBytes(self.key), default: [])
        fields.set("digest", CallBytes(self.digest))
        fields.set("app", self.app)
        fields.set("send", self.send)
        fields.set("entries_max", self.entriesMax)
        fields.set("command", CallBytes(self.command))
    }
}

struct AdmitSendCall: FunctionCall {
    static let function = "apus2_admit_send"
    var keys: [String]
    var app: String
    var key: [UInt8]
    var digest: [UInt8]
    var send: String
    /// The entry with the command.
    var entry: EntryName
    var isRepeat = false

    /// The same call as it is repeated after a failover.
    var repeated: AdmitSendCall {
        var call = self
        call.isRepeat = true
        return call
    }

    /// The bytes of the fields.
    var byteCount: Int {
        self.app.utf8.count + self.key.count + self.digest.count + self.send.utf8.count
            + self.entry.stream.utf8.count + self.entry.id.utf8.count
    }

    func set(_ fields: inout CallFields) {
        fields.set("app", self.app)
        fields.set("key", CallBytes(self.key), default: [])
        fields.set("digest", CallBytes(self.digest))
        fields.set("send", self.send)
        fields.set("origin", self.entry.origin)
        fields.set("is_repeat", self.isRepeat, default: false)
    }
}

struct AcceptSendCall: RestoringCall {
    static let function = "apus2_accept_send"
    var keys: [String]
    var app: String
    var key: [UInt8]
    var digest: [UInt8]
    var send: String
    var command: [UInt8]
    var routes: [UInt32]
    /// Set from the answer, to repeat the call after a failover.
    var planEntries: [String] = []
    var dueMilliseconds: Int64
    var ratePerSecond: UInt32
    var mailbox: String
    var group: String
    /// The entry with the command.
    var entry: EntryName
    /// The sends that the app may have open in the shard, and the bytes of their commands; 0: any number.
    var appSendsMax = 0
    var appBytesMax = 0

    func set(_ fields: inout CallFields) {
        fields.set("app", self.app)
        fields.set("key", CallBytes(self.key), default: [])
        fields.set("digest", CallBytes(self.digest))
        fields.set("send", self.send)
        fields.set("origin", self.entry.origin)
        fields.set("command", CallBytes(self.command))
        fields.set("routes", self.routes)
        fields.set("plan_entries", self.planEntries, default: [])
        fields.set("due_ms", self.dueMilliseconds, default: 0)
        fields.set("rate_per_second", self.ratePerSecond, default: 0)
        fields.set("mailbox", self.mailbox, default: "")
        fields.set("group", self.group, default: "")
        fields.set("entry", self.mailbox.isEmpty ? "" : self.entry.id, default: "")
        fields.set("entry_digest", self.mailbox.isEmpty ? "" : self.entry.digestText, default: "")
        fields.set("app_sends_max", self.appSendsMax, default: 0)
        fields.set("app_bytes_max", self.appBytesMax, default: 0)
    }
}

/// The end of a direct send.
package struct FinishSendCall: EndingCall {
    package static let function = "apus2_finish_send"
    package var keys: [String]
    var consumer: StreamConsumer
    var entry: EntryName
    var receipt: [UInt8]
    var outcomes: [[UInt8]]
    var isLost = false

    package func set(_ fields: inout CallFields) {
        fields.set(self.consumer)
        fields.set("entry", self.entry.id)
        fields.set("receipt", CallBytes(self.receipt), default: [])
        fields.set("is_lost", self.isLost, default: false)
        fields.set("entry_digest", self.isLost ? self.entry.digestText : "", default: "")
        fields.setBulk("outcomes", self.outcomes)
    }
}

struct FinishSendsCall: FunctionCall {
    static let function = "apus2_finish_sends"
    var keys: [String]
    var consumer: StreamConsumer
    var entries: [String]
    /// The outcomes and the receipt of each send, one after the other.
    var messages: [[UInt8]]

    /// - Parameter calls: the ends of sends of one mailbox and consumer, at least one, each with one batch of outcomes.
    init(_ calls: [FinishSendCall]) {
        precondition(calls.allSatisfy { $0.keys == calls[0].keys }, "the sends of one mailbox")
        self.keys = calls[0].keys
        self.consumer = calls[0].consumer
        self.entries = calls.map(\.entry.id)
        self.messages = calls.flatMap { [$0.outcomes[0], $0.receipt] }
    }

    func set(_ fields: inout CallFields) {
        fields.set(self.consumer)
        fields.set("entries", self.entries)
        fields.setBulk("messages", self.messages)
    }
}

struct PersistSendCall: FunctionCall {
    static let function = "apus2_persist_send"
    var keys: [String]
    var app: String
    var digest: [UInt8]
    var origin: String
    var command: [UInt8]
    var recipients: Int
    var ratePerSecond: UInt32
    var outcomes: [[UInt8]]
    var retries: UnitRetry.Packed
    /// The sends that the app may have open in the shard, and the bytes of their commands; 0: any number.
    var appSendsMax = 0
    var appBytesMax = 0

    func set(_ fields: inout CallFields) {
        fields.set("app", self.app)
        fields.set("digest", CallBytes(self.digest))
        fields.set("origin", self.origin)
        fields.set("command", CallBytes(self.command))
        fields.set("recipients", self.recipients)
        fields.set("rate_per_second", self.ratePerSecond, default: 0)
        fields.set("outcomes", self.outcomes.map { CallBytes($0) }, default: [])
        fields.setTimes(of: self.retries)
        fields.set("retry_units", self.retries.units.map { CallBytes($0) }, default: [])
        fields.set("app_sends_max", self.appSendsMax, default: 0)
        fields.set("app_bytes_max", self.appBytesMax, default: 0)
    }
}
