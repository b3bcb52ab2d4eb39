internal import ApusCore
internal import CApusMessages

extension ClientEvent: Message, @unsafe PackedMessage {
    static var bytesMax: Int { Limits.messageBytesMax }
    static var initialize: (UnsafeMutablePointer<Apus__V1__ClientEvent>?) -> Void {
        unsafe apus__v1__client_event__init
    }

    /// Decodes a message of at most `Limits.messageBytesMax` bytes.
    public static func decode(_ bytes: Span<UInt8>, in arena: inout MessageArena) throws(MessageError) -> ClientEvent {
        try unsafe Self.unpack(bytes, arena)
    }

    /// Encodes the message.
    public func encode(in arena: inout MessageArena) throws(MessageError) -> [UInt8] { try unsafe self.pack(arena) }

    init(unpacking packed: UnsafePointer<Apus__V1__ClientEvent>) throws(MessageError) {
        let event = unsafe packed.pointee
        self.init(
            id: unsafe Unpack.text(event.id),
            app: unsafe Unpack.text(event.app),
            device: unsafe Unpack.text(event.device),
            send: unsafe Unpack.text(event.send),
            kind: try unsafe Unpack.requiredWord(event.kind.rawValue, "kind"),
            at: unsafe UnixMilliseconds(event.at_ms),
        )
        self.action = unsafe Unpack.text(event.action)
        self.provider = try unsafe Unpack.word(event.provider.rawValue, "provider")
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__ClientEvent>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.id = try unsafe Pack.text(self.id, arena)
        unsafe packed.pointee.app = try unsafe Pack.text(self.app, arena)
        unsafe packed.pointee.device = try unsafe Pack.text(self.device, arena)
        unsafe packed.pointee.send = try unsafe Pack.text(self.send, arena)
        unsafe packed.pointee.kind = Apus__V1__ClientEventKind(UInt32(self.kind.rawValue))
        unsafe packed.pointee.action = try unsafe Pack.text(self.action, arena)
        unsafe packed.pointee.at_ms = self.at.value
        unsafe packed.pointee.provider = Apus__V1__Provider(UInt32(self.provider?.rawValue ?? 0))
    }

    func check() throws(MessageError) {
        try Check.requiredText(self.id, "id", bytesMax: Limits.nameBytesMax)
        try Check.requiredText(self.app, "app", bytesMax: Limits.appIDBytesMax)
        try Check.requiredText(self.device, "device", bytesMax: Limits.deviceIDBytesMax)
        try Check.requiredText(self.send, "send", bytesMax: Limits.sendIDBytesMax)
        try Check.text(self.action, "action", bytesMax: Limits.nameBytesMax)
        try Check.time(self.at, "at_ms")
    }
}
