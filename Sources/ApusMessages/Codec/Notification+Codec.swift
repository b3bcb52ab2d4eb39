internal import ApusCore
internal import CApusMessages

extension Notification: @unsafe PackedPart {
    static var initialize: (UnsafeMutablePointer<Apus__V1__Notification>?) -> Void {
        unsafe apus__v1__notification__init
    }

    init(unpacking packed: UnsafePointer<Apus__V1__Notification>) throws(MessageError) {
        let notification = unsafe packed.pointee
        self.init()
        self.kind = try unsafe Unpack.word(notification.kind.rawValue, "kind") ?? .alert
        self.title = unsafe Unpack.text(notification.title)
        self.subtitle = unsafe Unpack.text(notification.subtitle)
        self.body = unsafe Unpack.text(notification.body)
        self.titleLocKey = unsafe Unpack.text(notification.title_loc_key)
        self.subtitleLocKey = unsafe Unpack.text(notification.subtitle_loc_key)
        self.bodyLocKey = unsafe Unpack.text(notification.body_loc_key)
        self.launchImage = unsafe Unpack.text(notification.launch_image)
        self.image = unsafe Unpack.text(notification.image)
        self.category = unsafe Unpack.text(notification.category)
        self.threadID = unsafe Unpack.text(notification.thread_id)
        self.channelID = unsafe Unpack.text(notification.channel_id)
        self.tag = unsafe Unpack.text(notification.tag)
        self.clickAction = unsafe Unpack.text(notification.click_action)
        self.color = unsafe Unpack.text(notification.color)
        self.collapseKey = unsafe Unpack.text(notification.collapse_key)
        self.targetContentID = unsafe Unpack.text(notification.target_content_id)
        self.filterCriteria = unsafe Unpack.text(notification.filter_criteria)
        self.apnsJSON = unsafe Unpack.text(notification.apns_json)
        self.androidJSON = unsafe Unpack.text(notification.android_json)
        self.webpushJSON = unsafe Unpack.text(notification.webpush_json)
        self.analyticsLabel = unsafe Unpack.text(notification.analytics_label)
        self.fcmAPNsJSON = unsafe Unpack.text(notification.fcm_apns_json)
        self.titleLocArgs = unsafe Unpack.texts(notification.title_loc_args, notification.n_title_loc_args)
        self.subtitleLocArgs = unsafe Unpack.texts(notification.subtitle_loc_args, notification.n_subtitle_loc_args)
        self.bodyLocArgs = unsafe Unpack.texts(notification.body_loc_args, notification.n_body_loc_args)
        self.sound = try unsafe Unpack.part(notification.sound, "sound")
        self.badge = unsafe Badge(unpacking: notification)
        self.data = try unsafe Self.data(unpacking: notification)
        self.priority = try unsafe Unpack.word(notification.priority.rawValue, "priority")
        self.expiry = unsafe Expiry(unpacking: notification)
        self.contentAvailable = unsafe notification.content_available != 0
        self.mutableContent = unsafe notification.mutable_content != 0
        self.interruptionLevel = try unsafe Unpack.word(
            notification.interruption_level.rawValue,
            "interruption_level",
        )
        if unsafe notification.relevance_presence_case == APUS__V1__NOTIFICATION__RELEVANCE_PRESENCE_RELEVANCE_SCORE {
            self.relevanceScore = unsafe notification.relevance_score
        }
        self.liveActivity = try unsafe Unpack.part(notification.live_activity, "live_activity")
        self.variants = try unsafe Unpack.parts(notification.variants, notification.n_variants, "variants")
        self.androidStyle =
            try unsafe Unpack.word(notification.android_style.rawValue, "android_style") ?? .notification
        self.fcmAPNsStyle =
            try unsafe Unpack.word(notification.fcm_apns_style.rawValue, "fcm_apns_style") ?? .notification
        self.fcmWebpushStyle =
            try unsafe Unpack.word(notification.fcm_webpush_style.rawValue, "fcm_webpush_style") ?? .notification
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__Notification>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.kind = Apus__V1__Kind(UInt32(self.kind.rawValue))
        unsafe packed.pointee.title = try unsafe Pack.text(self.title, arena)
        unsafe packed.pointee.subtitle = try unsafe Pack.text(self.subtitle, arena)
        unsafe packed.pointee.body = try unsafe Pack.text(self.body, arena)
        unsafe packed.pointee.title_loc_key = try unsafe Pack.text(self.titleLocKey, arena)
        unsafe packed.pointee.subtitle_loc_key = try unsafe Pack.text(self.subtitleLocKey, arena)
        unsafe packed.pointee.body_loc_key = try unsafe Pack.text(self.bodyLocKey, arena)
        unsafe packed.pointee.launch_image = try unsafe Pack.text(self.launchImage, arena)
        unsafe packed.pointee.image = try unsafe Pack.text(self.image, arena)
        unsafe packed.pointee.category = try unsafe Pack.text(self.category, arena)
        unsafe packed.pointee.thread_id = try unsafe Pack.text(self.threadID, arena)
        unsafe packed.pointee.channel_id = try unsafe Pack.text(self.channelID, arena)
        unsafe packed.pointee.tag = try unsafe Pack.text(self.tag, arena)
        unsafe packed.pointee.click_action = try unsafe Pack.text(self.clickAction, arena)
        unsafe packed.pointee.color = try unsafe Pack.text(self.color, arena)
        unsafe packed.pointee.collapse_key = try unsafe Pack.text(self.collapseKey, arena)
        unsafe packed.pointee.target_content_id = try unsafe Pack.text(self.targetContentID, arena)
        unsafe packed.pointee.filter_criteria = try unsafe Pack.text(self.filterCriteria, arena)
        unsafe packed.pointee.apns_json = try unsafe Pack.text(self.apnsJSON, arena)
        unsafe packed.pointee.android_json = try unsafe Pack.text(self.androidJSON, arena)
        unsafe packed.pointee.webpush_json = try unsafe Pack.text(self.webpushJSON, arena)
        unsafe packed.pointee.analytics_label = try unsafe Pack.text(self.analyticsLabel, arena)
        unsafe packed.pointee.fcm_apns_json = try unsafe Pack.text(self.fcmAPNsJSON, arena)
        unsafe packed.pointee.n_title_loc_args = self.titleLocArgs.count
        unsafe packed.pointee.title_loc_args = try unsafe Pack.texts(self.titleLocArgs, arena)
        unsafe packed.pointee.n_subtitle_loc_args = self.subtitleLocArgs.count
        unsafe packed.pointee.subtitle_loc_args = try unsafe Pack.texts(self.subtitleLocArgs, arena)
        unsafe packed.pointee.n_body_loc_args = self.bodyLocArgs.count
        unsafe packed.pointee.body_loc_args = try unsafe Pack.texts(self.bodyLocArgs, arena)
        if let sound = self.sound { unsafe packed.pointee.sound = try sound.packed(arena) }
        if let badge = self.badge { unsafe badge.pack(into: packed) }
        try unsafe self.packData(into: packed, arena)
        unsafe packed.pointee.priority = Apus__V1__Priority(UInt32(self.priority?.rawValue ?? 0))
        if let expiry = self.expiry { unsafe expiry.pack(into: packed) }
        unsafe packed.pointee.content_available = self.contentAvailable ? 1 : 0
        unsafe packed.pointee.mutable_content = self.mutableContent ? 1 : 0
        unsafe packed.pointee.interruption_level = Apus__V1__InterruptionLevel(
            UInt32(self.interruptionLevel?.rawValue ?? 0)
        )
        if let score = self.relevanceScore {
            unsafe packed.pointee.relevance_score = score
            unsafe packed.pointee.relevance_presence_case =
                APUS__V1__NOTIFICATION__RELEVANCE_PRESENCE_RELEVANCE_SCORE
        }
        if let activity = self.liveActivity { unsafe packed.pointee.live_activity = try activity.packed(arena) }
        unsafe packed.pointee.n_variants = self.variants.count
        unsafe packed.pointee.variants = try unsafe Pack.parts(self.variants, arena)
        unsafe packed.pointee.android_style = Apus__V1__FCMStyle(UInt32(self.androidStyle.rawValue))
        unsafe packed.pointee.fcm_apns_style = Apus__V1__FCMStyle(UInt32(self.fcmAPNsStyle.rawValue))
        unsafe packed.pointee.fcm_webpush_style = Apus__V1__FCMStyle(UInt32(self.fcmWebpushStyle.rawValue))
    }

