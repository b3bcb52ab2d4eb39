internal import ApusCore

/// Checks payloads by push type. Apple accepts many wrong ones and shows nothing; here they are errors, so that a test finds them.
///
/// Source: https://developer.apple.com/documentation/usernotifications/generating-a-remote-notification,
/// https://developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications
enum APNsPayloadRules {
    private static func mismatch(_ sentence: String) -> APNsRefusal { APNsRefusal(.invalidPushType, sentence) }

    /// Checks a body of `type`. Apple has no reason for a body that is not JSON: `PayloadEmpty` is the nearest.
    ///
    /// - Parameter bytesMax: the maximum bytes; nil for the type's own limit.
    static func check(_ body: [UInt8], type: APNsPushType, bytesMax: Int? = nil) throws(APNsRefusal) {
        guard !body.isEmpty else { throw APNsRefusal(.payloadEmpty, "no body") }
        let bytesMax = bytesMax ?? type.payloadBytesMax
        guard body.count <= bytesMax else {
            throw APNsRefusal(.payloadTooLarge, "\(body.count) bytes, at most \(bytesMax) are allowed")
        }
        let payload: JSONValue
        do throws(JSONError) {
            payload = try JSONValue(parsing: body, bytesMax: body.count, depthMax: SimulatorLimits.payloadDepthMax)
        } catch {
            throw APNsRefusal(.payloadEmpty, "the body is not JSON: \(error)")
        }
        guard payload.object != nil else { throw APNsRefusal(.payloadEmpty, "the body is not a JSON object") }
        guard type != .mdm else {
            guard payload["mdm"] != nil else { throw APNsRefusal(.payloadEmpty, "no mdm member") }
            return
        }
        guard let aps = payload["aps"], aps.object != nil else {
            throw APNsRefusal(.payloadEmpty, "no aps object")
        }
        try Self.checkForms(aps)
        switch type {
        case .alert: try Self.checkAlert(aps)
        case .background: try Self.checkBackground(aps)
        case .liveactivity: try Self.checkLiveActivity(aps)
        default: break
        }
    }

    private static func checkAlert(_ aps: JSONValue) throws(APNsRefusal) {
        guard aps["alert"] != nil || aps["badge"] != nil || aps["sound"] != nil else {
            throw Self.mismatch("push type alert without alert, badge or sound")
        }
    }

    private static func checkBackground(_ aps: JSONValue) throws(APNsRefusal) {
        guard aps["content-available"]?.int64 == 1 else {
            throw Self.mismatch("push type background without content-available: 1")
        }
        guard aps["alert"] == nil, aps["badge"] == nil, aps["sound"] == nil else {
            throw Self.mismatch("push type background with alert, badge or sound")
        }
    }

    private static func checkLiveActivity(_ aps: JSONValue) throws(APNsRefusal) {
        guard aps["timestamp"]?.int64 != nil else { throw Self.mismatch("a Live Activity needs a timestamp") }
        guard let event = aps["event"]?.string, ["start", "update", "end"].contains(event) else {
            throw Self.mismatch("a Live Activity's event is start, update or end")
        }
        guard event == "end" || aps["content-state"]?.object != nil else {
            throw Self.mismatch("a Live Activity needs a content-state")
        }
        guard event == "start" else { return }
        guard aps["attributes-type"]?.string != nil, aps["attributes"]?.object != nil,
            aps["alert"].map(Self.hasText) ?? false
        else {
            throw Self.mismatch("a Live Activity starts with attributes-type, attributes and an alert with words")
        }
    }

    /// Returns true when an alert is a text, or has a title or a body, each a text or the key of a localized one.
    private static func hasText(_ alert: JSONValue) -> Bool {
        [alert, alert["title"], alert["body"]].contains { text in
            text?.string?.isEmpty == false || text?["loc-key"]?.string?.isEmpty == false
        }
    }

    /// Checks the types of the members that every push type shares; others are ignored, as devices do.
    private static func checkForms(_ aps: JSONValue) throws(APNsRefusal) {
        for member in aps.object?.members ?? [] {
            let value = member.value
            let fits: Bool
            switch member.name {
            case "alert": fits = value.string != nil || value.object.map(Self.isAlert) ?? false
            case "sound": fits = value.string != nil || value.object != nil
            case "badge": fits = value.int64.map { $0 >= 0 } ?? false
            case "content-available", "mutable-content", "input-push-token": fits = value.int64 != nil
            case "thread-id", "category", "target-content-id", "filter-criteria", "event", "attributes-type":
                fits = value.string != nil
            case "interruption-level":
                fits = ["passive", "active", "time-sensitive", "critical"].contains(value.string)
            case "relevance-score": fits = value.double != nil
            case "timestamp", "stale-date", "dismissal-date": fits = value.double != nil
            case "content-state", "attributes": fits = value.object != nil
            default: fits = true
            }
            guard fits else { throw Self.mismatch("aps.\(member.name) has the wrong form") }
        }
    }

    /// Returns true when texts are strings (objects in Live Activities), arguments arrays, and no arguments come without their key.
    private static func isAlert(_ alert: JSONObject) -> Bool {
        for name in ["loc-key", "title-loc-key", "subtitle-loc-key", "launch-image"] {
            if let value = alert[name], value.string == nil { return false }
        }
        for name in ["title", "subtitle", "body"] {
            if let value = alert[name], value.string == nil, value.object == nil { return false }
        }
        for prefix in ["", "title-", "subtitle-"] {
            guard let arguments = alert["\(prefix)loc-args"] else { continue }
            guard let array = arguments.array, array.allSatisfy({ $0.string != nil }) else { return false }
            guard alert["\(prefix)loc-key"] != nil else { return false }
        }
        return true
    }
}
