internal import ApusCore
package import ApusMessages
package import ApusProviders
internal import ApusTLS

/// Renders notifications for browsers. Pure.
///
/// The content is JSON for the app's service worker: `notification` (title, body, image, tag, navigate, badge), `data` with
/// the send's id, and `app_badge`. With the declarative form on, the same content carries `web_push: 8030`, by which
/// a browser shows it without the worker; others see ordinary JSON. An alert that has no link, or an action without one, is not
/// declarative.
package struct WebPushRenderer: Hashable, Sendable {
    private let isDeclarative: Bool

    /// The number that marks a declarative message.
    ///
    /// Source: https://www.w3.org/TR/push-api/#declarative-push-message
    static let declarativeMark: Int64 = 8_030

    /// Creates a renderer; `isDeclarative` makes alerts that browsers show without a service worker.
    package init(isDeclarative: Bool) { self.isDeclarative = isDeclarative }

    /// Checks all rules and renders every language.
    package func render(
        _ notification: Notification,
        context: RenderContext,
    ) throws(Problem) -> RenderedNotification<RenderedWebPushMessage> {
        try NotificationRules.check(notification, isAccepted: context.isAccepted)
        try WebPushRules.check(notification)
        let override = try FieldRules.jsonObject(notification.webpushJSON, "notification.webpush_json")
        let base = try self.message(notification, override, context, field: "notification")
        var others: [(locale: String, message: RenderedWebPushMessage)] = []
        for (index, variant) in notification.variants.enumerated() {
            let message = try self.message(
                notification.replacingTexts(by: variant),
                override,
                context,
                field: "notification.variants[\(index)]",
            )
            others.append((variant.locale, message))
        }
        return RenderedNotification(base: base, others: others)
    }

    private func message(
        _ notification: Notification,
        _ override: JSONObject?,
        _ context: RenderContext,
        field: String,
    ) throws(Problem) -> RenderedWebPushMessage {
        var payload = Self.merged(notification, override, context, isDeclarative: self.isDeclarative)
        // A message that browsers cannot show by themselves is left to the service worker, unless the publisher has set the mark.
        if let shown = payload["notification"], payload["web_push"] != nil {
            do throws(Problem) {
                try WebPushRules.checkDeclarative(shown)
            } catch {
                if override?["web_push"] == nil {
                    payload = Self.merged(notification, override, context, isDeclarative: false)
                } else if !context.isAccepted {
                    throw error
                }
            }
        }
        if !context.isAccepted { try WebPushRules.checkFinished(payload) }
        let body = RenderedBody(payload, places: Self.places(notification, override, payload))
        guard body.bytesMax <= WebPushEncryption.contentBytesMax else {
            throw Problem(
                .payloadTooLarge,
                field,
                "makes a Web Push payload of \(body.bytesMax) bytes; \(WebPushEncryption.contentBytesMax) are allowed",
            )
        }
        return RenderedWebPushMessage(
            body: body,
            timeToLive: Self.timeToLive(notification, context),
            urgency: Self.urgency(notification),
            topic: Self.topic(notification.collapseKey),
            isShown: payload["notification"] != nil,
        )
    }

    /// Returns the content with the publisher's own JSON merged in.
    private static func merged(
        _ notification: Notification,
        _ override: JSONObject?,
        _ context: RenderContext,
        isDeclarative: Bool,
    ) -> JSONObject {
        let payload = Self.payload(notification, context, isDeclarative: isDeclarative)
        guard var override else { return payload }
        // These two are for browsers that are reached by way of another provider.
        override["headers"] = nil
        override["fcm_options"] = nil
        var value = JSONValue.object(payload)
        value.merge(.object(override))
        guard var merged = value.object else { return payload }
        if var data = merged["data"]?.object {
            data[RenderContext.sendDataKey] = .string(context.send.text)
            merged["data"] = .object(data)
        }
        return merged
    }

    private static func payload(
        _ notification: Notification,
        _ context: RenderContext,
        isDeclarative: Bool,
    ) -> JSONObject {
        var payload: JSONObject = [:]
        let badge = Self.badge(notification)
        if notification.kind == .alert {
            var shown: JSONObject = [:]
            for (name, text) in [
                ("title", notification.title), ("body", notification.body), ("image", notification.image),
                ("tag", notification.displayTag(of: context.send) ?? ""),
            ] where !text.isEmpty { shown[name] = .string(text) }
            if FieldRules.isHTTPS(notification.clickAction) { shown["navigate"] = .string(notification.clickAction) }
            if isDeclarative {
                payload["web_push"] = .integer(Self.declarativeMark)
                // The member moved to the top level in May 2025 (WebKit/WebKit#45798): it stands in both places.
                if let badge { shown["app_badge"] = .integer(badge) }
            }
            payload["notification"] = .object(shown)
        }
        var data: JSONObject = [:]
        for (key, value) in notification.data.sorted(by: { $0.key < $1.key }) { data[key] = .string(value) }
        data[RenderContext.sendDataKey] = .string(context.send.text)
        payload["data"] = .object(data)
        if let badge { payload["app_badge"] = .integer(badge) }
        return payload
    }

    /// Returns the badge, or the longest number in its place when it is counted for each device.
    private static func badge(_ notification: Notification) -> UInt32? {
        switch notification.badge {
        case .set(let number): number
        case .increment: Limits.badgeMax
        case nil: nil
        }
    }

    private static func places(
        _ notification: Notification,
        _ override: JSONObject?,
        _ payload: JSONObject,
    ) -> [RenderedBody.Place] {
        guard case .increment = notification.badge else { return [] }
        var places: [RenderedBody.Place] = []
        if override?["app_badge"] == nil, payload["app_badge"] != nil {
            places.append(RenderedBody.Place(["app_badge"], .badge))
        }
        if override?["notification"]?["app_badge"] == nil, payload["notification"]?["app_badge"] != nil {
            places.append(RenderedBody.Place(["notification", "app_badge"], .badge))
        }
        return places
    }

    /// Returns the seconds until the notification expires, rounded up; the longest time when it has no expiry, since
    /// the header is required (RFC 8030 §5.2).
    private static func timeToLive(_ notification: Notification, _ context: RenderContext) -> Int64 {
        guard let expiry = notification.expiry else { return WebPushRules.timeToLiveSecondsMax }
        let left = expiry.deadline(publishedAt: context.publishedAt).milliseconds(since: context.now)
        return min((max(0, left) + 999) / 1_000, WebPushRules.timeToLiveSecondsMax)
    }

    /// Source: RFC 8030 §5.3
    private static func urgency(_ notification: Notification) -> String {
        switch notification.priority {
        case .high: "high"
        case .normal: "normal"
        case .low: "low"
        case nil: notification.kind == .background ? "normal" : "high"
        }
    }

    /// Returns the topic by which a message replaces an undelivered one (RFC 8030 §5.4): a hash of the collapse key, always 32
    /// characters of base64url, because one service decodes it and refuses other lengths. Nil without a collapse key.
    static func topic(_ collapseKey: String) -> String? {
        guard !collapseKey.isEmpty else { return nil }
        return Base64URL.encode(SHA256.hash(Array(collapseKey.utf8)).prefix(24))
    }
}

