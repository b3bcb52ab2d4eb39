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

    private static func count(keysAndValuesOf object: JSONObject) -> Int {
        object.members.reduce(0) { sum, member in
            sum + member.name.utf8.count + (member.value.string?.utf8.count ?? member.value.bytes.count)
        }
    }
}
