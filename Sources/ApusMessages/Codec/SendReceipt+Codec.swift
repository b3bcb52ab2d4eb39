internal import ApusCore
internal import CApusMessages

extension SendReceipt: Message, @unsafe PackedMessage {
    static var bytesMax: Int { Limits.outcomeBatchBytesMax }
    static var initialize: (UnsafeMutablePointer<Apus__V1__SendReceipt>?) -> Void {
        unsafe apus__v1__send_receipt__init
    }

    /// Decodes a message of at most `Limits.outcomeBatchBytesMax` bytes.
    public static func decode(_ bytes: Span<UInt8>, in arena: inout MessageArena) throws(MessageError) -> SendReceipt {
        try unsafe Self.unpack(bytes, arena)
    }

    /// Encodes the message.
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
        self.tracestate = unsafe Unpack.text(receipt.tracestate)
        self.idempotencyKey = unsafe Unpack.text(receipt.idempotency_key)
        self.duplicateOf = unsafe Unpack.text(receipt.duplicate_of)
        self.renderings = try unsafe Unpack.parts(receipt.renderings, receipt.n_renderings, "renderings")
        self.lints = try unsafe Unpack.parts(receipt.lints, receipt.n_lints, "lints")
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
        unsafe packed.pointee.tracestate = try unsafe Pack.text(self.tracestate, arena)
        unsafe packed.pointee.idempotency_key = try unsafe Pack.text(self.idempotencyKey, arena)
        unsafe packed.pointee.duplicate_of = try unsafe Pack.text(self.duplicateOf, arena)
        unsafe packed.pointee.n_renderings = self.renderings.count
        unsafe packed.pointee.renderings = try unsafe Pack.parts(self.renderings, arena)
        unsafe packed.pointee.n_lints = self.lints.count
        unsafe packed.pointee.lints = try unsafe Pack.parts(self.lints, arena)
    }

    func check() throws(MessageError) {
        try Check.requiredText(self.id, "id", bytesMax: Limits.nameBytesMax)
        // A command that could not be read has neither.
        try Check.text(self.send, "send", bytesMax: Limits.sendIDBytesMax)
        try Check.text(self.app, "app", bytesMax: Limits.appIDBytesMax)
        if let problem = self.problem { try within("problem", problem.check()) }
        try unsafe Check.parts(self.counts, "counts", countMax: Limits.outcomeCountsMax)
        try unsafe Check.parts(self.recipients, "recipients", countMax: Limits.unitRecipientsMax)
        try Check.nanoseconds(self.publishedAtNanoseconds, "published_at_ns")
        try Check.optionalTime(self.firstAt, "first_at_ms")
        try Check.optionalTime(self.lastAt, "last_at_ms")
        try Check.text(self.traceparent, "traceparent", bytesMax: Limits.traceparentBytesMax)
        try Check.text(self.tracestate, "tracestate", bytesMax: Limits.tracestateBytesMax)
        try Check.text(self.idempotencyKey, "idempotency_key", bytesMax: Limits.idempotencyKeyBytesMax)
        try Check.text(self.duplicateOf, "duplicate_of", bytesMax: Limits.sendIDBytesMax)
        try unsafe Check.parts(self.renderings, "renderings", countMax: Limits.dryRunPartsMax)
        try unsafe Check.parts(self.lints, "lints", countMax: Limits.dryRunPartsMax)
    }
}

extension SendReceipt.Rendering: @unsafe PackedPart {
    static var initialize: (UnsafeMutablePointer<Apus__V1__DryRunRendering>?) -> Void {
        unsafe apus__v1__dry_run_rendering__init
    }

    init(unpacking packed: UnsafePointer<Apus__V1__DryRunRendering>) throws(MessageError) {
        self.init(
            provider: try unsafe Unpack.requiredWord(packed.pointee.provider.rawValue, "provider"),
            environment: try unsafe Unpack.word(packed.pointee.environment.rawValue, "environment") ?? .production,
            locale: unsafe Unpack.text(packed.pointee.locale),
            payloadBytes: unsafe packed.pointee.payload_bytes,
            payloadBytesMax: unsafe packed.pointee.payload_bytes_max,
        )
        self.payload = unsafe Unpack.text(packed.pointee.payload)
        self.headers = unsafe Unpack.texts(packed.pointee.headers, packed.pointee.n_headers)
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__DryRunRendering>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.provider = Apus__V1__Provider(UInt32(self.provider.rawValue))
        unsafe packed.pointee.environment = Apus__V1__Environment(UInt32(self.environment.rawValue))
        unsafe packed.pointee.locale = try unsafe Pack.text(self.locale, arena)
        unsafe packed.pointee.payload_bytes = self.payloadBytes
        unsafe packed.pointee.payload_bytes_max = self.payloadBytesMax
        unsafe packed.pointee.payload = try unsafe Pack.text(self.payload, arena)
        unsafe packed.pointee.n_headers = self.headers.count
        unsafe packed.pointee.headers = try unsafe Pack.texts(self.headers, arena)
    }

    func check() throws(MessageError) {
        try Check.text(self.locale, "locale", bytesMax: Limits.localeBytesMax)
        try Check.text(self.payload, "payload", bytesMax: Limits.dryRunPayloadBytesMax)
        try Check.texts(
            self.headers,
            "headers",
            countMax: Limits.dryRunHeadersMax,
            bytesMax: Limits.dryRunPayloadBytesMax
        )
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
