internal import ApusCore
internal import CApusMessages

extension SendReceipt: Message, @unsafe PackedMessage {
    static var bytesMax: Int { Limits.outcomeBatchBytesMax }
    static var initialize: (UnsafeMutablePointer<Apus__V1__SendReceipt>?) -> Void {
        unsafe apus__v1__send_receipt__init
    }

    /// The value of those bytes, of which there may be `Limits.outcomeBatchBytesMax`.
    public static func decode(_ bytes: Span<UInt8>, in arena: inout MessageArena) throws(MessageError) -> SendReceipt {
        try unsafe Self.unpack(bytes, arena)
    }

    /// The bytes of this value.
    public func encode(in arena: inout MessageArena) throws(MessageError) -> [UInt8] { try unsafe self.pack(arena) }

    init(unpacking packed: UnsafePointer<Apus__V1__SendReceipt>) throws(MessageError) {
        let receipt = unsafe packed.pointee
        self.init(
            id: unsafe Unpack.text(receipt.id),
            send: unsafe Unpack.text(receipt.send),
            app: unsafe Unpack.text(receipt.app),
            kind: try unsafe Unpack.requiredWord(receipt.kind.rawValue, "kind"),
        )
        self.problem = try unsafe Unpack.part(receipt.problem, "problem")
        self.planned = unsafe receipt.planned
        self.counts = try unsafe Unpack.parts(receipt.counts, receipt.n_counts, "counts")
        self.recipients = try unsafe Unpack.parts(receipt.recipients, receipt.n_recipients, "recipients")
        self.publishedAtNanoseconds = unsafe receipt.published_at_ns
        self.firstAt = unsafe Unpack.time(receipt.first_at_ms)
        self.lastAt = unsafe Unpack.time(receipt.last_at_ms)
        self.traceparent = unsafe Unpack.text(receipt.traceparent)
        self.idempotencyKey = unsafe Unpack.text(receipt.idempotency_key)
        self.duplicateOf = unsafe Unpack.text(receipt.duplicate_of)
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__SendReceipt>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.id = try unsafe Pack.text(self.id, arena)
        unsafe packed.pointee.send = try unsafe Pack.text(self.send, arena)
        unsafe packed.pointee.app = try unsafe Pack.text(self.app, arena)
        unsafe packed.pointee.kind = Apus__V1__ReceiptKind(UInt32(self.kind.rawValue))
        if let problem = self.problem { unsafe packed.pointee.problem = try problem.packed(arena) }
        unsafe packed.pointee.planned = self.planned
        unsafe packed.pointee.n_counts = self.counts.count
        unsafe packed.pointee.counts = try unsafe Pack.parts(self.counts, arena)
        unsafe packed.pointee.n_recipients = self.recipients.count
        unsafe packed.pointee.recipients = try unsafe Pack.parts(self.recipients, arena)
        unsafe packed.pointee.published_at_ns = self.publishedAtNanoseconds
        unsafe packed.pointee.first_at_ms = self.firstAt?.value ?? 0
        unsafe packed.pointee.last_at_ms = self.lastAt?.value ?? 0
        unsafe packed.pointee.traceparent = try unsafe Pack.text(self.traceparent, arena)
        unsafe packed.pointee.idempotency_key = try unsafe Pack.text(self.idempotencyKey, arena)
        unsafe packed.pointee.duplicate_of = try unsafe Pack.text(self.duplicateOf, arena)
    }

    func check() throws(MessageError) {
        try Check.requiredText(self.id, "id", bytesMax: Limits.nameBytesMax)
        // Neither is known of a command that could not be read.
        try Check.text(self.send, "send", bytesMax: Limits.sendIDBytesMax)
        try Check.text(self.app, "app", bytesMax: Limits.appIDBytesMax)
        if let problem = self.problem { try within("problem", problem.check()) }
        try unsafe Check.parts(self.counts, "counts", countMax: Limits.outcomeCountsMax)
        try unsafe Check.parts(self.recipients, "recipients", countMax: Limits.unitRecipientsMax)
        try Check.nanoseconds(self.publishedAtNanoseconds, "published_at_ns")
        try Check.optionalTime(self.firstAt, "first_at_ms")
        try Check.optionalTime(self.lastAt, "last_at_ms")
        try Check.text(self.traceparent, "traceparent", bytesMax: Limits.traceparentBytesMax)
        try Check.text(self.idempotencyKey, "idempotency_key", bytesMax: Limits.idempotencyKeyBytesMax)
        try Check.text(self.duplicateOf, "duplicate_of", bytesMax: Limits.sendIDBytesMax)
    }
}

extension Problem: @unsafe PackedPart {
    static var initialize: (UnsafeMutablePointer<Apus__V1__Problem>?) -> Void {
        unsafe apus__v1__problem__init
    }

    init(unpacking packed: UnsafePointer<Apus__V1__Problem>) throws(MessageError) {
        self.init(
            code: unsafe Unpack.text(packed.pointee.code),
            field: unsafe Unpack.text(packed.pointee.field),
            detail: unsafe Unpack.text(packed.pointee.detail),
        )
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__Problem>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.code = try unsafe Pack.text(self.code, arena)
        unsafe packed.pointee.field = try unsafe Pack.text(self.field, arena)
        unsafe packed.pointee.detail = try unsafe Pack.text(self.detail, arena)
    }

    func check() throws(MessageError) {
        try Check.requiredText(self.code, "code", bytesMax: Limits.nameBytesMax)
        try Check.text(self.field, "field", bytesMax: Limits.nameBytesMax)
        try Check.text(self.detail, "detail", bytesMax: Limits.textBytesMax)
    }
}
