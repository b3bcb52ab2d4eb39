import ApusCore
import ApusMessages
import ApusProviders
import Testing

@Suite("Rules for every provider: the limit passes, one past it does not")
struct NotificationRulesTests {
    private func check(_ change: (inout Notification) -> Void) -> String {
        refusal { try NotificationRules.check(notification(.alert, change)) }
    }

    @Test("texts and names")
    func texts() {
        let text = String(repeating: "a", count: Limits.textBytesMax)
        let name = String(repeating: "a", count: Limits.nameBytesMax)
        #expect(self.check { $0.title = text } == "sent")
        #expect(self.check { $0.title = text + "a" } == "too_long notification.title")
        #expect(self.check { $0.subtitle = text + "a" } == "too_long notification.subtitle")
        #expect(self.check { $0.body = text + "a" } == "too_long notification.body")
        #expect(self.check { $0.tag = name } == "sent")
        #expect(self.check { $0.tag = name + "a" } == "too_long notification.tag")
        #expect(self.check { $0.category = name + "a" } == "too_long notification.category")
        #expect(self.check { $0.clickAction = name + "a" } == "too_long notification.click_action")
    }

    @Test func `A badge is at most what every provider takes, but for a send that was accepted before`() {
        #expect(self.check { $0.badge = .set(Limits.badgeMax) } == "sent")
        #expect(self.check { $0.badge = .set(Limits.badgeMax + 1) } == "invalid_value notification.badge_set")
        #expect(self.check { $0.badge = .increment(.max) } == "invalid_value notification.badge_increment")
        let old = notification(.alert) { $0.badge = .set(.max) }
        #expect(refusal { try NotificationRules.check(old, isAccepted: true) } == "sent")
    }

    @Test("localisation arguments")
    func localization() {
        func arguments(_ count: Int) -> [String] { Array(repeating: "a", count: count) }
        let most = Limits.localizationArgumentsMax
        #expect(
            self.check {
                $0.titleLocKey = "k"
                $0.titleLocArgs = arguments(most)
            } == "sent"
        )
        #expect(
            self.check {
                $0.titleLocKey = "k"
                $0.titleLocArgs = arguments(most + 1)
            } == "too_many notification.title_loc_args"
        )
        #expect(self.check { $0.subtitleLocArgs = ["a"] } == "missing_value notification.subtitle_loc_key")
    }

    @Test("data")
    func data() {
        func entries(_ count: Int) -> [String: String] {
            Dictionary(uniqueKeysWithValues: (0..<count).map { ("k\($0)", "v") })
        }
        #expect(self.check { $0.data = entries(Limits.dataEntriesMax) } == "sent")
        #expect(self.check { $0.data = entries(Limits.dataEntriesMax + 1) } == "too_many notification.data")
        #expect(
            self.check { $0.data = [String(repeating: "k", count: Limits.dataKeyBytesMax + 1): "v"] }
                == "too_long notification.data"
        )
        #expect(self.check { $0.data = ["k": String(repeating: "v", count: Limits.dataValueBytesMax)] } == "sent")
        #expect(
            self.check { $0.data = ["k": String(repeating: "v", count: Limits.dataValueBytesMax + 1)] }
                == "too_long notification.data[k]"
        )
        #expect(self.check { $0.data = ["": "v"] } == "invalid_value notification.data")
    }

    @Test("a hostile key does not reach the answer as it is")
    func hostileKey() {
        let key = "a\u{1b}\n" + String(repeating: "k", count: 100)
        let answer = self.check { $0.data = [key: String(repeating: "v", count: Limits.dataValueBytesMax + 1)] }
        #expect(answer == "too_long notification.data[a  " + String(repeating: "k", count: 61) + "]")
    }

    @Test("locale variants")
    func variants() {
        func variants(_ locales: [String]) -> [Notification.LocaleVariant] {
            locales.map { Notification.LocaleVariant(locale: $0) }
        }
        let most = (0..<Limits.localeVariantsMax).map { "l\($0)" }
        #expect(self.check { $0.variants = variants(most) } == "sent")
        #expect(self.check { $0.variants = variants(most + ["fr"]) } == "too_many notification.variants")
        #expect(self.check { $0.variants = variants(["fr", "FR"]) } == "contradiction notification.variants[1].locale")
        for locale in ["", "pt_BR", "fr ", String(repeating: "a", count: 36)] {
            #expect(self.check { $0.variants = variants([locale]) } == "invalid_value notification.variants[0].locale")
        }
    }

    @Test("links")
    func links() {
        let longest = "https://example.com/" + String(repeating: "a", count: FieldRules.linkBytesMax - 20)
        #expect(self.check { $0.image = longest } == "sent")
        #expect(self.check { $0.image = longest + "a" } == "too_long notification.image")
        for link in ["https://", "http://a/", "https://a b/", "javascript:x", "https://é/"] {
            #expect(self.check { $0.image = link } == "invalid_value notification.image")
        }
    }

    @Test("expiry")
    func expiry() {
        #expect(self.check { $0.expiry = .at(UnixMilliseconds(0)) } == "invalid_value notification.expires_at_ms")
        #expect(self.check { $0.expiry = .at(UnixMilliseconds(1)) } == "sent")
        #expect(self.check { $0.expiry = .ttl(milliseconds: .max) } == "sent")
    }
}
