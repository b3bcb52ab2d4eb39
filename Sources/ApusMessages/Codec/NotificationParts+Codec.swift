internal import ApusCore
internal import CApusMessages

extension Notification {
    static func data(unpacking notification: Apus__V1__Notification) throws(MessageError) -> [String: String] {
        guard let list = unsafe notification.data else { return [:] }
        var data: [String: String] = [:]
        for index in unsafe 0..<notification.n_data {
            guard let entry = unsafe list[index]?.pointee else { throw Check.missing("data[\(index)]") }
            let key = unsafe Unpack.text(entry.key)
            let value = unsafe Unpack.text(entry.value)
            guard data.updateValue(value, forKey: key) == nil else {
                throw MessageError(.malformed, field: "data[\(index)].key", "must not be given twice")
            }
        }
        return data
    }

    func packData(
        into packed: UnsafeMutablePointer<Apus__V1__Notification>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        let list = try unsafe arena.take(
            self.data.count,
            of: UnsafeMutablePointer<Apus__V1__Notification__DataEntry>?.self,
        )
        for (index, entry) in self.sortedData.enumerated() {
            let item = try unsafe arena.make(apus__v1__notification__data_entry__init)
            unsafe item.pointee.key = try unsafe Pack.text(entry.key, arena)
            unsafe item.pointee.value = try unsafe Pack.text(entry.value, arena)
            unsafe list[index] = item
        }
        unsafe packed.pointee.n_data = self.data.count
        unsafe packed.pointee.data = list
    }

    func checkData() throws(MessageError) {
        try Check.count(self.data.count, "data", max: Limits.dataEntriesMax)
        for (index, entry) in self.sortedData.enumerated() {
            try within(
                "data",
                index: index,
                Check.requiredText(entry.key, "key", bytesMax: Limits.dataKeyBytesMax),
            )
            try within("data", index: index, Check.text(entry.value, "value", bytesMax: Limits.dataValueBytesMax))
        }
    }

    /// The entries in the order in which they are packed, and in which errors number them.
    private var sortedData: [(key: String, value: String)] {
        self.data.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
    }
}

extension Notification.Badge {
    init?(unpacking notification: Apus__V1__Notification) {
        switch unsafe notification.badge_case {
        case APUS__V1__NOTIFICATION__BADGE_BADGE_SET: self = unsafe .set(notification.badge_set)
        case APUS__V1__NOTIFICATION__BADGE_BADGE_INCREMENT: self = unsafe .increment(notification.badge_increment)
        default: return nil
        }
    }

    func pack(into packed: UnsafeMutablePointer<Apus__V1__Notification>) {
        switch self {
        case .set(let number):
            unsafe packed.pointee.badge_set = number
            unsafe packed.pointee.badge_case = APUS__V1__NOTIFICATION__BADGE_BADGE_SET
        case .increment(let number):
            unsafe packed.pointee.badge_increment = number
            unsafe packed.pointee.badge_case = APUS__V1__NOTIFICATION__BADGE_BADGE_INCREMENT
        }
    }
}

extension Notification.Expiry {
    init?(unpacking notification: Apus__V1__Notification) {
        switch unsafe notification.expiry_case {
        case APUS__V1__NOTIFICATION__EXPIRY_EXPIRES_AT_MS:
            self = unsafe .at(UnixMilliseconds(notification.expires_at_ms))
        case APUS__V1__NOTIFICATION__EXPIRY_TTL_MS: self = unsafe .ttl(milliseconds: notification.ttl_ms)
        default: return nil
        }
    }

    func pack(into packed: UnsafeMutablePointer<Apus__V1__Notification>) {
        switch self {
        case .at(let time):
            unsafe packed.pointee.expires_at_ms = time.value
            unsafe packed.pointee.expiry_case = APUS__V1__NOTIFICATION__EXPIRY_EXPIRES_AT_MS
        case .ttl(let milliseconds):
            unsafe packed.pointee.ttl_ms = milliseconds
            unsafe packed.pointee.expiry_case = APUS__V1__NOTIFICATION__EXPIRY_TTL_MS
        }
    }

    func check() throws(MessageError) {
        switch self {
        case .at(let time): try Check.time(time, "expires_at_ms")
        case .ttl(let milliseconds): try Check.time(UnixMilliseconds(milliseconds), "ttl_ms")
        }
    }
}

extension Notification.Sound: @unsafe PackedPart {
    static var initialize: (UnsafeMutablePointer<Apus__V1__Sound>?) -> Void {
        unsafe apus__v1__sound__init
    }

    init(unpacking packed: UnsafePointer<Apus__V1__Sound>) throws(MessageError) {
        let hasVolume = unsafe packed.pointee.volume_presence_case == APUS__V1__SOUND__VOLUME_PRESENCE_VOLUME
        self.init(
            name: unsafe Unpack.text(packed.pointee.name),
            critical: unsafe packed.pointee.critical != 0,
            volume: unsafe hasVolume ? packed.pointee.volume : nil,
        )
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__Sound>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.name = try unsafe Pack.text(self.name, arena)
        unsafe packed.pointee.critical = self.critical ? 1 : 0
        guard let volume = self.volume else { return }
        unsafe packed.pointee.volume = volume
        unsafe packed.pointee.volume_presence_case = APUS__V1__SOUND__VOLUME_PRESENCE_VOLUME
    }

    func check() throws(MessageError) {
        try Check.text(self.name, "name", bytesMax: Limits.nameBytesMax)
        guard let volume = self.volume else { return }
        guard volume >= 0, volume <= 1 else {
            throw MessageError(.malformed, field: "volume", "must be between 0 and 1")
        }
    }
}

