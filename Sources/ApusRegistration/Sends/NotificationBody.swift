internal import ApusCore
internal import ApusMessages

/// Reads a notification's members as `Protos/apus/v1/notification.proto` names them; words of a closed set are in snake case. A member that
/// is JSON itself may be given as an object or as its text. It is pure.
struct NotificationBody {
    private var reader: MemberReader

    init(_ object: JSONObject, at pointer: String) { self.reader = MemberReader(object, at: pointer) }

    /// The mistakes that were found.
    var mistakes: [ProblemDetails.Part] { self.reader.mistakes }

    /// Reads the notification.
    mutating func read() -> Notification {
        var notification = Notification()
        self.readWords(into: &notification)
        self.readPresentation(into: &notification)
        self.readDelivery(into: &notification)
        notification.liveActivity = self.liveActivity()
        notification.variants = self.variants()
        return notification
    }

    private mutating func readWords(into notification: inout Notification) {
        let texts: [(String, WritableKeyPath<Notification, String>)] = [
            ("title", \.title), ("subtitle", \.subtitle), ("body", \.body), ("title_loc_key", \.titleLocKey),
            ("subtitle_loc_key", \.subtitleLocKey), ("body_loc_key", \.bodyLocKey), ("launch_image", \.launchImage),
            ("image", \.image), ("category", \.category), ("thread_id", \.threadID), ("channel_id", \.channelID),
            ("tag", \.tag), ("click_action", \.clickAction), ("color", \.color), ("collapse_key", \.collapseKey),
            ("target_content_id", \.targetContentID), ("filter_criteria", \.filterCriteria),
            ("analytics_label", \.analyticsLabel),
        ]
        for (name, path) in texts { notification[keyPath: path] = self.reader.text(name) ?? "" }
        notification.titleLocArgs = self.reader.texts("title_loc_args") ?? []
        notification.subtitleLocArgs = self.reader.texts("subtitle_loc_args") ?? []
        notification.bodyLocArgs = self.reader.texts("body_loc_args") ?? []
        for member in (self.reader.object("data") ?? [:]).members {
            if let text = member.value.string {
                notification.data[member.name] = text
            } else {
                // The name comes from outside, and as a pointer it would need escapes (RFC 6901 §3).
                self.reader.note("data", "must hold strings only")
            }
        }
    }

    private mutating func readPresentation(into notification: inout Notification) {
        notification.kind = self.reader.word("kind", Notification.Kind.allCases, SnakeCase.name) ?? .alert
        if self.reader.has("sound") {
            var inner = MemberReader(self.reader.object("sound") ?? [:], at: "\(self.reader.pointer)/sound")
            notification.sound = Notification.Sound(
                name: inner.text("name") ?? "default",
                critical: inner.truth("critical") ?? false,
                volume: inner.double("volume"),
            )
            self.reader.take(inner.mistakes)
        }
        switch (self.reader.number("badge_set"), self.reader.number("badge_increment")) {
        case (let number?, nil): notification.badge = .set(number)
        case (nil, let number?): notification.badge = .increment(number)
        case (_?, _?): self.reader.note("badge_set", "and badge_increment exclude each other")
        case (nil, nil): break
        }
        notification.interruptionLevel = self.reader.word(
            "interruption_level",
            Notification.InterruptionLevel.allCases,
            SnakeCase.name,
        )
        notification.relevanceScore = self.reader.double("relevance_score")
        notification.contentAvailable = self.reader.truth("content_available") ?? false
        notification.mutableContent = self.reader.truth("mutable_content") ?? false
        let styles: [(String, WritableKeyPath<Notification, Notification.FCMStyle>)] = [
            ("android_style", \.androidStyle), ("fcm_apns_style", \.fcmAPNsStyle),
            ("fcm_webpush_style", \.fcmWebpushStyle),
        ]
        for (name, path) in styles {
            notification[keyPath: path] =
                self.reader.word(name, Notification.FCMStyle.allCases, SnakeCase.name) ?? .notification
        }
    }

    private mutating func readDelivery(into notification: inout Notification) {
        notification.priority = self.reader.word("priority", Notification.Priority.allCases, SnakeCase.name)
        let end = self.reader.time("expires_at_ms")
        var ttl: Int64?
        if let value = self.reader.value("ttl_ms") {
            ttl = value.int64
            if ttl.map({ $0 < 0 }) ?? true { self.reader.note("ttl_ms", "must be a whole number from 0") }
        }
        switch (end, ttl) {
        case (let end?, nil): notification.expiry = .at(end)
        case (nil, let ttl?): notification.expiry = .ttl(milliseconds: ttl)
        case (_?, _?): self.reader.note("ttl_ms", "and expires_at_ms exclude each other")
        case (nil, nil): break
        }
        notification.apnsJSON = self.reader.jsonText("apns_json") ?? ""
        notification.androidJSON = self.reader.jsonText("android_json") ?? ""
        notification.webpushJSON = self.reader.jsonText("webpush_json") ?? ""
        notification.fcmAPNsJSON = self.reader.jsonText("fcm_apns_json") ?? ""
    }

    private mutating func liveActivity() -> Notification.LiveActivity? {
        guard self.reader.has("live_activity"), let object = self.reader.object("live_activity") else { return nil }
        var inner = MemberReader(object, at: "\(self.reader.pointer)/live_activity")
        if !inner.has("event") { inner.note("event", "must be given") }
        let event = inner.word("event", Notification.LiveActivity.Event.allCases, SnakeCase.name)
        var activity = Notification.LiveActivity(event: event ?? .update)
        activity.contentStateJSON = inner.jsonText("content_state_json") ?? ""
        activity.attributesType = inner.text("attributes_type") ?? ""
        activity.attributesJSON = inner.jsonText("attributes_json") ?? ""
        activity.timestamp = inner.time("timestamp_ms")
        activity.staleAt = inner.time("stale_at_ms")
        activity.dismissAt = inner.time("dismiss_at_ms")
        activity.inputPushToken = inner.truth("input_push_token") ?? false
        activity.inputPushChannel = inner.text("input_push_channel") ?? ""
        activity.activityID = inner.text("activity_id") ?? ""
        self.reader.take(inner.mistakes)
        return activity
    }

    private mutating func variants() -> [Notification.LocaleVariant] {
        var variants: [Notification.LocaleVariant] = []
        for (index, object) in (self.reader.objects("variants") ?? []).enumerated() {
            var inner = MemberReader(object, at: "\(self.reader.pointer)/variants/\(index)")
            if !inner.has("locale") { inner.note("locale", "must be given") }
            var variant = Notification.LocaleVariant(locale: inner.text("locale") ?? "")
            variant.title = inner.text("title") ?? ""
            variant.subtitle = inner.text("subtitle") ?? ""
            variant.body = inner.text("body") ?? ""
            variant.image = inner.text("image") ?? ""
            variant.clickAction = inner.text("click_action") ?? ""
            self.reader.take(inner.mistakes)
            variants.append(variant)
        }
        return variants
    }
}
