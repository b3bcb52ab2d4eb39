import ApusAPNs
import ApusCore
import ApusFCM
import ApusMessages
import ApusProviders
import Testing

@Suite("What a kind has no place for is refused, not dropped")
struct KindRulesTests {
    private typealias Change = @Sendable (inout Notification) -> Void

    private static let words: [(String, Change)] = [
        ("title", { $0.title = "x" }), ("body", { $0.body = "x" }), ("title_loc_key", { $0.titleLocKey = "x" }),
        ("body_loc_key", { $0.bodyLocKey = "x" }),
    ]
    private static let ofAlerts: [(String, Change)] = [
        ("subtitle", { $0.subtitle = "x" }), ("subtitle_loc_key", { $0.subtitleLocKey = "x" }),
        ("launch_image", { $0.launchImage = "x" }), ("image", { $0.image = "https://example.com/" }),
        ("badge_set", { $0.badge = .set(1) }), ("badge_increment", { $0.badge = .increment(1) }),
        ("category", { $0.category = "x" }),
        ("thread_id", { $0.threadID = "x" }), ("mutable_content", { $0.mutableContent = true }),
        ("interruption_level", { $0.interruptionLevel = .active }), ("target_content_id", { $0.targetContentID = "x" }),
        ("filter_criteria", { $0.filterCriteria = "x" }),
    ]
    private static let sound: (String, Change) = ("sound", { $0.sound = Notification.Sound() })
    private static let variants: (String, Change) = ("variants", { $0.variants = [.init(locale: "fr")] })
    private static let relevance: (String, Change) = ("relevance_score", { $0.relevanceScore = 1 })
    private static let waking: (String, Change) = ("content_available", { $0.contentAvailable = true })
    private static let ofOtherScreens: [(String, Change)] = [
        ("channel_id", { $0.channelID = "x" }), ("tag", { $0.tag = "x" }), ("click_action", { $0.clickAction = "x" }),
        ("color", { $0.color = "#102030" }),
    ]
    private static let ofFCM: [(String, Change)] = [
        ("analytics_label", { $0.analyticsLabel = "x" }), ("android_json", { $0.androidJSON = "{}" }),
        ("webpush_json", { $0.webpushJSON = "{}" }), ("fcm_apns_json", { $0.fcmAPNsJSON = "{}" }),
    ]
    private static let all =
        Self.words + Self.ofAlerts + [Self.sound, Self.variants, Self.relevance, Self.waking] + Self.ofOtherScreens
        + Self.ofFCM

    /// The members that each kind takes, of all there are.
    private static let taken: [(kind: Notification.Kind, members: [(String, Change)])] = [
        (.alert, Self.all), (.voip, Self.all), (.background, Self.ofFCM + [Self.waking]),
        (.liveActivity, Self.words + [Self.sound, Self.variants, Self.relevance]),
        (.widgets, []), (.controls, []), (.mdm, []),
    ]

    @Test("kind by kind, member by member")
    func table() {
        for (kind, members) in Self.taken {
            let taken = Set(members.map(\.0))
            for (name, change) in Self.all {
                let example = notification(kind) {
                    if kind == .liveActivity {
                        $0.liveActivity = Notification.LiveActivity(event: .end)
                    }
                    change(&$0)
                }
                let answer = refusal { try NotificationRules.check(example) }
                let expected = taken.contains(name) ? "sent" : "contradiction notification.\(name)"
                #expect(answer == expected, "\(name) of \(kind)")
            }
        }
        for kind in [Notification.Kind.complication, .fileProvider, .location, .pushToTalk] {
            for (name, change) in Self.all {
                let answer = refusal { try NotificationRules.check(notification(kind, change)) }
                let isForeign = (Self.ofOtherScreens + Self.ofFCM).contains { $0.0 == name }
                #expect(answer == (isForeign ? "contradiction notification.\(name)" : "sent"), "\(name) of \(kind)")
            }
        }
    }

    @Test("a send that was accepted before is written out as it was, whatever has come to be refused since")
    func accepted() throws {
        let old = notification(.background) {
            $0.threadID = "t"
            $0.apnsJSON = #"{"aps":{"category":"c"}}"#
        }
        let now = UnixMilliseconds(1_800_000_000_000)
        func written(isAccepted: Bool) throws -> [String] {
            let context = RenderContext(send: try SendID("s"), publishedAt: now, now: now, isAccepted: isAccepted)
            return [
                try APNsRenderer(bundleID: "com.example.app").render(old, context: context).base.body.text,
                try FCMRenderer.render(old, target: .token, context: context).base.body.text,
            ]
        }
        #expect(refusal { _ = try written(isAccepted: false) } == "contradiction notification.thread_id")
        #expect(try written(isAccepted: true).allSatisfy { $0.contains(#""content-available":1"#) })
    }

    @Test("a Live Activity's languages have a title and a body")
    func variants() {
        func variant(_ change: (inout Notification.LocaleVariant) -> Void) -> String {
            refusal {
                try NotificationRules.check(
                    notification(.liveActivity) {
                        $0.liveActivity = Notification.LiveActivity(event: .end)
                        var french = Notification.LocaleVariant(locale: "fr")
                        french.title = "But"
                        change(&french)
                        $0.variants = [Notification.LocaleVariant(locale: "de"), french]
                    }
                )
            }
        }
        #expect(variant { $0.body = "1:0" } == "sent")
        #expect(variant { $0.subtitle = "x" } == "contradiction notification.variants[1].subtitle")
        #expect(variant { $0.image = "https://example.com/" } == "contradiction notification.variants[1].image")
        #expect(variant { $0.clickAction = "x" } == "contradiction notification.variants[1].click_action")
    }
}
