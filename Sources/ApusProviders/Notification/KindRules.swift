internal import ApusMessages

/// Refuses members that a kind of notification cannot carry: one that no provider of the kind supports is refused, not dropped.
///
/// Source: https://developer.apple.com/documentation/usernotifications/generating-a-remote-notification,
/// https://developer.apple.com/documentation/usernotifications/pushing-background-updates-to-your-app,
/// https://developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications
enum KindRules {
    /// The members of a notification, by the last name of their path.
    private enum Member: String {
        case title, subtitle, body, image, sound, category, variants, tag, color
        case titleLocKey = "title_loc_key"
        case subtitleLocKey = "subtitle_loc_key"
        case bodyLocKey = "body_loc_key"
        case launchImage = "launch_image"
        case badgeSet = "badge_set"
        case badgeIncrement = "badge_increment"
        case threadID = "thread_id"
        case contentAvailable = "content_available"
        case mutableContent = "mutable_content"
        case interruptionLevel = "interruption_level"
        case relevanceScore = "relevance_score"
        case targetContentID = "target_content_id"
        case filterCriteria = "filter_criteria"
        case channelID = "channel_id"
        case clickAction = "click_action"
        case analyticsLabel = "analytics_label"
        case androidJSON = "android_json"
        case webpushJSON = "webpush_json"
        case fcmAPNsJSON = "fcm_apns_json"

        func isSaid(in notification: Notification) -> Bool {
            switch self {
            case .title: !notification.title.isEmpty
            case .subtitle: !notification.subtitle.isEmpty
            case .body: !notification.body.isEmpty
            case .image: !notification.image.isEmpty
            case .sound: notification.sound != nil
            case .badgeSet: if case .set? = notification.badge { true } else { false }
            case .badgeIncrement: if case .increment? = notification.badge { true } else { false }
            case .category: !notification.category.isEmpty
            case .variants: !notification.variants.isEmpty
            case .tag: !notification.tag.isEmpty
            case .color: !notification.color.isEmpty
            case .titleLocKey: !notification.titleLocKey.isEmpty
            case .subtitleLocKey: !notification.subtitleLocKey.isEmpty
            case .bodyLocKey: !notification.bodyLocKey.isEmpty
            case .launchImage: !notification.launchImage.isEmpty
            case .threadID: !notification.threadID.isEmpty
            case .contentAvailable: notification.contentAvailable
            case .mutableContent: notification.mutableContent
            case .interruptionLevel: notification.interruptionLevel != nil
            case .relevanceScore: notification.relevanceScore != nil
            case .targetContentID: !notification.targetContentID.isEmpty
            case .filterCriteria: !notification.filterCriteria.isEmpty
            case .channelID: !notification.channelID.isEmpty
            case .clickAction: !notification.clickAction.isEmpty
            case .analyticsLabel: !notification.analyticsLabel.isEmpty
            case .androidJSON: !notification.androidJSON.isEmpty
            case .webpushJSON: !notification.webpushJSON.isEmpty
            case .fcmAPNsJSON: !notification.fcmAPNsJSON.isEmpty
            }
        }
    }

    /// The title and body.
    private static let words: [Member] = [.title, .body, .titleLocKey, .bodyLocKey]
    /// The members that only alerts support, besides title, body and sound.
    private static let ofAlerts: [Member] = [
        .subtitle, .subtitleLocKey, .launchImage, .image, .badgeSet, .badgeIncrement, .category, .threadID,
        .mutableContent, .interruptionLevel, .targetContentID, .filterCriteria,
    ]
    /// The members that only Android and browsers show.
    private static let ofOtherScreens: [Member] = [.channelID, .tag, .clickAction, .color]
    /// The members that only FCM accepts; a kind for Apple alone has no use for them.
    private static let ofFCM: [Member] =
        Self.ofOtherScreens + [.analyticsLabel, .androidJSON, .webpushJSON, .fcmAPNsJSON]

    /// Returns the members that a kind cannot carry, and the rule.
    private static func refused(by kind: Notification.Kind) -> (members: [Member], rule: String) {
        switch kind {
        case .alert, .voip: ([], "")
        case .background:
            (
                Self.words + Self.ofAlerts + [.sound, .variants, .relevanceScore] + Self.ofOtherScreens,
                "a background notification carries data and shows nothing"
            )
        case .liveActivity:
            (
                Self.ofAlerts + [.contentAvailable] + Self.ofFCM,
                "a Live Activity carries its state, a title, a body and a sound"
            )
        case .widgets, .controls, .mdm:
            (
                Self.words + Self.ofAlerts + [.sound, .variants, .relevanceScore, .contentAvailable] + Self.ofFCM,
                kind == .mdm
                    ? "device management carries data[mdm] and nothing else"
                    : "a reload of widgets or controls carries data and shows nothing"
            )
        case .complication, .fileProvider, .location, .pushToTalk: (Self.ofFCM, "this kind goes to Apple only")
        }
    }

    /// Checks that the kind supports every member that is set.
    static func check(_ notification: Notification) throws(Problem) {
        let (members, rule) = Self.refused(by: notification.kind)
        for member in members where member.isSaid(in: notification) {
            throw Problem(.contradiction, "notification.\(member.rawValue)", "cannot be used here: \(rule)")
        }
        switch notification.kind {
        case .liveActivity:
            for (index, variant) in notification.variants.enumerated() {
                for (text, name) in [
                    (variant.subtitle, "subtitle"), (variant.image, "image"), (variant.clickAction, "click_action"),
                ] where !text.isEmpty {
                    throw Problem(
                        .contradiction,
                        "notification.variants[\(index)].\(name)",
                        "cannot be used here: \(rule)",
                    )
                }
            }
        case .mdm:
            for key in notification.data.keys.sorted() where key != "mdm" {
                throw Problem(.contradiction, FieldRules.path("notification.data", key), "cannot be used here: \(rule)")
            }
        default: break
        }
    }
}
