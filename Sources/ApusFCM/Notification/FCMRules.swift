internal import ApusAPNs
internal import ApusCore
package import ApusMessages
internal import ApusProviders

/// Checks FCM's own rules for a notification, in addition to `NotificationRules`.
///
/// Source: https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages
package enum FCMRules {
    /// The maximum milliseconds for which FCM stores a message: four weeks.
    package static let timeToLiveMillisecondsMax: Int64 = 2_419_200_000
    /// The data keys that FCM reserves. The reference, the error page and the discovery document name different ones: this is their union.
    static let reservedDataKeys: Set<String> = ["from", "message_type"]
    /// The prefixes that no data key may have.
    static let reservedDataKeyPrefixes = ["google", "gcm"]

    /// Checks all rules. Sizes, and the effects of raw JSON on the message, are checked at rendering.
    package static func check(_ notification: Notification, target: FCMTarget) throws(Problem) {
        if case .increment = notification.badge, target.isAudience {
            throw Problem(
                .unsupported,
                "notification.badge_increment",
                "is counted per device; FCM holds this audience"
            )
        }
        guard notification.variants.isEmpty || !target.isAudience else {
            throw Problem(.unsupported, "notification.variants", "are chosen per device; FCM holds this audience")
        }
        switch notification.kind {
        case .alert, .background, .voip: break
        case .complication, .fileProvider, .mdm, .location, .liveActivity, .pushToTalk, .widgets, .controls:
            throw Problem(
                .unsupported,
                "notification.kind",
                "is for Apple only; FCM supports alert, background and voip"
            )
        }
        guard notification.kind != .voip || notification.fcmAPNsJSON.isEmpty else {
            throw Problem(
                .contradiction,
                "notification.fcm_apns_json",
                "cannot be used with a call: Apple accepts calls only at a PushKit token, which FCM does not have",
            )
        }
        for key in notification.data.keys.sorted() {
            try Self.checkDataKey(key, FieldRules.path("notification.data", key))
        }
        if case .ttl(let milliseconds) = notification.expiry {
            guard milliseconds <= Self.timeToLiveMillisecondsMax else {
                throw Problem(.invalid, "notification.ttl_ms", "must be at most \(Self.timeToLiveMillisecondsMax)")
            }
        }
        if !notification.analyticsLabel.isEmpty {
            try FieldRules.analyticsLabel(notification.analyticsLabel, "notification.analytics_label")
        }
    }

    /// Checks that FCM does not reserve a data key.
    static func checkDataKey(_ key: String, _ field: String) throws(Problem) {
        let isReserved =
            Self.reservedDataKeys.contains(key) || Self.reservedDataKeyPrefixes.contains { key.hasPrefix($0) }
        guard !isReserved else { throw Problem(.reserved, field, "is reserved by FCM") }
    }

    /// Checks `android` and `webpush` after the publisher's own JSON has been merged in.
    static func checkFinished(android: JSONObject?, webpush: JSONObject?) throws(Problem) {
        if let android { try Self.checkAndroid(android) }
        if let webpush {
            let field = "notification.webpush_json"
            try Self.checkData(webpush["data"], "\(field).data")
            for header in webpush["headers"]?.object?.members ?? [] where header.value.string == nil {
                throw Problem(.invalid, FieldRules.path("\(field).headers", header.name), "must be a string")
            }
            if let link = webpush["fcm_options"]?["link"] {
                guard let text = link.string else {
                    throw Problem(.invalid, "\(field).fcm_options.link", "must be a string")
                }
                try FieldRules.link(text, "\(field).fcm_options.link")
            }
            try Self.checkLabel(webpush["fcm_options"]?["analytics_label"], "\(field).fcm_options.analytics_label")
        }
    }

    /// Checks a label in the publisher's own JSON.
    static func checkLabel(_ label: JSONValue?, _ field: @autoclosure () -> String) throws(Problem) {
        guard let label else { return }
        try FieldRules.analyticsLabel(label.string ?? "", field())
    }

    private static func checkAndroid(_ android: JSONObject) throws(Problem) {
        let field = "notification.android_json"
        try Self.checkLabel(android["fcm_options"]?["analytics_label"], "\(field).fcm_options.analytics_label")
        try Self.checkData(android["data"], "\(field).data")
        if let ttl = android["ttl"] { try Self.checkDuration(ttl, "\(field).ttl") }
        if let priority = android["priority"] {
            guard ["NORMAL", "HIGH"].contains(priority.string?.uppercased()) else {
                throw Problem(.invalid, "\(field).priority", "must be NORMAL or HIGH")
            }
        }
        guard let shown = android["notification"] else { return }
        guard let shown = shown.object else {
            throw Problem(.invalid, "\(field).notification", "must be a JSON object")
        }
        if let color = shown["color"] { try FieldRules.color(color.string ?? "", "\(field).notification.color") }
        for name in ["title", "body"] where shown["\(name)_loc_args"] != nil && shown["\(name)_loc_key"] == nil {
            throw Problem(
                .missing,
                "\(field).notification.\(name)_loc_key",
                "is required with \(name)_loc_args",
            )
        }
    }

    /// Checks that all values of data are strings, which is all that FCM accepts.
    private static func checkData(_ data: JSONValue?, _ field: String) throws(Problem) {
        guard let data else { return }
        guard let entries = data.object else { throw Problem(.invalid, field, "must be a JSON object") }
        for entry in entries.members {
            guard entry.value.string != nil else {
                throw Problem(.invalid, FieldRules.path(field, entry.name), "must be a string")
            }
            try Self.checkDataKey(entry.name, FieldRules.path(field, entry.name))
        }
    }

    /// Checks a time to live.
    private static func checkDuration(_ value: JSONValue, _ field: String) throws(Problem) {
        guard let duration = value.string.flatMap({ GoogleDuration.parts($0) }) else {
            throw Problem(.invalid, field, "must be a duration such as 3.5s")
        }
        let secondsMax = Self.timeToLiveMillisecondsMax / 1_000
        guard duration.seconds < secondsMax || duration == (secondsMax, 0) else {
            throw Problem(.invalid, field, "must be at most \(secondsMax)s")
        }
    }
}

extension FieldRules {
    /// The maximum bytes of FCM's analytics label.
    static let analyticsLabelBytesMax = 50

    /// Checks FCM's label: `[a-zA-Z0-9-_.~%]{1,50}`.
    package static func analyticsLabel(_ label: String, _ field: String) throws(Problem) {
        let known: Set<UInt8> = Set("-_.~%".utf8)
        let valid = label.utf8.allSatisfy { byte in
            (0x61...0x7a).contains(byte | 0x20) || (0x30...0x39).contains(byte) || known.contains(byte)
        }
        guard valid, (1...Self.analyticsLabelBytesMax).contains(label.utf8.count) else {
            throw Problem(
                .invalid,
                field,
                "must be 1 to \(Self.analyticsLabelBytesMax) of the characters a-z, A-Z, 0-9, '-', '_', '.', '~' and '%'",
            )
        }
    }
}
