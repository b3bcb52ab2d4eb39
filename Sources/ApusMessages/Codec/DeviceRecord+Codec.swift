internal import ApusCore
internal import CApusMessages

extension DeviceRecord: Message, @unsafe PackedMessage {
    static var bytesMax: Int { Limits.deviceRecordBytesMax }
    static var initialize: (UnsafeMutablePointer<Apus__V1__DeviceRecord>?) -> Void {
        unsafe apus__v1__device_record__init
    }

    /// Decodes a message of at most `Limits.deviceRecordBytesMax` bytes.
    public static func decode(_ bytes: Span<UInt8>, in arena: inout MessageArena) throws(MessageError) -> DeviceRecord {
        try unsafe Self.unpack(bytes, arena)
    }

    /// Encodes the message.
    public func encode(in arena: inout MessageArena) throws(MessageError) -> [UInt8] { try unsafe self.pack(arena) }

    init(unpacking packed: UnsafePointer<Apus__V1__DeviceRecord>) throws(MessageError) {
        let record = unsafe packed.pointee
        self.init(device: try unsafe Self.device(unpacking: record), token: unsafe Unpack.bytes(record.token))
        self.environment = try unsafe Unpack.word(record.environment.rawValue, "environment") ?? .production
        self.tokenKind = try unsafe Unpack.word(record.token_kind.rawValue, "token_kind") ?? .device
        self.user = unsafe Unpack.text(record.user)
        self.formerUser = unsafe record.former_user
        self.topics = unsafe Unpack.numbers(record.topics, record.n_topics)
        self.attributes = try unsafe Unpack.part(record.attributes, "attributes") ?? Attributes()
        self.seenAtHours = unsafe record.seen_at_h
        self.webpushP256DH = unsafe Unpack.bytes(record.webpush_p256dh)
        self.webpushAuth = unsafe Unpack.bytes(record.webpush_auth)
        self.applicationServerKey = unsafe Unpack.bytes(record.application_server_key)
        self.expiresAtSeconds = unsafe record.expires_at_s
        self.changedAt = UnixMilliseconds(unsafe record.changed_at_ms)
        self.suspicion = try unsafe Unpack.part(record.suspicion, "suspicion")
        self.isEnvironmentLearned = unsafe record.environment_learned != 0
        self.secondary = try unsafe Unpack.parts(record.secondary, record.n_secondary, "secondary")
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__DeviceRecord>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.token = try unsafe Pack.bytes(self.token, arena)
        unsafe packed.pointee.environment = Apus__V1__Environment(UInt32(self.environment.rawValue))
        unsafe packed.pointee.token_kind = Apus__V1__TokenKind(UInt32(self.tokenKind.rawValue))
        unsafe packed.pointee.user = try unsafe Pack.text(self.user, arena)
        unsafe packed.pointee.former_user = self.formerUser
        unsafe packed.pointee.n_topics = self.topics.count
        unsafe packed.pointee.topics = try unsafe Pack.numbers(self.topics, arena)
        if self.attributes != Attributes() { unsafe packed.pointee.attributes = try self.attributes.packed(arena) }
        unsafe packed.pointee.seen_at_h = self.seenAtHours
        try unsafe self.packDevice(into: packed, arena)
        unsafe packed.pointee.webpush_p256dh = try unsafe Pack.bytes(self.webpushP256DH, arena)
        unsafe packed.pointee.webpush_auth = try unsafe Pack.bytes(self.webpushAuth, arena)
        unsafe packed.pointee.application_server_key = try unsafe Pack.bytes(self.applicationServerKey, arena)
        unsafe packed.pointee.expires_at_s = self.expiresAtSeconds
        unsafe packed.pointee.changed_at_ms = self.changedAt.value
        if let suspicion = self.suspicion { unsafe packed.pointee.suspicion = try suspicion.packed(arena) }
        unsafe packed.pointee.environment_learned = self.isEnvironmentLearned ? 1 : 0
        unsafe packed.pointee.n_secondary = self.secondary.count
        unsafe packed.pointee.secondary = try unsafe Pack.parts(self.secondary, arena)
    }

