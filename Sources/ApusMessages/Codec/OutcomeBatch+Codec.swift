internal import ApusCore
internal import CApusMessages

extension OutcomeBatch: Message, @unsafe PackedMessage {
    static var bytesMax: Int { Limits.outcomeBatchBytesMax }
    static var initialize: (UnsafeMutablePointer<Apus__V1__OutcomeBatch>?) -> Void {
        unsafe apus__v1__outcome_batch__init
    }

    /// Decodes a message of at most `Limits.outcomeBatchBytesMax` bytes.
    public static func decode(_ bytes: Span<UInt8>, in arena: inout MessageArena) throws(MessageError) -> OutcomeBatch {
        try unsafe Self.unpack(bytes, arena)
    }

    /// Encodes the message.
    public func encode(in arena: inout MessageArena) throws(MessageError) -> [UInt8] { try unsafe self.pack(arena) }

    init(unpacking packed: UnsafePointer<Apus__V1__OutcomeBatch>) throws(MessageError) {
        let batch = unsafe packed.pointee
        self.init(
            send: unsafe Unpack.text(batch.send),
            app: unsafe Unpack.text(batch.app),
            route: unsafe RouteNumber(batch.route),
            provider: try unsafe Unpack.requiredWord(batch.provider.rawValue, "provider"),
        )
        self.environment = try unsafe Unpack.word(batch.environment.rawValue, "environment") ?? .production
        self.unit = unsafe Unpack.text(batch.unit)
        self.sequence = unsafe batch.sequence
        self.counts = try unsafe Unpack.parts(batch.counts, batch.n_counts, "counts")
        self.unregistered = try unsafe Unpack.parts(batch.unregistered, batch.n_unregistered, "unregistered")
        self.suspects = try unsafe Unpack.parts(batch.suspects, batch.n_suspects, "suspects")
        self.refusals = try unsafe Unpack.parts(batch.refusals, batch.n_refusals, "refusals")
        self.recipients = try unsafe Unpack.parts(batch.recipients, batch.n_recipients, "recipients")
        self.firstAt = unsafe Unpack.time(batch.first_at_ms)
        self.lastAt = unsafe Unpack.time(batch.last_at_ms)
        self.isFinal = unsafe batch.final != 0
        self.receiptIsWritten = unsafe batch.receipt_written != 0
        self.namesRecipients = unsafe batch.names_recipients != 0
        self.replyTo = unsafe Unpack.text(batch.reply_to)
        self.receiptLevel = try unsafe Unpack.word(batch.detail.rawValue, "detail") ?? .summary
        self.traceparent = unsafe Unpack.text(batch.traceparent)
        self.tracestate = unsafe Unpack.text(batch.tracestate)
        self.planned = unsafe batch.planned
        self.publishedAtNanoseconds = unsafe batch.published_at_ns
        self.idUse = unsafe batch.id_use
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__OutcomeBatch>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.send = try unsafe Pack.text(self.send, arena)
        unsafe packed.pointee.app = try unsafe Pack.text(self.app, arena)
        unsafe packed.pointee.route = self.route.value
        unsafe packed.pointee.provider = Apus__V1__Provider(UInt32(self.provider.rawValue))
        unsafe packed.pointee.environment = Apus__V1__Environment(UInt32(self.environment.rawValue))
        unsafe packed.pointee.unit = try unsafe Pack.text(self.unit, arena)
        unsafe packed.pointee.sequence = self.sequence
        unsafe packed.pointee.n_counts = self.counts.count
        unsafe packed.pointee.counts = try unsafe Pack.parts(self.counts, arena)
        unsafe packed.pointee.n_unregistered = self.unregistered.count
        unsafe packed.pointee.unregistered = try unsafe Pack.parts(self.unregistered, arena)
        unsafe packed.pointee.n_suspects = self.suspects.count
        unsafe packed.pointee.suspects = try unsafe Pack.parts(self.suspects, arena)
        unsafe packed.pointee.n_refusals = self.refusals.count
        unsafe packed.pointee.refusals = try unsafe Pack.parts(self.refusals, arena)
        unsafe packed.pointee.n_recipients = self.recipients.count
        unsafe packed.pointee.recipients = try unsafe Pack.parts(self.recipients, arena)
        unsafe packed.pointee.first_at_ms = self.firstAt?.value ?? 0
        unsafe packed.pointee.last_at_ms = self.lastAt?.value ?? 0
        unsafe packed.pointee.final = self.isFinal ? 1 : 0
        unsafe packed.pointee.receipt_written = self.receiptIsWritten ? 1 : 0
        unsafe packed.pointee.names_recipients = self.namesRecipients ? 1 : 0
        unsafe packed.pointee.reply_to = try unsafe Pack.text(self.replyTo, arena)
        unsafe packed.pointee.detail = Apus__V1__ReceiptDetail(UInt32(self.receiptLevel.rawValue))
        unsafe packed.pointee.traceparent = try unsafe Pack.text(self.traceparent, arena)
        unsafe packed.pointee.tracestate = try unsafe Pack.text(self.tracestate, arena)
        unsafe packed.pointee.planned = self.planned
        unsafe packed.pointee.published_at_ns = self.publishedAtNanoseconds
        unsafe packed.pointee.id_use = self.idUse
    }

