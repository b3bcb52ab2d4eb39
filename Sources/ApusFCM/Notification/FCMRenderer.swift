internal import ApusAPNs
internal import ApusCore
package import ApusMessages
package import ApusProviders

/// Renders a notification for FCM, once per language.
///
/// One message serves a token of any platform: FCM selects the part that the app instance understands.
package enum FCMRenderer {
    /// Checks every rule and renders every language.
    ///
    /// `android_json`, `apns_json` and `webpush_json` are merged last (RFC 7396) into `android`, into the payload of
    /// `apns`, and into `webpush`; `fcm_apns_json` is merged into `apns` after that. Sizes are checked on the finished
    /// message.
    ///
    /// - Parameter validateOnly: when true, FCM checks everything and delivers nothing.
    package static func render(
        _ notification: Notification,
        target: FCMTarget,
        context: RenderContext,
        validateOnly: Bool = false,
    ) throws(Problem) -> RenderedNotification<RenderedFCMMessage> {
        try NotificationRules.check(notification, isAccepted: context.isAccepted)
        try FCMRules.check(notification, target: target)
        let overrides = try Overrides(notification)
        let base = try Self.message(
            notification,
            target: target,
            overrides: overrides,
            context: context,
            validateOnly: validateOnly,
            field: "notification",
        )
        var others: [(locale: String, message: RenderedFCMMessage)] = []
        for (index, variant) in notification.variants.enumerated() {
            let message = try Self.message(
                notification.replacingTexts(by: variant),
                target: target,
                overrides: overrides,
                context: context,
                validateOnly: validateOnly,
                field: "notification.variants[\(index)]",
            )
            others.append((variant.locale, message))
        }
        return RenderedNotification(base: base, others: others)
    }

    private struct Overrides {
        let android: JSONObject?
        let apns: JSONObject?
        let webpush: JSONObject?
        let apnsBlock: JSONObject?

        init(_ notification: Notification) throws(Problem) {
            self.android = try FieldRules.jsonObject(notification.androidJSON, "notification.android_json")
            self.apns = try FieldRules.jsonObject(notification.apnsJSON, "notification.apns_json")
            self.webpush = try FieldRules.jsonObject(notification.webpushJSON, "notification.webpush_json")
                .map(Self.fcmMembers)
            self.apnsBlock = try FieldRules.jsonObject(notification.fcmAPNsJSON, "notification.fcm_apns_json")
            if let block = self.apnsBlock { try FCMAPNsRules.checkNames(block) }
        }

        /// Returns the members that FCM has (https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages#webpushconfig). Others
        /// are for browsers that are reached without FCM, and FCM would refuse the whole message.
        private static func fcmMembers(_ webpush: JSONObject) -> JSONObject {
            var members: JSONObject = [:]
            for name in ["headers", "data", "notification", "fcm_options"] { members[name] = webpush[name] }
            return members
        }
    }

    private static func message(
        _ notification: Notification,
        target: FCMTarget,
        overrides: Overrides,
        context: RenderContext,
        validateOnly: Bool,
        field: String,
    ) throws(Problem) -> RenderedFCMMessage {
        let platforms = FCMPlatforms(notification, context: context)
        let android = Self.withSend(Self.merged(platforms.android, overrides.android), context)
        let webpush = Self.withSend(Self.merged(platforms.webpush, overrides.webpush), context)
        try FCMRules.checkFinished(android: android, webpush: webpush)
        let apns = try platforms.apns(override: overrides.apns, block: overrides.apnsBlock)

        var message: JSONObject = [target.memberName: Self.value(of: target)]
        message["data"] = .object(platforms.data)
        if let shared = platforms.shared { message["notification"] = .object(shared) }
        if let android { message["android"] = .object(android) }
        if let apns { message["apns"] = .object(apns) }
        if let webpush { message["webpush"] = .object(webpush) }
        if !notification.analyticsLabel.isEmpty {
            message["fcm_options"] = ["analytics_label": .string(notification.analyticsLabel)]
        }
        let payloadBytes = try Self.checkSize(message, target: target, field: field)

        var root: JSONObject = ["message": .object(message)]
        if validateOnly { root["validate_only"] = true }
        let places = Self.places(notification, target: target, overrides: overrides, message: message)
        return RenderedFCMMessage(
            target: target,
            body: RenderedBody(root, places: places),
            payloadBytes: payloadBytes,
        )
    }

    private static func value(of target: FCMTarget) -> JSONValue {
        switch target {
        case .token, .installation: ""
        case .topic(let name): .string(name.text)
        case .group(let key): .string(key)
        case .condition(let condition): .string(condition.text)
        }
    }

    private static func merged(_ object: JSONObject?, _ override: JSONObject?) -> JSONObject? {
        guard let override else { return object }
        var merged = JSONValue.object(object ?? [:])
        merged.merge(.object(override))
        return merged.object
    }

    /// Returns a platform's own block with the send's id: its data replaces the common data, which holds the id.
    private static func withSend(_ platform: JSONObject?, _ context: RenderContext) -> JSONObject? {
        guard var platform, var data = platform["data"]?.object else { return platform }
        data[RenderContext.sendDataKey] = .string(context.send.text)
        platform["data"] = .object(data)
        return platform
    }

    private static func checkSize(
        _ message: JSONObject,
        target: FCMTarget,
        field: String,
    ) throws(Problem) -> Int {
        let payloadBytes = FCMPayloadSize.count(message)
        guard payloadBytes <= target.payloadBytesMax else {
            throw Problem(
                .payloadTooLarge,
                field,
                "makes an FCM payload of \(payloadBytes) bytes; \(target.payloadBytesMax) are allowed",
            )
        }
        let apnsBytes = FCMPayloadSize.countForApple(message)
        let apnsBytesMax = APNsPushType.alert.payloadBytesMax
        guard apnsBytes <= apnsBytesMax else {
            throw Problem(
                .payloadTooLarge,
                field,
                "makes an APNs payload of \(apnsBytes) bytes; \(apnsBytesMax) are allowed",
            )
        }
        return payloadBytes
    }

    private static func places(
        _ notification: Notification,
        target: FCMTarget,
        overrides: Overrides,
        message: JSONObject,
    ) -> [RenderedBody.Place] {
        var places: [RenderedBody.Place] = []
        switch target {
        case .token, .installation: places.append(RenderedBody.Place(["message", target.memberName], .token))
        case .topic, .condition, .group: break
        }
        guard case .increment = notification.badge else { return places }
        let isOwn =
            overrides.apns?["aps"]?["badge"] != nil || overrides.apnsBlock?["payload"]?["aps"]?["badge"] != nil
        if !isOwn, message["apns"]?["payload"]?["aps"]?["badge"] != nil {
            places.append(RenderedBody.Place(["message", "apns", "payload", "aps", "badge"], .badge))
        }
        let isCounted = message["android"]?["notification"]?["notification_count"] != nil
        if isCounted, overrides.android?["notification"]?["notification_count"] == nil {
            places.append(RenderedBody.Place(["message", "android", "notification", "notification_count"], .badge))
        }
        // Where an app draws by itself, the badge is data, which is text; the publisher's own data of that name stays.
        guard notification.data["badge"] == nil else { return places }
        for (path, own) in [
            (["android", "data", "badge"], overrides.android?["data"]?["badge"]),
            (["webpush", "data", "badge"], overrides.webpush?["data"]?["badge"]),
            (["apns", "payload", "badge"], overrides.apns?["badge"] ?? overrides.apnsBlock?["payload"]?["badge"]),
        ] where own == nil && message[path[0]]?[path[1]]?[path[2]] != nil {
            places.append(RenderedBody.Place(["message"] + path, .badge, isText: true))
        }
        return places
    }
}

/// Holds a notification rendered for FCM in one language: everything but the token and the credential.
package struct RenderedFCMMessage: Hashable, Sendable {
    /// The target of the message.
    package let target: FCMTarget
    /// The JSON body. The place of a token or an installation id comes first, so that the bytes before it are few; the
    /// id must consist of characters that need no escape in JSON.
    package let body: RenderedBody
    /// The bytes that count against FCM's limit: keys and values of the data and of the shown members.
    package let payloadBytes: Int

    /// The headers that are the same for every device.
    package static let headers: [(name: String, value: String)] = [("content-type", "application/json")]
}
