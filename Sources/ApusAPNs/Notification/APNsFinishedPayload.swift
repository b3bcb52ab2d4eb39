package import ApusCore
package import ApusMessages
internal import ApusProviders

/// Checks an APNs payload after the publisher's own JSON has been merged in: the rules for the notification's members
/// apply again to the result.
///
/// Source: https://developer.apple.com/documentation/usernotifications/generating-a-remote-notification,
/// https://developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications
package enum APNsFinishedPayload {
    /// Checks a payload.
    ///
    /// - Parameter isBroadcast: true for a payload to a channel, which cannot start a Live Activity.
    static func check(
        _ payload: JSONObject,
        of notification: Notification,
        isBroadcast: Bool,
    ) throws(Problem) {
        if notification.kind == .mdm { return try Self.checkManagement(payload) }
        guard let aps = payload["aps"]?.object else { throw Self.contradiction("must keep aps an object") }
        switch notification.kind {
        case .alert:
            guard aps["alert"] != nil || aps["badge"] != nil || aps["sound"] != nil else {
                throw Problem(
                    .missing,
                    "notification.title",
                    "is required for an alert, or a body, a badge or a sound; data alone is sent with the kind background"
                )
            }
        case .background: try Self.checkSilent(aps)
        case .liveActivity: try Self.checkLiveActivity(aps, isBroadcast: isBroadcast)
        case .voip, .complication, .fileProvider, .mdm, .location, .pushToTalk, .widgets, .controls: break
        }
    }

    /// Checks the `aps` of a push of type `background`: it holds `content-available` alone.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/pushing-background-updates-to-your-app
    package static func checkSilent(_ aps: JSONObject) throws(Problem) {
        guard aps.count == 1, aps["content-available"]?.int64 == 1 else {
            throw Self.contradiction(
                "must keep content-available 1 as the only member of aps in a background notification"
            )
        }
    }

    /// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
    private static func checkManagement(_ payload: JSONObject) throws(Problem) {
        guard payload["mdm"]?.string != nil else {
            throw Problem(.missing, "notification.data[mdm]", "is required for device management")
        }
        guard payload.count == 1 else {
            throw Self.contradiction("must add nothing to mdm: it is all that device management takes")
        }
    }

    private static func checkLiveActivity(_ aps: JSONObject, isBroadcast: Bool) throws(Problem) {
        guard aps["timestamp"]?.int64 != nil else {
            throw Self.contradiction("must keep a Live Activity's timestamp whole seconds since 1970")
        }
        let event = aps["event"]?.string
        guard let event, ["start", "update", "end"].contains(event) else {
            throw Self.contradiction("must keep a Live Activity's event start, update or end")
        }
        guard !(isBroadcast && event == "start") else {
            throw Self.contradiction("must keep the event update or end: a channel cannot start a Live Activity")
        }
        guard event == "end" || aps["content-state"]?.object != nil else {
            throw Self.contradiction("must keep a Live Activity's content-state an object")
        }
        guard aps["alert"].map(Self.hasText) ?? true else {
            throw Self.contradiction("must keep a Live Activity's alert a title or a body")
        }
        guard event == "start" else { return try Self.checkChange(aps, event: event) }
        guard aps["attributes-type"]?.string?.isEmpty == false, aps["attributes"]?.object != nil, aps["alert"] != nil
        else {
            throw Self.contradiction("must keep the attributes-type, attributes and alert that start a Live Activity")
        }
        guard let channel = aps["input-push-channel"] else { return }
        guard aps["input-push-token"] == nil else {
            throw Self.contradiction("must keep only one of input-push-token and input-push-channel")
        }
        _ = try APNsChannelID(channel.string ?? "", field: "notification.apns_json.aps.input-push-channel")
    }

    /// Checks an update or an end: it holds no member of a start, and only an end has a dismissal date.
    private static func checkChange(_ aps: JSONObject, event: String) throws(Problem) {
        let misplaced =
            ["attributes-type", "attributes", "input-push-token", "input-push-channel"]
            + (event == "end" ? [] : ["dismissal-date"])
        for name in misplaced where aps[name] != nil {
            throw Self.contradiction("must not have \(name) in a Live Activity's \(event)")
        }
    }

    /// Returns true for a text, or for an object with a title or a body that is a text or a localised one.
    private static func hasText(_ alert: JSONValue) -> Bool {
        [alert, alert["title"], alert["body"]].contains { text in
            text?.string?.isEmpty == false || text?["loc-key"]?.string?.isEmpty == false
        }
    }

    private static func contradiction(_ rule: String) -> Problem {
        Problem(.contradiction, "notification.apns_json", rule)
    }
}