    func check() throws(MessageError) {
        try Check.text(self.title, "title", bytesMax: Limits.textBytesMax)
        try Check.text(self.subtitle, "subtitle", bytesMax: Limits.textBytesMax)
        try Check.text(self.body, "body", bytesMax: Limits.textBytesMax)
        try Check.text(self.titleLocKey, "title_loc_key", bytesMax: Limits.nameBytesMax)
        try Check.text(self.subtitleLocKey, "subtitle_loc_key", bytesMax: Limits.nameBytesMax)
        try Check.text(self.bodyLocKey, "body_loc_key", bytesMax: Limits.nameBytesMax)
        try Check.text(self.launchImage, "launch_image", bytesMax: Limits.nameBytesMax)
        try Check.text(self.image, "image", bytesMax: Limits.urlBytesMax)
        try Check.text(self.category, "category", bytesMax: Limits.nameBytesMax)
        try Check.text(self.threadID, "thread_id", bytesMax: Limits.nameBytesMax)
        try Check.text(self.channelID, "channel_id", bytesMax: Limits.nameBytesMax)
        try Check.text(self.tag, "tag", bytesMax: Limits.nameBytesMax)
        try Check.text(self.clickAction, "click_action", bytesMax: Limits.urlBytesMax)
        try Check.text(self.color, "color", bytesMax: Limits.nameBytesMax)
        try Check.text(self.collapseKey, "collapse_key", bytesMax: Limits.nameBytesMax)
        try Check.text(self.targetContentID, "target_content_id", bytesMax: Limits.nameBytesMax)
        try Check.text(self.filterCriteria, "filter_criteria", bytesMax: Limits.nameBytesMax)
        try Check.text(self.apnsJSON, "apns_json", bytesMax: Limits.jsonOverrideBytesMax)
        try Check.text(self.androidJSON, "android_json", bytesMax: Limits.jsonOverrideBytesMax)
        try Check.text(self.webpushJSON, "webpush_json", bytesMax: Limits.jsonOverrideBytesMax)
        try Check.text(self.analyticsLabel, "analytics_label", bytesMax: Limits.nameBytesMax)
        try Check.text(self.fcmAPNsJSON, "fcm_apns_json", bytesMax: Limits.jsonOverrideBytesMax)
        try Check.texts(
            self.titleLocArgs,
            "title_loc_args",
            countMax: Limits.localizationArgumentsMax,
            bytesMax: Limits.textBytesMax,
        )
        try Check.texts(
            self.subtitleLocArgs,
            "subtitle_loc_args",
            countMax: Limits.localizationArgumentsMax,
            bytesMax: Limits.textBytesMax,
        )
        try Check.texts(
            self.bodyLocArgs,
            "body_loc_args",
            countMax: Limits.localizationArgumentsMax,
            bytesMax: Limits.textBytesMax,
        )
        if let sound = self.sound { try within("sound", sound.check()) }
        try self.checkData()
        try self.expiry?.check()
        if let score = self.relevanceScore { try Check.finite(score, "relevance_score") }
        if let activity = self.liveActivity { try within("live_activity", activity.check()) }
        try unsafe Check.parts(self.variants, "variants", countMax: Limits.localeVariantsMax)
    }
}
