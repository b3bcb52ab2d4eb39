internal import ApusCore

/// Computes the bytes that FCM counts against its limit.
///
/// "This includes both the keys and the values" of the payload, not the JSON around them: data and the shown members
/// together, as each platform receives them. Source: https://firebase.google.com/docs/cloud-messaging/error-codes
enum FCMPayloadSize {
    /// Returns the bytes of the larger of Android's and browsers' payloads.
    static func count(_ message: JSONObject) -> Int {
        ["android", "webpush"].map { platform in
            let block = message[platform]
            let data = block?["data"]?.object ?? message["data"]?.object ?? [:]
            var shown = message["notification"]?.object ?? [:]
            for member in block?["notification"]?.object?.members ?? [] { shown[member.name] = member.value }
            return Self.count(keysAndValuesOf: data) + Self.count(keysAndValuesOf: shown)
        }.max() ?? 0
    }

    /// Returns the bytes of the JSON that FCM makes for Apple of a message that is shown: the payload of `apns`, the texts of the message's
    /// own `notification` unless the payload holds an alert, and its `data` beside them.
    ///
    /// A message that wakes an app without showing anything has no texts: its data is counted for Android alone, and Apple's answer decides.
    /// Source: https://firebase.google.com/docs/cloud-messaging/customize-messages/cross-platform
    static func countForApple(_ message: JSONObject) -> Int {
        guard let apns = message["apns"] else { return 0 }
        var payload = apns["payload"]?.object ?? [:]
        var aps = payload["aps"]?.object ?? [:]
        var alert: JSONObject = [:]
        for name in ["title", "body"] { alert[name] = message["notification"]?[name] }
        if aps["alert"] == nil, !alert.isEmpty { aps["alert"] = .object(alert) }
        guard aps["alert"] != nil else { return payload.isEmpty ? 0 : JSONValue.object(payload).bytes.count }
        payload["aps"] = .object(aps)
        for entry in message["data"]?.object?.members ?? [] where payload[entry.name] == nil {
            payload[entry.name] = entry.value
        }
        return JSONValue.object(payload).bytes.count
    }

    private static func count(keysAndValuesOf object: JSONObject) -> Int {
        object.members.reduce(0) { sum, member in
            sum + member.name.utf8.count + (member.value.string?.utf8.count ?? member.value.bytes.count)
        }
    }
}
