package import ApusCore
package import ApusMessages
internal import ApusProviders

/// Builds the `aps` object.
///
/// Source: https://developer.apple.com/documentation/usernotifications/generating-a-remote-notification
package enum APNsPayload {
    /// Returns true when the notification has a text to show.
    package static func hasAlert(_ notification: Notification) -> Bool {
        !notification.title.isEmpty || !notification.subtitle.isEmpty || !notification.body.isEmpty
            || !notification.titleLocKey.isEmpty || !notification.subtitleLocKey.isEmpty
            || !notification.bodyLocKey.isEmpty
    }

    /// Returns the `aps` object of a notification.
    ///
    /// - Parameters:
    ///   - dueAt: the date of a Live Activity's change when the publisher gives none.
    ///   - withAlert: false to omit the texts (FCM fills them in).
    package static func aps(
        _ notification: Notification,
        dueAt: UnixMilliseconds,
        withAlert: Bool = true
    ) throws(Problem) -> JSONObject {
        switch notification.kind {
        case .background: return ["content-available": 1]
        case .widgets, .controls: return ["content-changed": true]
        case .liveActivity: return try Self.liveActivity(notification, dueAt: dueAt)
        case .alert, .voip, .complication, .fileProvider, .mdm, .location, .pushToTalk: break
        }
        var aps: JSONObject = [:]
        if withAlert, Self.hasAlert(notification) { aps["alert"] = .object(Self.alert(notification)) }
        switch notification.badge {
        case .set(let number): aps["badge"] = .integer(number)
        // The device's badge is written here at sending; until then the longest number stands for it.
        case .increment: aps["badge"] = .integer(Limits.badgeMax)
        case nil: break
        }
        if let sound = notification.sound { aps["sound"] = Self.sound(sound) }
        if !notification.threadID.isEmpty { aps["thread-id"] = .string(notification.threadID) }
        if !notification.category.isEmpty { aps["category"] = .string(notification.category) }
        if notification.contentAvailable { aps["content-available"] = 1 }
        if notification.mutableContent || !notification.image.isEmpty { aps["mutable-content"] = 1 }
        if !notification.targetContentID.isEmpty { aps["target-content-id"] = .string(notification.targetContentID) }
        if let level = notification.interruptionLevel { aps["interruption-level"] = .string(Self.word(level)) }
        if let score = notification.relevanceScore { aps["relevance-score"] = Self.number(score) }
        if !notification.filterCriteria.isEmpty { aps["filter-criteria"] = .string(notification.filterCriteria) }
        return aps
    }

    private static func alert(_ notification: Notification) -> JSONObject {
        var alert: JSONObject = [:]
        if !notification.title.isEmpty { alert["title"] = .string(notification.title) }
        if !notification.subtitle.isEmpty { alert["subtitle"] = .string(notification.subtitle) }
        if !notification.body.isEmpty { alert["body"] = .string(notification.body) }
        Self.add(key: notification.titleLocKey, arguments: notification.titleLocArgs, as: "title-loc", to: &alert)
        Self.add(
            key: notification.subtitleLocKey,
            arguments: notification.subtitleLocArgs,
            as: "subtitle-loc",
            to: &alert
        )
        Self.add(key: notification.bodyLocKey, arguments: notification.bodyLocArgs, as: "loc", to: &alert)
        if !notification.launchImage.isEmpty { alert["launch-image"] = .string(notification.launchImage) }
        return alert
    }

    private static func add(key: String, arguments: [String], as name: String, to alert: inout JSONObject) {
        guard !key.isEmpty else { return }
        alert["\(name)-key"] = .string(key)
        if !arguments.isEmpty { alert["\(name)-args"] = .array(arguments.map { .string($0) }) }
    }

    private static func sound(_ sound: Notification.Sound) -> JSONValue {
        guard sound.critical else { return .string(sound.name) }
        var object: JSONObject = ["critical": 1, "name": .string(sound.name)]
        if let volume = sound.volume { object["volume"] = Self.number(volume) }
        return .object(object)
    }

    private static func word(_ level: Notification.InterruptionLevel) -> String {
        switch level {
        case .passive: "passive"
        case .active: "active"
        case .timeSensitive: "time-sensitive"
        case .critical: "critical"
        }
    }

    /// Returns a finite number; the rules refuse any other.
    private static func number(_ value: Double) -> JSONValue { JSONNumber(value).map { .number($0) } ?? 0 }

    /// Source:
    /// https://developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications
    private static func liveActivity(
        _ notification: Notification,
        dueAt: UnixMilliseconds,
    ) throws(Problem) -> JSONObject {
        guard let activity = notification.liveActivity else { preconditionFailure("a Live Activity has content") }
        let field = "notification.live_activity"
        var aps: JSONObject = [
            "timestamp": .integer((activity.timestamp ?? dueAt).seconds),
            "event": .string(Self.word(activity.event)),
        ]
        if let state = try FieldRules.jsonObject(activity.contentStateJSON, "\(field).content_state_json") {
            aps["content-state"] = .object(state)
        }
        if let time = activity.staleAt { aps["stale-date"] = .integer(time.seconds) }
        if let time = activity.dismissAt { aps["dismissal-date"] = .integer(time.seconds) }
        if !activity.attributesType.isEmpty { aps["attributes-type"] = .string(activity.attributesType) }
        if let attributes = try FieldRules.jsonObject(activity.attributesJSON, "\(field).attributes_json") {
            aps["attributes"] = .object(attributes)
        }
        if activity.inputPushToken { aps["input-push-token"] = 1 }
        if !activity.inputPushChannel.isEmpty { aps["input-push-channel"] = .string(activity.inputPushChannel) }
        if Self.hasAlert(notification) { aps["alert"] = .object(Self.liveActivityAlert(notification)) }
        if let score = notification.relevanceScore { aps["relevance-score"] = Self.number(score) }
        return aps
    }

    /// Returns the alert of a Live Activity: a localised text is an object in the text's place, and the sound stands within the alert.
    private static func liveActivityAlert(_ notification: Notification) -> JSONObject {
        var alert: JSONObject = [:]
        let title = Self.localized(
            notification.title,
            key: notification.titleLocKey,
            arguments: notification.titleLocArgs
        )
        let body = Self.localized(notification.body, key: notification.bodyLocKey, arguments: notification.bodyLocArgs)
        if let title { alert["title"] = title }
        if let body { alert["body"] = body }
        if let sound = notification.sound { alert["sound"] = .string(sound.name) }
        return alert
    }

    private static func localized(_ text: String, key: String, arguments: [String]) -> JSONValue? {
        guard key.isEmpty else {
            return ["loc-key": .string(key), "loc-args": .array(arguments.map { .string($0) })]
        }
        return text.isEmpty ? nil : .string(text)
    }

    private static func word(_ event: Notification.LiveActivity.Event) -> String {
        switch event {
        case .start: "start"
        case .update: "update"
        case .end: "end"
        }
    }
}
