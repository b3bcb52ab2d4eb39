internal import ApusCore
package import ApusMessages
package import ApusProviders

/// A Live Activity's update or end, rendered for a broadcast channel: one request, whose recipients Apple knows.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-broadcast-push-notification-requests-to-apns
package struct RenderedAPNsBroadcast: Hashable, Sendable {
    /// The app of the channel: without a push type's suffix, which Apple refuses here as `TopicDisallowed`.
    package let bundleID: String
    /// The channel.
    package let channel: APNsChannelID
    /// The value of `apns-priority`.
    package let priority: APNsPriority
    /// The value of `apns-expiration` in seconds since 1970, always sent; 0 when the channel stores nothing.
    package let expiration: Int64
    /// The JSON body.
    package let body: RenderedBody

    /// The maximum bytes of the body.
    package static let payloadBytesMax = 5_120

    /// The value of `:path`.
    package var path: String { "/4/broadcasts/apps/\(self.bundleID)" }

    /// The part of the route that broadcasts go by: Apple may refuse an app's broadcasts and take its other notifications.
    package var subroute: String { "broadcasts of \(self.bundleID)" }

    /// The headers, in a fixed order. There is no `apns-topic`: the path holds it.
    package var headers: [(name: String, value: String)] {
        [
            ("apns-channel-id", self.channel.text), ("apns-push-type", APNsPushType.liveactivity.rawValue),
            ("apns-priority", String(self.priority.rawValue)), ("apns-expiration", String(self.expiration)),
        ]
    }
}

extension APNsRenderer {
    /// Checks every rule and renders a Live Activity's update or end for a broadcast channel.
    ///
    /// A channel cannot start an activity, and nothing in a broadcast differs between devices. A channel that stores
    /// nothing accepts only messages that expire at once (otherwise Apple answers `BadExpirationDate`); in one that
    /// stores its latest message a notification without an expiry is kept as long as Apple does.
    package func render(
        _ notification: Notification,
        channel: APNsChannelID,
        storage: APNsChannelStorage,
        context: RenderContext,
    ) throws(Problem) -> RenderedAPNsBroadcast {
        try NotificationRules.check(notification, isAccepted: context.isAccepted)
        try APNsRules.check(notification, isBroadcast: true)
        try Self.checkBroadcast(notification, storage)
        let override = try FieldRules.jsonObject(notification.apnsJSON, "notification.apns_json")
        let payload = try Self.payload(notification, override: override, context: context, isBroadcast: true)
        let body = RenderedBody(payload, places: [])
        guard body.bytesMax <= RenderedAPNsBroadcast.payloadBytesMax else {
            throw Problem(
                .payloadTooLarge,
                "notification",
                "makes an APNs payload of \(body.bytesMax) bytes; \(RenderedAPNsBroadcast.payloadBytesMax) are allowed",
            )
        }
        let kept = context.dueAt.advanced(byMilliseconds: APNsChannelStorage.millisecondsMax).seconds
        return RenderedAPNsBroadcast(
            bundleID: self.bundleID,
            channel: channel,
            priority: notification.priority.map { APNsPriority($0) } ?? APNsPushType.liveactivity.defaultPriority,
            expiration: storage == .none
                ? 0 : Self.expiration(notification, publishedAt: context.publishedAt) ?? kept,
            body: body,
        )
    }

    private static func checkBroadcast(
        _ notification: Notification,
        _ storage: APNsChannelStorage,
    ) throws(Problem) {
        guard notification.kind == .liveActivity, let activity = notification.liveActivity else {
            throw Problem(.contradiction, "notification.kind", "must be live activity for a broadcast channel")
        }
        guard activity.event != .start else {
            throw Problem(
                .contradiction,
                "notification.live_activity.event",
                "must be update or end: a broadcast channel cannot start a Live Activity",
            )
        }
        guard notification.variants.isEmpty else {
            throw Problem(.unsupported, "notification.variants", "are chosen per device; Apple holds this audience")
        }
        guard storage == .none, let expiry = notification.expiry, !expiry.isOneAttempt else { return }
        let field = if case .ttl = expiry { "ttl_ms" } else { "expires_at_ms" }
        throw Problem(
            .contradiction,
            "notification.\(field)",
            "must be a time to live of 0: the channel stores no message (set stores_latest if it does)",
        )
    }
}
