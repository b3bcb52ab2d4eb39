internal import ApusCore
internal import CApusMessages

extension DeviceRegistration: Message, @unsafe PackedMessage {
    static var bytesMax: Int { Limits.messageBytesMax }
    static var initialize: (UnsafeMutablePointer<Apus__V1__DeviceRegistration>?) -> Void {
        unsafe apus__v1__device_registration__init
    }

    /// Decodes a message of at most `Limits.messageBytesMax` bytes.
    public static func decode(
        _ bytes: Span<UInt8>,
        in arena: inout MessageArena
    ) throws(MessageError) -> DeviceRegistration {
        try unsafe Self.unpack(bytes, arena)
    }

    /// Encodes the message.
    public func encode(in arena: inout MessageArena) throws(MessageError) -> [UInt8] { try unsafe self.pack(arena) }

    init(unpacking packed: UnsafePointer<Apus__V1__DeviceRegistration>) throws(MessageError) {
        let registration = unsafe packed.pointee
        self.init(
            device: unsafe Unpack.text(registration.device),
            provider: try unsafe Unpack.requiredWord(registration.provider.rawValue, "provider"),
            token: unsafe Unpack.text(registration.token),
        )
        self.environment = try unsafe Unpack.word(registration.environment.rawValue, "environment") ?? .production
        self.tokenKind = try unsafe Unpack.word(registration.token_kind.rawValue, "token_kind") ?? .device
        self.user = unsafe Unpack.text(registration.user)
        self.attributes = try unsafe Unpack.part(registration.attributes, "attributes") ?? Attributes()
        self.webpushP256DH = unsafe Unpack.bytes(registration.webpush_p256dh)
        self.webpushAuth = unsafe Unpack.bytes(registration.webpush_auth)
        self.applicationServerKey = unsafe Unpack.bytes(registration.application_server_key)
        if unsafe registration.expires_at_ms != 0 {
            self.expiresAt = unsafe UnixMilliseconds(registration.expires_at_ms)
        }
        if unsafe registration.set_badge != 0 {
            self.badge = unsafe registration.badge
        } else if unsafe registration.badge != 0 {
            throw MessageError(.malformed, field: "badge", "must be given together with set_badge")
        }
        let topics = unsafe Unpack.texts(registration.topics, registration.n_topics)
        if unsafe registration.set_topics != 0 {
            self.topics = topics
        } else if !topics.isEmpty {
            // Dropping the topics silently would look like success.
            throw MessageError(.malformed, field: "topics", "must be given together with set_topics")
        }
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__DeviceRegistration>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.device = try unsafe Pack.text(self.device, arena)
        unsafe packed.pointee.provider = Apus__V1__Provider(UInt32(self.provider.rawValue))
        unsafe packed.pointee.token = try unsafe Pack.text(self.token, arena)
        unsafe packed.pointee.environment = Apus__V1__Environment(UInt32(self.environment.rawValue))
        unsafe packed.pointee.token_kind = Apus__V1__TokenKind(UInt32(self.tokenKind.rawValue))
        unsafe packed.pointee.user = try unsafe Pack.text(self.user, arena)
        if self.attributes != Attributes() { unsafe packed.pointee.attributes = try self.attributes.packed(arena) }
        if let topics = self.topics {
            unsafe packed.pointee.n_topics = topics.count
            unsafe packed.pointee.topics = try unsafe Pack.texts(topics, arena)
            unsafe packed.pointee.set_topics = 1
        }
        if let badge = self.badge {
            unsafe packed.pointee.badge = badge
            unsafe packed.pointee.set_badge = 1
        }
        unsafe packed.pointee.webpush_p256dh = try unsafe Pack.bytes(self.webpushP256DH, arena)
        unsafe packed.pointee.webpush_auth = try unsafe Pack.bytes(self.webpushAuth, arena)
        unsafe packed.pointee.application_server_key = try unsafe Pack.bytes(self.applicationServerKey, arena)
        unsafe packed.pointee.expires_at_ms = self.expiresAt?.value ?? 0
    }

    func check() throws(MessageError) {
        try Check.requiredText(self.device, "device", bytesMax: Limits.deviceIDBytesMax)
        try Check.requiredText(self.token, "token", bytesMax: Limits.tokenBytesMax)
        try Check.text(self.user, "user", bytesMax: Limits.userIDBytesMax)
        try within("attributes", self.attributes.check())
        try Check.topics(self.topics ?? [])
        try Check.bytes(self.webpushP256DH, "webpush_p256dh", exactly: Limits.webpushP256DHBytes)
        try Check.bytes(self.webpushAuth, "webpush_auth", exactly: Limits.webpushAuthBytes)
        try Check.bytes(self.applicationServerKey, "application_server_key", exactly: Limits.webpushP256DHBytes)
        if let expiresAt { try Check.time(expiresAt, "expires_at_ms") }
    }
}

extension Check {
    /// Checks the names of one device's topics, with or without "/topics/" before them.
    static func topics(_ topics: [String]) throws(MessageError) {
        try Self.requiredTexts(
            topics,
            "topics",
            countMax: Limits.topicsPerDeviceMax,
            bytesMax: Limits.topicTextBytesMax,
        )
    }
}