    func check() throws(MessageError) {
        try Check.requiredBytes(self.token, "token", max: Limits.tokenBytesMax)
        try Check.text(self.user, "user", bytesMax: Limits.userIDBytesMax)
        try Check.count(self.topics.count, "topics", max: Limits.topicsPerDeviceMax)
        for (one, next) in zip(self.topics, self.topics.dropFirst()) where next <= one {
            throw MessageError(.malformed, field: "topics", "must be ascending")
        }
        try within("attributes", self.attributes.check())
        try Check.requiredText(self.device, "device", bytesMax: Limits.deviceIDBytesMax)
        try Check.bytes(self.webpushP256DH, "webpush_p256dh", exactly: Limits.webpushP256DHBytes)
        try Check.bytes(self.webpushAuth, "webpush_auth", exactly: Limits.webpushAuthBytes)
        try Check.bytes(self.applicationServerKey, "application_server_key", exactly: Limits.webpushP256DHBytes)
        guard self.expiresAtSeconds >= 0, self.expiresAtSeconds <= Limits.timeMax.seconds else {
            throw MessageError(.malformed, field: "expires_at_s", "must be seconds between 1970 and the year 9999")
        }
        guard (0...Limits.timeMax.value).contains(self.changedAt.value) else {
            throw MessageError(.malformed, field: "changed_at_ms", "must be a time between 1970 and the year 9999")
        }
        if let suspicion = self.suspicion { try within("suspicion", suspicion.check()) }
        try unsafe Check.parts(self.secondary, "secondary", countMax: Limits.secondaryAddressesMax)
    }
}

extension DeviceRecord {
    private static func device(unpacking record: Apus__V1__DeviceRecord) throws(MessageError) -> String {
        switch unsafe record.id_case {
        case APUS__V1__DEVICE_RECORD__ID_DEVICE: return unsafe Unpack.text(record.device)
        case APUS__V1__DEVICE_RECORD__ID_DEVICE_UUID:
            guard let text = unsafe PackedUUID.text(Unpack.bytes(record.device_uuid), inUpperCase: false) else {
                throw Self.otherLength("device_uuid")
            }
            return text
        case APUS__V1__DEVICE_RECORD__ID_DEVICE_UUID_UPPER:
            guard let text = unsafe PackedUUID.text(Unpack.bytes(record.device_uuid_upper), inUpperCase: true) else {
                throw Self.otherLength("device_uuid_upper")
            }
            return text
        default: throw Check.missing("device")
        }
    }

    private static func otherLength(_ field: String) -> MessageError {
        MessageError(.malformed, field: field, "must have \(PackedUUID.byteCount) bytes")
    }

    private func packDevice(
        into packed: UnsafeMutablePointer<Apus__V1__DeviceRecord>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        guard let (bytes, isInUpperCase) = PackedUUID.pack(self.device) else {
            unsafe packed.pointee.device = try unsafe Pack.text(self.device, arena)
            unsafe packed.pointee.id_case = APUS__V1__DEVICE_RECORD__ID_DEVICE
            return
        }
        if isInUpperCase {
            unsafe packed.pointee.device_uuid_upper = try unsafe Pack.bytes(bytes, arena)
            unsafe packed.pointee.id_case = APUS__V1__DEVICE_RECORD__ID_DEVICE_UUID_UPPER
        } else {
            unsafe packed.pointee.device_uuid = try unsafe Pack.bytes(bytes, arena)
            unsafe packed.pointee.id_case = APUS__V1__DEVICE_RECORD__ID_DEVICE_UUID
        }
    }
}

extension Attributes: @unsafe PackedPart {
    static var initialize: (UnsafeMutablePointer<Apus__V1__Attributes>?) -> Void {
        unsafe apus__v1__attributes__init
    }

