internal import ApusCore
internal import ApusMessages
internal import ApusProviders

/// Advice on a notification that is allowed and will not do what its author expects. Pure.
enum DryRunLints {
    /// Characters of a title that a phone shows in one line, roughly.
    static let titleCharactersMax = 50
    /// Characters of a text that a lock screen shows before it is cut off, roughly: four lines.
    static let bodyCharactersMax = 178
    /// Share of a provider's size limit from which on a longer word may break it.
    static let sizePercentMax = 90

    /// Seconds before and after each quarter of an hour in which Google asks not to begin: everybody does.
    static let busySeconds: Int64 = 120

    /// All advice on a notification and its renderings.
    ///
    /// - Parameter notBefore: when the send is to begin; nil: at once.
    static func all(
        _ notification: Notification,
        _ renderings: [DryRunReport.Rendering],
        notBefore: UnixMilliseconds? = nil,
    ) -> [Problem] {
        Self.words(notification) + Self.delivery(notification, renderings) + Self.sizes(renderings)
            + Self.schedule(notBefore, renderings)
    }

    /// Source: https://firebase.google.com/docs/cloud-messaging/scale-fcm
    private static func schedule(_ notBefore: UnixMilliseconds?, _ renderings: [DryRunReport.Rendering]) -> [Problem] {
        guard let notBefore, renderings.contains(where: { $0.route.provider == .fcm }) else { return [] }
        let quarter: Int64 = 15 * 60
        let second = notBefore.seconds % quarter
        guard min(second, quarter - second) <= Self.busySeconds else { return [] }
        return [
            Problem(
                code: "busy_minutes",
                field: "not_before_ms",
                detail:
                    "is within two minutes of a quarter of an hour: FCM asks to leave them out, for everybody sends then",
            )
        ]
    }

    private static func words(_ notification: Notification) -> [Problem] {
        guard notification.kind == .alert else { return [] }
        var lints: [Problem] = []
        let isSilent =
            notification.title.isEmpty && notification.body.isEmpty && notification.titleLocKey.isEmpty
            && notification.bodyLocKey.isEmpty
        if isSilent, notification.apnsJSON.isEmpty {
            lints.append(
                Problem(
                    code: "nothing_shown",
                    field: "notification.kind",
                    detail: "an alert without words shows nothing: the kind background only wakes the app",
                )
            )
        }
        let texts =
            [("notification", notification.title, notification.body)]
            + notification.variants.enumerated().map { ("notification.variants[\($0)]", $1.title, $1.body) }
        for (field, title, body) in texts {
            for (name, text, most) in [
                ("title", title, Self.titleCharactersMax), ("body", body, Self.bodyCharactersMax),
            ] where text.count > most {
                lints.append(
                    Problem(
                        code: "truncated",
                        field: "\(field).\(name)",
                        detail: "has \(text.count) characters; most screens cut it off after some \(most)",
                    )
                )
            }
        }
        return lints
    }

    private static func delivery(
        _ notification: Notification,
        _ renderings: [DryRunReport.Rendering],
    ) -> [Problem] {
        var lints: [Problem] = []
        if notification.kind == .alert, notification.priority == .normal || notification.priority == .low {
            lints.append(
                Problem(
                    code: "priority",
                    field: "notification.priority",
                    detail: "an alert of this priority may wait until the device is used",
                )
            )
        }
        // Apple: without the push type, background pushes are dropped although they were accepted.
        // https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
        for rendering in renderings where rendering.route.provider == .apns {
            let type = rendering.headers.first { $0.name == "apns-push-type" }?.value
            if type == "alert", Self.aps(rendering)?["content-available"] != nil,
                Self.aps(rendering)?["alert"] == nil
            {
                lints.append(
                    Problem(
                        code: "push_type",
                        field: "notification.kind",
                        detail:
                            "the payload only wakes the app, which wants the kind background: as an alert it is dropped",
                    )
                )
                break
            }
        }
        // Google: https://firebase.google.com/docs/cloud-messaging/throttling-and-quotas and
        // https://firebase.google.com/docs/cloud-messaging/customize-messages/collapsible-message-types
        if !notification.collapseKey.isEmpty, renderings.contains(where: { $0.route.provider == .fcm }) {
            lints.append(
                Problem(
                    code: "collapse",
                    field: "notification.collapse_key",
                    detail:
                        "FCM keeps four keys for a device, and delivers twenty at once, then one in three minutes: it delays the rest",
                )
            )
        }
        if notification.expiry?.isOneAttempt == true {
            lints.append(
                Problem(
                    code: "one_attempt",
                    field: "notification.ttl_ms",
                    detail: "devices that are not reachable at that moment never get it",
                )
            )
        }
        return lints
    }

    private static func aps(_ rendering: DryRunReport.Rendering) -> JSONValue? {
        (try? JSONValue(parsing: Array(rendering.payload.utf8), bytesMax: Limits.sendCommandBytesMax))?["aps"]
    }

    private static func sizes(_ renderings: [DryRunReport.Rendering]) -> [Problem] {
        renderings.filter { $0.payloadBytes * 100 > $0.payloadBytesMax * Self.sizePercentMax }.map { rendering in
            let locale = rendering.locale.isEmpty ? "" : " in \(rendering.locale)"
            return Problem(
                code: "nearly_too_large",
                field: "notification",
                detail:
                    "takes \(rendering.payloadBytes) of \(rendering.payloadBytesMax) bytes on \(rendering.route)\(locale)",
            )
        }
    }
}
