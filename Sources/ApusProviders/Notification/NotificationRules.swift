internal import ApusCore
package import ApusMessages

/// Checks the rules for notifications that hold for every provider.
///
/// Each provider's own rules are in its target; sizes are checked on the finished bytes when a notification is rendered.
package enum NotificationRules {
    /// Checks all rules.
    ///
    /// - Parameter isAccepted: true when the send was accepted before; members that its kind cannot carry are then ignored, and its badge may be
    ///   any.
    package static func check(_ notification: Notification, isAccepted: Bool = false) throws(Problem) {
        try Self.checkTexts(notification)
        try Self.checkAppearance(notification)
        try Self.checkData(notification)
        try Self.checkVariants(notification)
        try Self.checkExpiry(notification)
        try Self.checkKind(notification)
        if !isAccepted {
            if let badge = notification.badge { try Self.checkBadge(badge) }
            try KindRules.check(notification)
        }
    }

    /// The maximum bytes of a packed command whose notification, if it is plain, fits every provider's payload: each byte of it can become
    /// six in JSON, and the members' names take some 500.
    private static let plainBytesMax = 480

    /// Returns true for a small alert of texts and data without anything that a provider could refuse: no raw JSON, no variants, no
    /// localized texts, no data in place of texts. The rules for its members are not checked.
    ///
    /// - Parameter byteCount: the size of the packed command that holds it.
    package static func isPlain(_ notification: Notification, byteCount: Int) -> Bool {
        guard byteCount <= Self.plainBytesMax, notification.kind == .alert,
            !notification.title.isEmpty || !notification.body.isEmpty
        else { return false }
        let isLocalized =
            !notification.variants.isEmpty || !notification.titleLocKey.isEmpty
            || !notification.subtitleLocKey.isEmpty || !notification.bodyLocKey.isEmpty
        return !isLocalized && !notification.hasProviderParts && notification.liveActivity == nil
    }

    private static func checkTexts(_ notification: Notification) throws(Problem) {
        try FieldRules.length(notification.title, "notification.title", bytesMax: Limits.textBytesMax)
        try FieldRules.length(notification.subtitle, "notification.subtitle", bytesMax: Limits.textBytesMax)
        try FieldRules.length(notification.body, "notification.body", bytesMax: Limits.textBytesMax)
        try FieldRules.localization(
            key: notification.titleLocKey,
            arguments: notification.titleLocArgs,
            "notification.title",
        )
        try FieldRules.localization(
            key: notification.subtitleLocKey,
            arguments: notification.subtitleLocArgs,
            "notification.subtitle",
        )
        try FieldRules.localization(
            key: notification.bodyLocKey,
            arguments: notification.bodyLocArgs,
            "notification.body",
        )
    }

    private static func checkAppearance(_ notification: Notification) throws(Problem) {
        for (text, name) in [
            (notification.launchImage, "launch_image"), (notification.category, "category"),
            (notification.threadID, "thread_id"), (notification.channelID, "channel_id"), (notification.tag, "tag"),
            (notification.targetContentID, "target_content_id"), (notification.filterCriteria, "filter_criteria"),
            (notification.sound?.name ?? "", "sound.name"),
        ] {
            try FieldRules.length(text, "notification.\(name)", bytesMax: Limits.nameBytesMax)
        }
        if !notification.image.isEmpty { try FieldRules.link(notification.image, "notification.image") }
        try Self.checkClickAction(notification.clickAction, "notification.click_action")
        if !notification.color.isEmpty { try FieldRules.color(notification.color, "notification.color") }
        if !notification.collapseKey.isEmpty {
            try FieldRules.collapseKey(notification.collapseKey, "notification.collapse_key")
        }
        if let sound = notification.sound { try Self.checkSound(sound) }
        if let score = notification.relevanceScore {
            let valid = notification.kind == .liveActivity ? score.isFinite : (0...1).contains(score)
            guard valid else {
                throw Problem(
                    .invalid,
                    "notification.relevance_score",
                    notification.kind == .liveActivity ? "must be a finite number" : "must be from 0 to 1",
                )
            }
        }
    }

    private static func checkBadge(_ badge: Notification.Badge) throws(Problem) {
        let (number, name) =
            switch badge {
            case .set(let number): (number, "badge_set")
            case .increment(let number): (number, "badge_increment")
            }
        guard number <= Limits.badgeMax else {
            throw Problem(.invalid, "notification.\(name)", "must be at most \(Limits.badgeMax)")
        }
    }

    private static func checkClickAction(_ action: String, _ field: String) throws(Problem) {
        guard FieldRules.isHTTPS(action) else {
            return try FieldRules.length(action, field, bytesMax: Limits.nameBytesMax)
        }
        try FieldRules.link(action, field)
    }

    private static func checkSound(_ sound: Notification.Sound) throws(Problem) {
        guard !sound.name.isEmpty else {
            throw Problem(.missing, "notification.sound.name", "must be a file in the app, or default")
        }
        guard let volume = sound.volume else { return }
        guard (0...1).contains(volume) else {
            throw Problem(.invalid, "notification.sound.volume", "must be from 0 to 1")
        }
        guard sound.critical else {
            throw Problem(.contradiction, "notification.sound.volume", "is for critical alerts only")
        }
    }

    private static func checkData(_ notification: Notification) throws(Problem) {
        guard notification.data.count <= Limits.dataEntriesMax else {
            throw Problem(.tooMany, "notification.data", "must be at most \(Limits.dataEntriesMax) entries")
        }
        for (key, value) in notification.data.sorted(by: { $0.key < $1.key }) {
            guard !key.isEmpty else { throw Problem(.invalid, "notification.data", "must not have an empty key") }
            try FieldRules.length(key, "notification.data", bytesMax: Limits.dataKeyBytesMax)
            try FieldRules.length(value, FieldRules.path("notification.data", key), bytesMax: Limits.dataValueBytesMax)
            guard key != "aps" else {
                throw Problem(
                    .reserved,
                    "notification.data[aps]",
                    "is reserved for the payload's aps object: use apns_json"
                )
            }
            guard key != RenderContext.sendMember, key != RenderContext.sendDataKey else {
                throw Problem(.reserved, FieldRules.path("notification.data", key), "is reserved for the send's id")
            }
        }
    }

    private static func checkVariants(_ notification: Notification) throws(Problem) {
        guard notification.variants.count <= Limits.localeVariantsMax else {
            throw Problem(.tooMany, "notification.variants", "must be at most \(Limits.localeVariantsMax)")
        }
        var locales: Set<String> = []
        for (index, variant) in notification.variants.enumerated() {
            let field = "notification.variants[\(index)]"
            try FieldRules.locale(variant.locale, "\(field).locale")
            guard locales.insert(variant.locale.lowercased()).inserted else {
                throw Problem(.contradiction, "\(field).locale", "names the same language as another variant")
            }
            try FieldRules.length(variant.title, "\(field).title", bytesMax: Limits.textBytesMax)
            try FieldRules.length(variant.subtitle, "\(field).subtitle", bytesMax: Limits.textBytesMax)
            try FieldRules.length(variant.body, "\(field).body", bytesMax: Limits.textBytesMax)
            if !variant.image.isEmpty { try FieldRules.link(variant.image, "\(field).image") }
            try Self.checkClickAction(variant.clickAction, "\(field).click_action")
        }
    }

    private static func checkExpiry(_ notification: Notification) throws(Problem) {
        switch notification.expiry {
        case .ttl(let milliseconds):
            guard milliseconds >= 0 else { throw Problem(.invalid, "notification.ttl_ms", "must not be negative") }
        case .at(let time):
            guard time.value > 0 else {
                throw Problem(.invalid, "notification.expires_at_ms", "must be a time after 1970")
            }
        case nil: break
        }
    }

    private static func checkKind(_ notification: Notification) throws(Problem) {
        guard (notification.kind == .liveActivity) == (notification.liveActivity != nil) else {
            throw Problem(
                notification.kind == .liveActivity ? .missing : .contradiction,
                "notification.live_activity",
                "belongs to the kind live activity, and is required there",
            )
        }
        if notification.kind == .background { try Self.checkPriority(notification) }
    }

    /// Checks that the priority of a background push is 5.
    /// Source: https://developer.apple.com/documentation/usernotifications/pushing-background-updates-to-your-app
    private static func checkPriority(_ notification: Notification) throws(Problem) {
        switch notification.priority {
        case .normal, nil: break
        case .high, .low:
            throw Problem(.contradiction, "notification.priority", "must be normal for a background notification")
        }
    }
}