    init(unpacking packed: UnsafePointer<Apus__V1__Attributes>) throws(MessageError) {
        self.init()
        self.locale = unsafe Unpack.text(packed.pointee.locale)
        self.timeZone = unsafe Unpack.text(packed.pointee.time_zone)
        self.appVersion = unsafe Unpack.text(packed.pointee.app_version)
        self.country = unsafe Unpack.text(packed.pointee.country)
        self.tags = unsafe Unpack.texts(packed.pointee.tags, packed.pointee.n_tags)
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__Attributes>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.locale = try unsafe Pack.text(self.locale, arena)
        unsafe packed.pointee.time_zone = try unsafe Pack.text(self.timeZone, arena)
        unsafe packed.pointee.app_version = try unsafe Pack.text(self.appVersion, arena)
        unsafe packed.pointee.country = try unsafe Pack.text(self.country, arena)
        unsafe packed.pointee.n_tags = self.tags.count
        unsafe packed.pointee.tags = try unsafe Pack.texts(self.tags, arena)
    }

    func check() throws(MessageError) {
        try Check.text(self.locale, "locale", bytesMax: Limits.localeBytesMax)
        try Check.text(self.timeZone, "time_zone", bytesMax: Limits.timeZoneBytesMax)
        try Check.text(self.appVersion, "app_version", bytesMax: Limits.appVersionBytesMax)
        try Check.text(self.country, "country", bytesMax: Limits.countryBytesMax)
        try Check.requiredTexts(
            self.tags,
            "tags",
            countMax: Limits.tagsPerDeviceMax,
            bytesMax: Limits.tagBytesMax,
        )
    }
}

extension DeviceRecord.SecondaryAddress: @unsafe PackedPart {
    static var initialize: (UnsafeMutablePointer<Apus__V1__SecondaryAddress>?) -> Void {
        unsafe apus__v1__secondary_address__init
    }

    init(unpacking packed: UnsafePointer<Apus__V1__SecondaryAddress>) throws(MessageError) {
        self.init(
            kind: try unsafe Unpack.requiredWord(packed.pointee.kind.rawValue, "kind"),
            token: unsafe Unpack.bytes(packed.pointee.token),
        )
        self.activityID = unsafe Unpack.text(packed.pointee.activity_id)
        self.expiresAtSeconds = unsafe packed.pointee.expires_at_s
        self.isSuspect = unsafe packed.pointee.suspect != 0
        self.registeredAt = unsafe UnixMilliseconds(packed.pointee.registered_at_ms)
        self.isOfOtherEnvironment = unsafe packed.pointee.other_environment != 0
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__SecondaryAddress>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.kind = Apus__V1__TokenKind(UInt32(self.kind.rawValue))
        unsafe packed.pointee.token = try unsafe Pack.bytes(self.token, arena)
        unsafe packed.pointee.activity_id = try unsafe Pack.text(self.activityID, arena)
        unsafe packed.pointee.expires_at_s = self.expiresAtSeconds
        unsafe packed.pointee.suspect = self.isSuspect ? 1 : 0
        unsafe packed.pointee.registered_at_ms = self.registeredAt.value
        unsafe packed.pointee.other_environment = self.isOfOtherEnvironment ? 1 : 0
    }

    func check() throws(MessageError) {
        try Check.requiredBytes(self.token, "token", max: Limits.tokenBytesMax)
        try Check.text(self.activityID, "activity_id", bytesMax: Limits.nameBytesMax)
        guard self.expiresAtSeconds >= 0, self.expiresAtSeconds <= Limits.timeMax.seconds else {
            throw MessageError(.malformed, field: "expires_at_s", "must be seconds between 1970 and the year 9999")
        }
        try Check.time(self.registeredAt, "registered_at_ms")
    }
}

extension DeviceRecord.Suspicion: @unsafe PackedPart {
    static var initialize: (UnsafeMutablePointer<Apus__V1__Suspicion>?) -> Void {
        unsafe apus__v1__suspicion__init
    }

    init(unpacking packed: UnsafePointer<Apus__V1__Suspicion>) throws(MessageError) {
        self.init(
            since: unsafe UnixMilliseconds(packed.pointee.since_ms),
            reason: try unsafe Unpack.requiredWord(packed.pointee.reason.rawValue, "reason"),
        )
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__Suspicion>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.since_ms = self.since.value
        unsafe packed.pointee.reason = Apus__V1__Reason(UInt32(self.reason.rawValue))
    }

    func check() throws(MessageError) { try Check.time(self.since, "since_ms") }
}
