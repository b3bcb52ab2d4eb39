internal import ApusCore
internal import ApusMessages
internal import ApusProviders

/// Warns about notifications that are allowed but will probably not do what their author expects. Pure.
enum DryRunLints {
    /// The approximate number of characters of a title that a phone shows in one line.
    static let titleCharactersMax = 50
    /// The approximate number of characters of a text that a lock screen shows in its four lines.
    static let bodyCharactersMax = 178
    /// The percentage of a provider's size limit above which a slightly longer text may exceed it.
    static let sizePercentMax = 90

    /// Returns all warnings about a command and its dry run.
    static func all(
        _ command: SendCommand,
        _ report: DryRunReport,
        _ providers: ProviderList,
        now: UnixMilliseconds,
    ) -> [Problem] {
        var lints = Self.words(command.notification) + Self.delivery(command.notification)
        for provider in providers.all {
            let renderings = report.renderings.filter { $0.route.provider == provider.provider }
            guard !renderings.isEmpty else { continue }
            let recipients = report.audiences.reduce(0) { sum, audience in
                sum + (audience.route.provider == provider.provider ? audience.recipients : 0)
            }
            // Two providers may give the same warning.
            for lint in provider.advice(on: command, renderings, recipients: recipients, now: now)
            where !lints.contains(lint) { lints.append(lint) }
        }
        return lints + Self.sizes(report.renderings)
    }

    private static func words(_ notification: Notification) -> [Problem] {
        guard notification.kind == .alert else { return [] }
        var lints: [Problem] = []
        let isSilent =
            notification.title.isEmpty && notification.body.isEmpty && notification.titleLocKey.isEmpty
            && notification.bodyLocKey.isEmpty
        if isSilent, !notification.hasRawJSON {
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

    private static func delivery(_ notification: Notification) -> [Problem] {
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

    private static func sizes(_ renderings: [RouteRendering]) -> [Problem] {
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