/// Holds a notification rendered for browsers in one language: everything but the address and the encryption.
package struct RenderedWebPushMessage: Hashable, Sendable {
    /// The content, to be encrypted for each device.
    package let body: RenderedBody
    /// The seconds for which a push service stores the message; 0 for one attempt, which Apple's service gets as the least that it takes.
    package let timeToLive: Int64
    /// The urgency: `low`, `normal` or `high`.
    package let urgency: String
    /// The topic; nil for none.
    package let topic: String?
    /// True when the message shows something.
    package let isShown: Bool

    /// The headers that are the same for every device, but for what ``headers(for:)`` changes.
    package var headers: [(name: String, value: String)] { self.headers(timeToLive: self.timeToLive) }

    private func headers(timeToLive: Int64) -> [(name: String, value: String)] {
        var headers = [
            ("ttl", String(timeToLive)), ("urgency", self.urgency), ("content-encoding", "aes128gcm"),
            ("content-type", "application/octet-stream"),
        ]
        if let topic { headers.append(("topic", topic)) }
        return headers
    }

    /// Returns the headers that a push service gets: its own where it needs others.
    ///
    /// Source: web-push-libs/pywebpush#162
    package func headers(for origin: Origin) -> [(name: String, value: String)] {
        if WebPushEndpoint.isApple(origin) {
            return self.headers(timeToLive: max(WebPushRules.appleTimeToLiveSecondsMin, self.timeToLive))
        }
        guard origin.host.hasSuffix(".notify.windows.com") else { return self.headers }
        return self.headers + [("x-wns-cache-policy", self.timeToLive == 0 ? "no-cache" : "cache")]
    }

    /// Returns why a message must not be sent to a push service; nil when it may be.
    ///
    /// Safari revokes a subscription after three messages that show nothing (discourse/discourse#25099).
    package func breach(at origin: Origin) -> String? {
        guard !self.isShown, WebPushEndpoint.refusesSilence(origin) else { return nil }
        return "Safari revokes subscriptions whose messages show nothing"
    }
}
