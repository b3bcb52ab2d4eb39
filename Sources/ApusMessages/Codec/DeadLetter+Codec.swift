internal import ApusCore
internal import CApusMessages

extension DeadLetter: Message, @unsafe PackedMessage {
    static var bytesMax: Int { Limits.deadLetterBytesMax }
    static var initialize: (UnsafeMutablePointer<Apus__V1__DeadLetter>?) -> Void {
        unsafe apus__v1__dead_letter__init
    }

    /// Decodes a message of at most `Limits.deadLetterBytesMax` bytes.
    public static func decode(_ bytes: Span<UInt8>, in arena: inout MessageArena) throws(MessageError) -> DeadLetter {
        try unsafe Self.unpack(bytes, arena)
    }

    /// Encodes the message.
    public func encode(in arena: inout MessageArena) throws(MessageError) -> [UInt8] { try unsafe self.pack(arena) }

    init(unpacking packed: UnsafePointer<Apus__V1__DeadLetter>) throws(MessageError) {
        let letter = unsafe packed.pointee
        self.init(
            stream: unsafe Unpack.text(letter.stream),
            entry: unsafe Unpack.text(letter.entry),
            cause: try unsafe Unpack.requiredWord(letter.reason.rawValue, "reason"),
            problem: unsafe Problem(
                code: Unpack.text(letter.code),
                field: Unpack.text(letter.field),
                detail: Unpack.text(letter.detail),
            ),
            payload: unsafe Unpack.bytes(letter.payload),
            at: unsafe UnixMilliseconds(letter.at_ms),
        )
        self.deliveries = unsafe letter.deliveries
        self.service = unsafe Unpack.text(letter.service)
        self.app = unsafe Unpack.text(letter.app)
        self.send = unsafe Unpack.text(letter.send)
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__DeadLetter>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.stream = try unsafe Pack.text(self.stream, arena)
        unsafe packed.pointee.entry = try unsafe Pack.text(self.entry, arena)
        unsafe packed.pointee.reason = Apus__V1__DeadReason(UInt32(self.cause.rawValue))
        unsafe packed.pointee.code = try unsafe Pack.text(self.problem.code, arena)
        unsafe packed.pointee.field = try unsafe Pack.text(self.problem.field, arena)
        unsafe packed.pointee.detail = try unsafe Pack.text(self.problem.detail, arena)
        unsafe packed.pointee.payload = try unsafe Pack.bytes(self.payload, arena)
        unsafe packed.pointee.deliveries = self.deliveries
        unsafe packed.pointee.at_ms = self.at.value
        unsafe packed.pointee.service = try unsafe Pack.text(self.service, arena)
        unsafe packed.pointee.app = try unsafe Pack.text(self.app, arena)
        unsafe packed.pointee.send = try unsafe Pack.text(self.send, arena)
    }

    func check() throws(MessageError) {
        try Check.requiredText(self.stream, "stream", bytesMax: Limits.nameBytesMax)
        try Check.requiredText(self.entry, "entry", bytesMax: Limits.nameBytesMax)
        try self.problem.check()
        try Check.bytes(self.payload, "payload", max: Limits.deadLetterPayloadBytesMax)
        try Check.time(self.at, "at_ms")
        try Check.text(self.service, "service", bytesMax: Limits.nameBytesMax)
        try Check.text(self.app, "app", bytesMax: Limits.appIDBytesMax)
        try Check.text(self.send, "send", bytesMax: Limits.sendIDBytesMax)
    }
}
