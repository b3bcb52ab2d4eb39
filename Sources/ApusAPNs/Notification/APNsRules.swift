package import ApusMessages
internal import ApusProviders

/// Checks Apple's own rules for a notification, in addition to `NotificationRules`.
package enum APNsRules {
    /// The maximum bytes of a bundle id or MDM topic: our own limit, as APNs names none.
    static let topicBytesMax = 155

    /// Checks all rules. Sizes, and the effects of raw JSON on the payload, are checked at rendering.
    ///
    /// - Parameter isBroadcast: true for a channel: there a Live Activity may have every priority, on a device high and normal.
    package static func check(_ notification: Notification, isBroadcast: Bool = false) throws(Problem) {
        if let activity = notification.liveActivity {
            guard isBroadcast || notification.priority != .low else {
                throw Problem(.contradiction, "notification.priority", "must be high or normal for a Live Activity")
            }
            try Self.checkLiveActivity(activity, of: notification)
        }
        if notification.kind == .pushToTalk, let priority = notification.priority, priority != .high {
            throw Problem(.contradiction, "notification.priority", "must be high for push to talk")
        }
    }

    /// Checks that a bundle id can stand in the header `apns-topic` and cannot end its line.
    ///
    /// Source: https://developer.apple.com/documentation/bundleresources/information-property-list/cfbundleidentifier names letters, digits,
    /// hyphens and periods; an underscore, which older ids have, does no harm in a header.
    package static func checkBundleID(_ bundleID: String) throws(Problem) {
        let valid = bundleID.utf8.allSatisfy { byte in
            (0x61...0x7a).contains(byte | 0x20) || (0x30...0x39).contains(byte) || byte == 0x2d || byte == 0x2e
                || byte == 0x5f
        }
        guard valid, (1...Self.topicBytesMax).contains(bundleID.utf8.count) else {
            throw Problem(
                .invalid,
                "bundle_id",
                "must be 1 to \(Self.topicBytesMax) of the characters a-z, A-Z, 0-9, '.', '_' and '-'",
            )
        }
    }

    /// Source:
    /// https://developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications
    private static func checkLiveActivity(
        _ activity: Notification.LiveActivity,
        of notification: Notification,
    ) throws(Problem) {
        let field = "notification.live_activity"
        let starts = activity.event == .start
        if starts {
            guard !activity.attributesType.isEmpty else {
                throw Problem(.missing, "\(field).attributes_type", "is required to start a Live Activity")
            }
            guard !activity.attributesJSON.isEmpty else {
                throw Problem(.missing, "\(field).attributes_json", "is required to start a Live Activity")
            }
        }
        try Self.checkAlert(of: notification, isRequired: starts)
        guard !activity.contentStateJSON.isEmpty || activity.event == .end else {
            throw Problem(.missing, "\(field).content_state_json", "is required to start or update a Live Activity")
        }
        let startOnly: [(Bool, String)] = [
            (!activity.attributesType.isEmpty, "attributes_type"),
            (!activity.attributesJSON.isEmpty, "attributes_json"),
            (activity.inputPushToken, "input_push_token"), (!activity.inputPushChannel.isEmpty, "input_push_channel"),
        ]
        for (isSaid, name) in startOnly where isSaid && !starts {
            throw Problem(.contradiction, "\(field).\(name)", "is allowed only at the start of a Live Activity")
        }
        guard activity.dismissAt == nil || activity.event == .end else {
            throw Problem(.contradiction, "\(field).dismiss_at_ms", "is allowed only at the end of a Live Activity")
        }
        guard !(activity.inputPushToken && !activity.inputPushChannel.isEmpty) else {
            throw Problem(.contradiction, "\(field).input_push_channel", "excludes input_push_token")
        }
        _ = try FieldRules.jsonObject(activity.contentStateJSON, "\(field).content_state_json")
        _ = try FieldRules.jsonObject(activity.attributesJSON, "\(field).attributes_json")
        try FieldRules.length(activity.attributesType, "\(field).attributes_type", bytesMax: 256)
        if !activity.inputPushChannel.isEmpty {
            _ = try APNsChannelID(activity.inputPushChannel, field: "\(field).input_push_channel")
        }
    }

    /// Checks a Live Activity's alert, which has a title and a body; its sound stands within it, as a name.
    private static func checkAlert(of notification: Notification, isRequired: Bool) throws(Problem) {
        let hasWords =
            !notification.title.isEmpty || !notification.body.isEmpty || !notification.titleLocKey.isEmpty
            || !notification.bodyLocKey.isEmpty
        guard hasWords || !isRequired else {
            throw Problem(.missing, "notification.title", "or a body is required to start a Live Activity")
        }
        guard let sound = notification.sound else { return }
        guard hasWords else {
            throw Problem(.missing, "notification.title", "or a body is required with a Live Activity's sound")
        }
        guard !sound.critical else {
            throw Problem(.contradiction, "notification.sound.critical", "is for alerts, not for Live Activities")
        }
    }
}
