internal import ApusCore
internal import CApusMessages

extension SendCommand: Message, @unsafe PackedMessage {
    static var bytesMax: Int { Limits.sendCommandBytesMax }
    static var initialize: (UnsafeMutablePointer<Apus__V1__SendCommand>?) -> Void {
        unsafe apus__v1__send_command__init
    }

    /// Decodes a message of at most `Limits.sendCommandBytesMax` bytes.
    public static func decode(_ bytes: Span<UInt8>, in arena: inout MessageArena) throws(MessageError) -> SendCommand {
        try unsafe Self.unpack(bytes, arena)
    }

    /// Encodes the message.
    public func encode(in arena: inout MessageArena) throws(MessageError) -> [UInt8] { try unsafe self.pack(arena) }

    init(unpacking packed: UnsafePointer<Apus__V1__SendCommand>) throws(MessageError) {
        let command = unsafe packed.pointee
        self.init(
            app: unsafe Unpack.text(command.app),
            target: try unsafe Unpack.required(command.target, "target"),
            notification: try unsafe Unpack.required(command.notification, "notification"),
        )
        self.id = unsafe Unpack.text(command.id)
        self.idempotencyKey = unsafe Unpack.text(command.idempotency_key)
        self.publishedAtNanoseconds = unsafe command.published_at_ns
        self.notBefore = unsafe Unpack.time(command.not_before_ms)
        self.replyTo = unsafe Unpack.text(command.reply_to)
        self.receiptLevel = try unsafe Unpack.word(command.receipt_level.rawValue, "receipt_level") ?? .summary
        self.ratePerSecond = unsafe command.rate_per_second
        self.delivery = try unsafe Unpack.word(command.delivery.rawValue, "delivery") ?? .atLeastOnce
        self.dryRun = unsafe command.dry_run != 0
        self.traceparent = unsafe Unpack.text(command.traceparent)
        self.tracestate = unsafe Unpack.text(command.tracestate)
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__SendCommand>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.id = try unsafe Pack.text(self.id, arena)
        unsafe packed.pointee.app = try unsafe Pack.text(self.app, arena)
        unsafe packed.pointee.target = try self.target.packed(arena)
        unsafe packed.pointee.notification = try self.notification.packed(arena)
        unsafe packed.pointee.idempotency_key = try unsafe Pack.text(self.idempotencyKey, arena)
        unsafe packed.pointee.published_at_ns = self.publishedAtNanoseconds
        unsafe packed.pointee.not_before_ms = self.notBefore?.value ?? 0
        unsafe packed.pointee.reply_to = try unsafe Pack.text(self.replyTo, arena)
        unsafe packed.pointee.receipt_level = Apus__V1__ReceiptLevel(UInt32(self.receiptLevel.rawValue))
        unsafe packed.pointee.rate_per_second = self.ratePerSecond
        unsafe packed.pointee.delivery = Apus__V1__Delivery(UInt32(self.delivery.rawValue))
        unsafe packed.pointee.dry_run = self.dryRun ? 1 : 0
        unsafe packed.pointee.traceparent = try unsafe Pack.text(self.traceparent, arena)
        unsafe packed.pointee.tracestate = try unsafe Pack.text(self.tracestate, arena)
    }

    func check() throws(MessageError) {
        try Check.text(self.id, "id", bytesMax: Limits.sendIDBytesMax)
        try Check.requiredText(self.app, "app", bytesMax: Limits.appIDBytesMax)
        try within("target", self.target.check())
        try within("notification", self.notification.check())
        try Check.text(self.idempotencyKey, "idempotency_key", bytesMax: Limits.idempotencyKeyBytesMax)
        try Check.nanoseconds(self.publishedAtNanoseconds, "published_at_ns")
        try Check.optionalTime(self.notBefore, "not_before_ms")
        try Check.text(self.replyTo, "reply_to", bytesMax: Limits.replyToBytesMax)
        try Check.text(self.traceparent, "traceparent", bytesMax: Limits.traceparentBytesMax)
        try Check.text(self.tracestate, "tracestate", bytesMax: Limits.tracestateBytesMax)
    }
}