extension Notification.LocaleVariant: @unsafe PackedPart {
    static var initialize: (UnsafeMutablePointer<Apus__V1__LocaleVariant>?) -> Void {
        unsafe apus__v1__locale_variant__init
    }

    init(unpacking packed: UnsafePointer<Apus__V1__LocaleVariant>) throws(MessageError) {
        self.init(locale: unsafe Unpack.text(packed.pointee.locale))
        self.title = unsafe Unpack.text(packed.pointee.title)
        self.subtitle = unsafe Unpack.text(packed.pointee.subtitle)
        self.body = unsafe Unpack.text(packed.pointee.body)
        self.image = unsafe Unpack.text(packed.pointee.image)
        self.clickAction = unsafe Unpack.text(packed.pointee.click_action)
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__LocaleVariant>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.locale = try unsafe Pack.text(self.locale, arena)
        unsafe packed.pointee.title = try unsafe Pack.text(self.title, arena)
        unsafe packed.pointee.subtitle = try unsafe Pack.text(self.subtitle, arena)
        unsafe packed.pointee.body = try unsafe Pack.text(self.body, arena)
        unsafe packed.pointee.image = try unsafe Pack.text(self.image, arena)
        unsafe packed.pointee.click_action = try unsafe Pack.text(self.clickAction, arena)
    }

    func check() throws(MessageError) {
        try Check.requiredText(self.locale, "locale", bytesMax: Limits.localeBytesMax)
        try Check.text(self.title, "title", bytesMax: Limits.textBytesMax)
        try Check.text(self.subtitle, "subtitle", bytesMax: Limits.textBytesMax)
        try Check.text(self.body, "body", bytesMax: Limits.textBytesMax)
        try Check.text(self.image, "image", bytesMax: Limits.urlBytesMax)
        try Check.text(self.clickAction, "click_action", bytesMax: Limits.urlBytesMax)
    }
}

extension Notification.LiveActivity: @unsafe PackedPart {
    static var initialize: (UnsafeMutablePointer<Apus__V1__LiveActivity>?) -> Void {
        unsafe apus__v1__live_activity__init
    }

    init(unpacking packed: UnsafePointer<Apus__V1__LiveActivity>) throws(MessageError) {
        let activity = unsafe packed.pointee
        self.init(event: try unsafe Unpack.requiredWord(activity.event.rawValue, "event"))
        self.contentStateJSON = unsafe Unpack.text(activity.content_state_json)
        self.attributesType = unsafe Unpack.text(activity.attributes_type)
        self.attributesJSON = unsafe Unpack.text(activity.attributes_json)
        self.timestamp = unsafe Unpack.time(activity.timestamp_ms)
        if unsafe activity.stale_presence_case == APUS__V1__LIVE_ACTIVITY__STALE_PRESENCE_STALE_AT_MS {
            self.staleAt = unsafe UnixMilliseconds(activity.stale_at_ms)
        }
        if unsafe activity.dismissal_presence_case == APUS__V1__LIVE_ACTIVITY__DISMISSAL_PRESENCE_DISMISS_AT_MS {
            self.dismissAt = unsafe UnixMilliseconds(activity.dismiss_at_ms)
        }
        self.inputPushToken = unsafe activity.input_push_token != 0
        self.inputPushChannel = unsafe Unpack.text(activity.input_push_channel)
        self.activityID = unsafe Unpack.text(activity.activity_id)
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__LiveActivity>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.event = Apus__V1__LiveActivityEvent(UInt32(self.event.rawValue))
        unsafe packed.pointee.content_state_json = try unsafe Pack.text(self.contentStateJSON, arena)
        unsafe packed.pointee.attributes_type = try unsafe Pack.text(self.attributesType, arena)
        unsafe packed.pointee.attributes_json = try unsafe Pack.text(self.attributesJSON, arena)
        unsafe packed.pointee.timestamp_ms = self.timestamp?.value ?? 0
        if let staleAt = self.staleAt {
            unsafe packed.pointee.stale_at_ms = staleAt.value
            unsafe packed.pointee.stale_presence_case = APUS__V1__LIVE_ACTIVITY__STALE_PRESENCE_STALE_AT_MS
        }
        if let dismissAt = self.dismissAt {
            unsafe packed.pointee.dismiss_at_ms = dismissAt.value
            unsafe packed.pointee.dismissal_presence_case =
                APUS__V1__LIVE_ACTIVITY__DISMISSAL_PRESENCE_DISMISS_AT_MS
        }
        unsafe packed.pointee.input_push_token = self.inputPushToken ? 1 : 0
        unsafe packed.pointee.input_push_channel = try unsafe Pack.text(self.inputPushChannel, arena)
        unsafe packed.pointee.activity_id = try unsafe Pack.text(self.activityID, arena)
    }

    func check() throws(MessageError) {
        try Check.text(self.contentStateJSON, "content_state_json", bytesMax: Limits.jsonOverrideBytesMax)
        try Check.text(self.attributesType, "attributes_type", bytesMax: Limits.nameBytesMax)
        try Check.text(self.attributesJSON, "attributes_json", bytesMax: Limits.jsonOverrideBytesMax)
        try Check.optionalTime(self.timestamp, "timestamp_ms")
        if let staleAt = self.staleAt { try Check.time(staleAt, "stale_at_ms") }
        if let dismissAt = self.dismissAt { try Check.time(dismissAt, "dismiss_at_ms") }
        try Check.text(self.inputPushChannel, "input_push_channel", bytesMax: Limits.nameBytesMax)
        try Check.text(self.activityID, "activity_id", bytesMax: Limits.nameBytesMax)
    }
}
