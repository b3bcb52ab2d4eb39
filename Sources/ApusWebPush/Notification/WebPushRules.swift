internal import ApusCore
package import ApusMessages
internal import ApusProviders

/// Checks the rules of Web Push for a notification, in addition to `NotificationRules`. Sizes are checked at rendering.
package enum WebPushRules {
    /// The maximum seconds for which a message is stored: four weeks. Some services store for 30 days, others for less,
    /// and each says in its answer what it made of a longer time (RFC 8030 §5.2).
    package static let timeToLiveSecondsMax: Int64 = 2_419_200
    /// The minimum seconds that Apple's service takes: it refuses 0 with `BadTtl`, although RFC 8030 allows it.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/sending-web-push-notifications-in-web-apps-and-browsers
    static let appleTimeToLiveSecondsMin: Int64 = 1

    /// Checks all rules.
    package static func check(_ notification: Notification) throws(Problem) {
        switch notification.kind {
        case .alert: try Self.checkTitle(notification)
        case .background: break
        case .voip, .complication, .fileProvider, .mdm, .location, .liveActivity, .pushToTalk, .widgets, .controls:
            throw Problem(
                .unsupported,
                "notification.kind",
                "is not for browsers; Web Push supports alert and background"
            )
        }
        if case .ttl(let milliseconds) = notification.expiry {
            guard milliseconds <= Self.timeToLiveSecondsMax * 1_000 else {
                throw Problem(
                    .invalid,
                    "notification.ttl_ms",
                    "must be at most \(Self.timeToLiveSecondsMax * 1_000)"
                )
            }
        }
    }

    /// Checks that there is a title: a browser shows nothing without one, and some revoke a subscription that shows nothing.
    private static func checkTitle(_ notification: Notification) throws(Problem) {
        guard notification.title.isEmpty, notification.webpushJSON.isEmpty else { return }
        throw Problem(
            .unsupported,
            "notification.title",
            "is needed by browsers, which have no texts of the app: give one, or a notification in webpush_json"
        )
    }

    private static let field = "notification.webpush_json"

    /// Checks a payload after the publisher's own JSON has been merged in.
    static func checkFinished(_ payload: JSONObject) throws(Problem) {
        let field = Self.field
        if let shown = payload["notification"] {
            guard let shown = shown.object else {
                throw Problem(.invalid, "\(field).notification", "must be a JSON object")
            }
            guard shown["title"]?.string?.isEmpty == false else {
                throw Problem(
                    .missing,
                    "\(field).notification.title",
                    "must be a text: browsers show nothing without it"
                )
            }
        }
        if let data = payload["data"], data.object == nil {
            throw Problem(.invalid, "\(field).data", "must be a JSON object")
        }
        if let badge = payload["app_badge"], badge.int64.map({ $0 < 0 }) ?? true {
            throw Problem(.invalid, "\(field).app_badge", "must be a whole number from 0")
        }
    }

    /// Checks that a browser can show what a payload has under `notification` without a service worker.
    ///
    /// Source: https://www.w3.org/TR/push-api/#declarative-push-message
    static func checkDeclarative(_ shown: JSONValue) throws(Problem) {
        let field = Self.field
        guard let link = shown["navigate"]?.string else {
            throw Problem(
                .missing,
                "notification.click_action",
                "must be the https URL to open: a declarative message needs it"
            )
        }
        try FieldRules.link(link, "\(field).notification.navigate")
        guard let actions = shown["actions"] else { return }
        guard let actions = actions.array else {
            throw Problem(.invalid, "\(field).notification.actions", "must be a list")
        }
        for (index, action) in actions.enumerated() {
            let place = "\(field).notification.actions[\(index)]"
            guard let link = action["navigate"]?.string else {
                throw Problem(.missing, "\(place).navigate", "must be the https URL to open")
            }
            try FieldRules.link(link, "\(place).navigate")
        }
    }
}