    func check() throws(MessageError) {
        try Check.requiredText(self.send, "send", bytesMax: Limits.sendIDBytesMax)
        try Check.requiredText(self.app, "app", bytesMax: Limits.appIDBytesMax)
        guard self.route.value > 0 else { throw Check.missing("route") }
        try Check.text(self.unit, "unit", bytesMax: Limits.nameBytesMax)
        try unsafe Check.parts(self.counts, "counts", countMax: Limits.outcomeCountsMax)
        try unsafe Check.parts(self.unregistered, "unregistered", countMax: Limits.unitRecipientsMax)
        try unsafe Check.parts(self.suspects, "suspects", countMax: Limits.unitRecipientsMax)
        try unsafe Check.parts(self.refusals, "refusals", countMax: Limits.unitRecipientsMax)
        try unsafe Check.parts(self.recipients, "recipients", countMax: Limits.unitRecipientsMax)
        try Check.optionalTime(self.firstAt, "first_at_ms")
        try Check.optionalTime(self.lastAt, "last_at_ms")
        try Check.text(self.replyTo, "reply_to", bytesMax: Limits.replyToBytesMax)
        try Check.text(self.traceparent, "traceparent", bytesMax: Limits.traceparentBytesMax)
        try Check.text(self.tracestate, "tracestate", bytesMax: Limits.tracestateBytesMax)
        try Check.nanoseconds(self.publishedAtNanoseconds, "published_at_ns")
    }
}

extension OutcomeBatch {
    /// The maximum bytes of what a batch, or a receipt that lists its recipients, has beside its parts.
    private static let headBytesMax = 2_048
    /// The maximum bytes of one part without its texts.
    private static let partBytesMax = 64

    /// The maximum bytes of the packed batch.
    private var bytesAtMost: Int {
        var bytes = Self.headBytesMax + self.counts.count * Self.partBytesMax
        for recipient in self.recipients {
            bytes += Self.partBytesMax + recipient.device.utf8.count
            bytes += recipient.providerReason.utf8.count + recipient.providerID.utf8.count
        }
        for verdicts in [self.unregistered, self.suspects, self.refusals] {
            for verdict in verdicts { bytes += Self.partBytesMax + verdict.providerReason.utf8.count }
        }
        return bytes
    }

    private var mayBeTooLarge: Bool { self.bytesAtMost > Limits.outcomeBatchBytesMax }

    /// Leaves out texts of the provider until the batch fits, and its recipients fit into a receipt: first the provider's ids of
    /// notifications, then its words about tokens, then those about recipients.
    package mutating func leaveOutTextsBeyondLimit() {
        guard self.mayBeTooLarge else { return }
        for index in self.recipients.indices { self.recipients[index].providerID = "" }
        guard self.mayBeTooLarge else { return }
        for index in self.unregistered.indices { self.unregistered[index].providerReason = "" }
        for index in self.suspects.indices { self.suspects[index].providerReason = "" }
        for index in self.refusals.indices { self.refusals[index].providerReason = "" }
        guard self.mayBeTooLarge else { return }
        for index in self.recipients.indices { self.recipients[index].providerReason = "" }
    }
}
