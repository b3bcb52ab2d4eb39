internal import ApusAPNs
internal import ApusCore
package import ApusMessages
internal import ApusProviders

/// Checks FCM's `apns` block, `ApnsConfig`: the members of `fcm_apns_json`, and the block after the merge.
///
/// FCM passes the headers on unchanged and answers a message that Apple refuses like one with a dead token, so
/// everything that Apple would refuse is refused here. Sources:
/// https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages#apnsconfig,
/// https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
package enum FCMAPNsRules {
    /// The members of the block.
    static let members = ["headers", "payload", "fcm_options", "live_activity_token"]

    /// Checks the recipients of a Live Activity's token: it belongs to one activity on one device, and beside any other
    /// device's token it would change that activity again.
    /// Source: https://firebase.google.com/docs/cloud-messaging/customize-messages/live-activity
    package static func checkRecipients(_ notification: Notification, of target: Target) throws(Problem) {
        guard let block = try FieldRules.jsonObject(notification.fcmAPNsJSON, Self.field),
            block["live_activity_token"]?.isNull == false
        else { return }
        let isOne: Bool =
            switch target {
            case .addresses(let addresses):
                addresses.indicesWithoutRepeats.count { addresses[$0].provider == .fcm } == 1
            case .devices(let ids): ids.count == 1
            // A user may have several devices, and an audience many.
            case .users, .topic, .condition, .expression, .everyone, .fcmTopic, .fcmCondition, .fcmGroup, .apnsChannel:
                false
            }
        guard isOne else {
            throw Problem(
                .contradiction,
                "\(Self.field).live_activity_token",
                "belongs to one device: send it to exactly one address of FCM or one device",
            )
        }
    }

    /// Checks the names in the publisher's own JSON.
    static func checkNames(_ block: JSONObject) throws(Problem) {
        for member in block.members where !Self.members.contains(member.name) {
            throw Problem(
                .invalid,
                FieldRules.path(Self.field, member.name),
                "is not a member of FCM's apns, whose members are \(Self.members.joined(separator: ", "))",
            )
        }
    }

    /// Checks the finished block.
    ///
    /// - Parameter isSilent: true when the block was rendered for a push that shows nothing.
    static func checkFinished(_ apns: JSONObject, isSilent: Bool) throws(Problem) {
        let headers = try Self.object(apns["headers"], "\(Self.field).headers")
        for header in headers?.members ?? [] { try Self.checkHeader(header.name, header.value) }
        let payload = try Self.object(apns["payload"], "\(Self.field).payload")
        let pushType = headers?["apns-push-type"]?.string ?? (isSilent ? APNsPushType.background.rawValue : nil)
        if pushType == APNsPushType.background.rawValue {
            try Self.checkSilent(priority: headers?["apns-priority"]?.string, payload)
        }
        if let token = apns["live_activity_token"] { try Self.checkToken(token, pushType: pushType, payload) }
        guard let options = try Self.object(apns["fcm_options"], "\(Self.field).fcm_options") else { return }
        for option in options.members where !["analytics_label", "image"].contains(option.name) {
            throw Problem(
                .invalid,
                FieldRules.path("\(Self.field).fcm_options", option.name),
                "is not an option of FCM's apns, whose options are analytics_label and image",
            )
        }
        try FCMRules.checkLabel(options["analytics_label"], "\(Self.field).fcm_options.analytics_label")
        if let image = options["image"] {
            try FieldRules.link(image.string ?? "", "\(Self.field).fcm_options.image")
        }
    }

    private static let field = "notification.fcm_apns_json"

    private static func object(_ value: JSONValue?, _ field: String) throws(Problem) -> JSONObject? {
        guard let value else { return nil }
        guard let object = value.object else { throw Problem(.invalid, field, "must be a JSON object") }
        return object
    }

    /// Checks a header "apns-*" that FCM passes to Apple, with its name in lower case as HTTP/2 requires. FCM accepts
    /// only strings as values.
    private static func checkHeader(_ name: String, _ value: JSONValue) throws(Problem) {
        let field = FieldRules.path("\(Self.field).headers", name)
        let isName = name.utf8.allSatisfy { (0x61...0x7a).contains($0) || $0 == 0x2d }
        guard isName, name.hasPrefix("apns-"), name.utf8.count > 5 else {
            throw Problem(.invalid, field, "must be one of Apple's headers, in lower case: apns-priority and the like")
        }
        guard let text = value.string else { throw Problem(.invalid, field, "must be a string, as in \"10\"") }
        switch name {
        case "apns-priority":
            guard APNsPriority.allCases.contains(where: { String($0.rawValue) == text }) else {
                throw Problem(.invalid, field, "must be \"10\", \"5\" or \"1\"")
            }
        case "apns-push-type":
            guard APNsPushType(rawValue: text) != nil else {
                let words = APNsPushType.allCases.map(\.rawValue).joined(separator: ", ")
                throw Problem(.invalid, field, "must be one of \(words)")
            }
        case "apns-expiration":
            guard (1...10).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
                throw Problem(.invalid, field, "must be seconds since 1970, or \"0\" for one attempt")
            }
        case "apns-collapse-id":
            guard !text.isEmpty else { throw Problem(.invalid, field, "must not be empty: use null to omit it") }
            try FieldRules.collapseKey(text, field)
        default:
            try FieldRules.length(text, field, bytesMax: Limits.nameBytesMax)
            guard text.utf8.allSatisfy({ (0x20...0x7e).contains($0) }) else {
                throw Problem(.invalid, field, "must be visible ASCII characters")
            }
        }
    }

    /// Checks the payload of a background push. Apple: its priority is 5, another is an error, and `aps` holds nothing
    /// but `content-available`. Without the header FCM uses 10.
    /// Source: https://developer.apple.com/documentation/usernotifications/pushing-background-updates-to-your-app
    private static func checkSilent(priority: String?, _ payload: JSONObject?) throws(Problem) {
        guard priority == "5" else {
            throw Problem(
                .contradiction,
                "\(Self.field).headers[apns-priority]",
                "must be \"5\" for a background push",
            )
        }
        for member in payload?["aps"]?.object?.members ?? [] where member.name != "content-available" {
            throw Problem(
                .contradiction,
                "\(Self.field).payload.aps.\(ProviderText.cleaned(member.name).clipped(toBytes: 64))",
                "cannot be used here: a background push has content-available alone",
            )
        }
    }

    /// Source:
    /// https://developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications
    private static func checkToken(
        _ token: JSONValue,
        pushType: String?,
        _ payload: JSONObject?,
    ) throws(Problem) {
        let field = "\(Self.field).live_activity_token"
        guard let text = token.string, (1...Limits.tokenBytesMax).contains(text.utf8.count),
            text.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
        else { throw Problem(.invalid, field, "must be a Live Activity's token, as the app received it from Apple") }
        guard pushType == nil || pushType == APNsPushType.liveactivity.rawValue else {
            throw Problem(
                .contradiction,
                "\(Self.field).headers[apns-push-type]",
                "must be liveactivity beside live_activity_token",
            )
        }
        guard ["start", "update", "end"].contains(payload?["aps"]?["event"]?.string) else {
            throw Problem(
                .missing,
                "\(Self.field).payload.aps.event",
                "must be start, update or end beside live_activity_token",
            )
        }
    }
}
