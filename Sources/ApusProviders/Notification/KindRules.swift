internal import ApusMessages

/// What a kind of notification cannot carry: a member that no provider of the kind has a place for is refused, not dropped.
///
/// Source: https://developer.apple.com/documentation/usernotifications/generating-a-remote-notification,
/// https://developer.apple.com/documentation/usernotifications/pushing-background-updates-to-your-app,
/// https://developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications
enum KindRules {
    /// A member of a notification, by its path's last name.
    private enum Member: String {
        case title, subtitle, body, image, sound, badge, category, variants, tag, color
        case titleLocKey = "title_loc_key"
        case subtitleLocKey = "subtitle_loc_key"
        case bodyLocKey = "body_loc_key"
        case launchImage = "launch_image"
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
            case .badge: notification.badge != nil
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

    /// A title and a body.
    private static let words: [Member] = [.title, .body, .titleLocKey, .bodyLocKey]
    /// What only an alert has a place for, beside its title, body and sound.
    private static let ofAlerts: [Member] = [
        .subtitle, .subtitleLocKey, .launchImage, .image, .badge, .category, .threadID, .mutableContent,
        .interruptionLevel, .targetContentID, .filterCriteria,
    ]
    /// What only Android and browsers show.
    private static let ofOtherScreens: [Member] = [.channelID, .tag, .clickAction, .color]
    /// What only FCM takes; a kind for Apple alone has no use for it.
    private static let ofFCM: [Member] =
        Self.ofOtherScreens + [.analyticsLabel, .androidJSON, .webpushJSON, .fcmAPNsJSON]

    /// The members that a kind cannot carry, and what it does carry.
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
                    : "what reloads widgets or controls carries data and shows nothing"
            )
        case .complication, .fileProvider, .location, .pushToTalk: (Self.ofFCM, "this kind goes to Apple only")
        }
    }

    /// Checks that the kind has a place for all that is said.
    static func check(_ notification: Notification) throws(Problem) {
        let (members, rule) = Self.refused(by: notification.kind)
        for member in members where member.isSaid(in: notification) {
            throw Problem(.contradiction, "notification.\(member.rawValue)", "has no place: \(rule)")
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
                        "has no place: \(rule)",
                    )
                }
            }
        case .mdm:
            for key in notification.data.keys.sorted() where key != "mdm" {
                throw Problem(.contradiction, FieldRules.path("notification.data", key), "has no place: \(rule)")
            }
        default: break
        }
    }
}
