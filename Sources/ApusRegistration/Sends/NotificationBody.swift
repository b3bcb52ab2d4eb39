internal import ApusCore
internal import ApusMessages

/// Reads a notification's members as `Protos/apus/v1/notification.proto` names them; words of a closed set are in snake case. A member that
/// is JSON itself may be given as an object or as its text. It is pure.
enum NotificationBody {
    /// Reads the notification.
    static func read(_ reader: inout MemberReader) -> Notification {
        var notification = Notification()
        Self.readWords(from: &reader, into: &notification)
        Self.readPresentation(from: &reader, into: &notification)
        Self.readDelivery(from: &reader, into: &notification)
        notification.liveActivity = Self.liveActivity(&reader)
        notification.variants = Self.variants(&reader)
        return notification
    }

    private static func readWords(from reader: inout MemberReader, into notification: inout Notification) {
        let texts: [(String, WritableKeyPath<Notification, String>)] = [
            ("title", \.title), ("subtitle", \.subtitle), ("body", \.body), ("title_loc_key", \.titleLocKey),
            ("subtitle_loc_key", \.subtitleLocKey), ("body_loc_key", \.bodyLocKey), ("launch_image", \.launchImage),
            ("image", \.image), ("category", \.category), ("thread_id", \.threadID), ("channel_id", \.channelID),
            ("tag", \.tag), ("click_action", \.clickAction), ("color", \.color), ("collapse_key", \.collapseKey),
            ("target_content_id", \.targetContentID), ("filter_criteria", \.filterCriteria),
            ("analytics_label", \.analyticsLabel),
        ]
        for (name, path) in texts { notification[keyPath: path] = reader.text(name) ?? "" }
        notification.titleLocArgs = reader.texts("title_loc_args") ?? []
        notification.subtitleLocArgs = reader.texts("subtitle_loc_args") ?? []
        notification.bodyLocArgs = reader.texts("body_loc_args") ?? []
        for member in (reader.object("data") ?? [:]).members {
            if let text = member.value.string {
                notification.data[member.name] = text
            } else {
                // The name comes from outside, and as a pointer it would need escapes (RFC 6901 §3).
                reader.note("data", "must hold strings only")
            }
        }
    }

    private static func readPresentation(from reader: inout MemberReader, into notification: inout Notification) {
        notification.kind = reader.word("kind", Notification.Kind.allCases, SnakeCase.name) ?? .alert
        if reader.value("sound") != nil {
            notification.sound = reader.members("sound") { reader in
                Notification.Sound(
                    name: reader.text("name") ?? "default",
                    critical: reader.truth("critical") ?? false,
                    volume: reader.double("volume"),
                )
            }
        }
        switch (reader.number("badge_set"), reader.number("badge_increment")) {
        case (let number?, nil): notification.badge = .set(number)
        case (nil, let number?): notification.badge = .increment(number)
        case (_?, _?): reader.note("badge_set", "and badge_increment exclude each other")
        case (nil, nil): break
        }
        notification.interruptionLevel = reader.word(
            "interruption_level",
            Notification.InterruptionLevel.allCases,
            SnakeCase.name,
        )
        notification.relevanceScore = reader.double("relevance_score")
        notification.contentAvailable = reader.truth("content_available") ?? false
        notification.mutableContent = reader.truth("mutable_content") ?? false
        let styles: [(String, WritableKeyPath<Notification, Notification.FCMStyle>)] = [
            ("android_style", \.androidStyle), ("fcm_apns_style", \.fcmAPNsStyle),
            ("fcm_webpush_style", \.fcmWebpushStyle),
        ]
        for (name, path) in styles {
            notification[keyPath: path] =
                reader.word(name, Notification.FCMStyle.allCases, SnakeCase.name) ?? .notification
        }
    }

    private static func readDelivery(from reader: inout MemberReader, into notification: inout Notification) {
        notification.priority = reader.word("priority", Notification.Priority.allCases, SnakeCase.name)
        let end = reader.time("expires_at_ms")
        var ttl: Int64?
        if let value = reader.value("ttl_ms") {
            ttl = value.int64
            if ttl.map({ $0 < 0 }) ?? true { reader.note("ttl_ms", "must be a whole number from 0") }
        }
        switch (end, ttl) {
        case (let end?, nil): notification.expiry = .at(end)
        case (nil, let ttl?): notification.expiry = .ttl(milliseconds: ttl)
        case (_?, _?): reader.note("ttl_ms", "and expires_at_ms exclude each other")
        case (nil, nil): break
        }
        notification.apnsJSON = reader.jsonText("apns_json") ?? ""
        notification.androidJSON = reader.jsonText("android_json") ?? ""
        notification.webpushJSON = reader.jsonText("webpush_json") ?? ""
        notification.fcmAPNsJSON = reader.jsonText("fcm_apns_json") ?? ""
    }

    private static func liveActivity(_ reader: inout MemberReader) -> Notification.LiveActivity? {
        guard reader.object("live_activity") != nil else { return nil }
        return reader.members("live_activity") { reader in
            if !reader.has("event") { reader.note("event", "must be given") }
            let event = reader.word("event", Notification.LiveActivity.Event.allCases, SnakeCase.name)
            var activity = Notification.LiveActivity(event: event ?? .update)
            activity.contentStateJSON = reader.jsonText("content_state_json") ?? ""
            activity.attributesType = reader.text("attributes_type") ?? ""
            activity.attributesJSON = reader.jsonText("attributes_json") ?? ""
            activity.timestamp = reader.time("timestamp_ms")
            activity.staleAt = reader.time("stale_at_ms")
            activity.dismissAt = reader.time("dismiss_at_ms")
            activity.inputPushToken = reader.truth("input_push_token") ?? false
            activity.inputPushChannel = reader.text("input_push_channel") ?? ""
            activity.activityID = reader.text("activity_id") ?? ""
            return activity
        }
    }

    private static func variants(_ reader: inout MemberReader) -> [Notification.LocaleVariant] {
        reader.elements("variants") { reader in
            if !reader.has("locale") { reader.note("locale", "must be given") }
            var variant = Notification.LocaleVariant(locale: reader.text("locale") ?? "")
            variant.title = reader.text("title") ?? ""
            variant.subtitle = reader.text("subtitle") ?? ""
            variant.body = reader.text("body") ?? ""
            variant.image = reader.text("image") ?? ""
            variant.clickAction = reader.text("click_action") ?? ""
            return variant
        }
    }
}
