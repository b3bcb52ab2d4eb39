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

    /// Recipients at FCM from which on a send that begins at once is told of the busy minutes: fewer are gone within a second, at the
    /// 10,000 a second that Google lets a project send.
    static let busyRecipientsMin: UInt64 = 10_000

    /// All advice on a command, by what was found out about it.
    static func all(_ command: SendCommand, _ report: DryRunReport, now: UnixMilliseconds) -> [Problem] {
        let notification = command.notification
        return Self.words(notification) + Self.delivery(notification, report.renderings)
            + Self.silence(notification, report.renderings) + Self.holder(command.target)
            + Self.sizes(report.renderings) + Self.schedule(command, report, now: now)
    }

    /// Source: https://firebase.google.com/docs/cloud-messaging/scale-fcm
    private static func schedule(_ command: SendCommand, _ report: DryRunReport, now: UnixMilliseconds) -> [Problem] {
        guard report.renderings.contains(where: { $0.route.provider == .fcm }) else { return [] }
        let recipients = report.audiences.reduce(0) { $0 + ($1.route.provider == .fcm ? $1.recipients : 0) }
        // Whom FCM's own audience reaches nobody knows.
        let isLarge = recipients >= Self.busyRecipientsMin || command.target.holder == .fcm
        guard command.notBefore != nil || isLarge else { return [] }
        let quarter: Int64 = 15 * 60
        let second = max(command.notBefore ?? now, now).seconds % quarter
        guard min(second, quarter - second) <= Self.busySeconds else { return [] }
        let what = command.notBefore == nil ? "left out, it begins" : "is"
        return [
            Problem(
                code: "busy_minutes",
                field: "not_before_ms",
                detail:
                    "\(what) within two minutes of a quarter of an hour: FCM asks to leave them out, for everybody sends then",
            )
        ]
    }

    /// Apple advises two or three background pushes an hour at most, which it may hold back or drop, and FCM wakes an iOS app in no other
    /// way.
    /// Source: https://developer.apple.com/documentation/usernotifications/pushing-background-updates-to-your-app
    private static func silence(
        _ notification: Notification,
        _ renderings: [DryRunReport.Rendering],
    ) -> [Problem] {
        let providers = Set(renderings.map(\.route.provider))
        let field: String
        if notification.kind == .background, providers.contains(.apns) || providers.contains(.fcm) {
            field = "notification.kind"
        } else if notification.kind == .alert, notification.fcmAPNsStyle == .data, providers.contains(.fcm) {
            field = "notification.fcm_apns_style"
        } else {
            return []
        }
        return [
            Problem(
                code: "background",
                field: field,
                detail:
                    "wakes an iOS app silently, with priority 5: Apple may delay or drop it, the more so above two or three an hour for a device",
            )
        ]
    }

    /// Source: https://firebase.google.com/docs/cloud-messaging/topic-messaging
    private static func holder(_ target: Target) -> [Problem] {
        let field: String
        switch target {
        case .fcmTopic: field = "target.fcm_topic"
        case .fcmCondition: field = "target.fcm_condition"
        case .addresses, .devices, .users, .topic, .condition, .expression, .everyone, .apnsChannel: return []
        }
        return [
            Problem(
                code: "held_by_fcm",
                field: field,
                detail:
                    "is one message, with no outcome per device; send one at a time, for all of a project share some 10,000 deliveries a second",
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
