internal import ApusCore
package import ApusMessages
package import ApusProviders

/// Renders a notification for APNs, once per language.
package struct APNsRenderer: Sendable {
    /// The app's bundle id, without a push type's suffix.
    package let bundleID: String

    /// Creates the renderer of an app; `bundleID` has no push type's suffix (for device management it is the certificate's topic).
    package init(bundleID: String) throws(Problem) {
        try APNsRules.checkBundleID(bundleID)
        self.bundleID = bundleID
    }

    /// Checks every rule and renders every language.
    ///
    /// The body is `aps`, then the data, then `apns_json` merged in (RFC 7396), then the send's id. The sizes of the
    /// finished bodies are checked; a badge that is counted per device counts with its longest number.
    package func render(
        _ notification: Notification,
        context: RenderContext,
    ) throws(Problem) -> RenderedNotification<RenderedAPNsMessage> {
        try NotificationRules.check(notification, isAccepted: context.isAccepted)
        try APNsRules.check(notification)
        let override = try FieldRules.jsonObject(notification.apnsJSON, "notification.apns_json")
        let base = try self.message(notification, override: override, context: context, field: "notification")
        var others: [(locale: String, message: RenderedAPNsMessage)] = []
        for (index, variant) in notification.variants.enumerated() {
            let message = try self.message(
                notification.replacingTexts(by: variant),
                override: override,
                context: context,
                field: "notification.variants[\(index)]",
            )
            others.append((variant.locale, message))
        }
        return RenderedNotification(base: base, others: others)
    }

    private func message(
        _ notification: Notification,
        override: JSONObject?,
        context: RenderContext,
        field: String,
    ) throws(Problem) -> RenderedAPNsMessage {
        let pushType = APNsPushType(notification.kind)
        let payload = try Self.payload(notification, override: override, context: context)
        var places: [RenderedBody.Place] = []
        if case .increment = notification.badge, override?["aps"]?["badge"] == nil, payload["aps"]?["badge"] != nil {
            places = [RenderedBody.Place(["aps", "badge"], .badge)]
        }
        let body = RenderedBody(payload, places: places)
        guard body.bytesMax <= pushType.payloadBytesMax else {
            throw Problem(
                .payloadTooLarge,
                field,
                "makes an APNs payload of \(body.bytesMax) bytes; \(pushType.payloadBytesMax) are allowed",
            )
        }
        return RenderedAPNsMessage(
            topic: pushType.topic(bundleID: self.bundleID),
            pushType: pushType,
            priority: notification.priority.map { APNsPriority($0) } ?? pushType.defaultPriority,
            expiration: Self.expiration(notification, publishedAt: context.publishedAt),
            collapseID: notification.collapseID(of: context.send),
            body: body,
        )
    }

    /// Returns one language's payload, checked.
    ///
    /// - Parameter isBroadcast: true for a payload to a channel.
    static func payload(
        _ notification: Notification,
        override: JSONObject?,
        context: RenderContext,
        isBroadcast: Bool = false,
    ) throws(Problem) -> JSONObject {
        let aps = try APNsPayload.aps(notification, dueAt: context.dueAt)
        // Device management has a payload of its own: {"mdm":"…"}.
        // https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
        var payload: JSONObject = notification.kind == .mdm ? [:] : ["aps": .object(aps)]
        if !notification.image.isEmpty { payload["image"] = .string(notification.image) }
        for (key, value) in notification.data.sorted(by: { $0.key < $1.key }) { payload[key] = .string(value) }
        if let override {
            var merged = JSONValue.object(payload)
            merged.merge(.object(override))
            payload = merged.object ?? payload
        }
        // Device management gets no id: every member of its payload is defined by Apple.
        if notification.kind != .mdm { payload[RenderContext.sendMember] = .string(context.send.text) }
        if !context.isAccepted { try APNsFinishedPayload.check(payload, of: notification, isBroadcast: isBroadcast) }
        return payload
    }

    /// Returns the expiration in whole seconds, rounded up, so that a notification never expires too early.
    static func expiration(_ notification: Notification, publishedAt: UnixMilliseconds) -> Int64? {
        guard let expiry = notification.effectiveExpiry else { return nil }
        guard !expiry.isOneAttempt else { return 0 }
        return expiry.deadline(publishedAt: publishedAt).advanced(byMilliseconds: 999).seconds
    }
}
