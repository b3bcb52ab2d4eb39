import ApusAPNs
import ApusCore
import ApusMessages
import ApusProviders
import Testing

@Suite("Languages")
struct RenderedNotificationTests {
    private func rendered(_ locales: [String]) throws -> RenderedNotification<RenderedAPNsMessage> {
        let example = notification {
            $0.title = "Hi"
            $0.variants = locales.map {
                var variant = Notification.LocaleVariant(locale: $0)
                variant.title = "Hi in \($0)"
                return variant
            }
        }
        return try APNsRenderer(bundleID: "com.example.app").render(example, context: context())
    }

    @Test(
        "exact locale, then language, then the notification's own words",
        arguments: [
            ("fr", 1), ("fr-CA", 1), ("FR_ca", 1), ("pt-BR", 2), ("pt_br", 2), ("pt-PT", 3), ("pt", 3),
            ("zh-Hant-TW", 4),
            ("zh-Hans", 0), ("zh", 0), ("de", 0), ("", 0), ("f", 0), ("fra", 0), ("-", 0), ("fr-", 1), ("é", 0),
        ]
    )
    func lookup(locale: String, index: Int) throws {
        let rendered = try self.rendered(["fr", "pt-BR", "pt", "zh-Hant"])
        #expect(rendered.variantIndex(forLocale: Array(locale.utf8).span) == index)
    }

    @Test("a variant replaces what it says and keeps the rest")
    func words() throws {
        let rendered = try self.rendered(["fr"])
        #expect(rendered.variants.count == 2)
        let french = #"{"aps":{"alert":{"title":"Hi in fr","body":"Hello"}},"apus.send":"send-1"}"#
        let own = #"{"aps":{"alert":{"title":"Hi","body":"Hello"}},"apus.send":"send-1"}"#
        #expect(rendered[locale: "fr-FR"].body.text == french)
        #expect(rendered[locale: "de"].body.text == own)
    }

    @Test("a variant's text replaces a localisation key of the same place")
    func localizationKeys() {
        let example = notification {
            $0.titleLocKey = "T"
            $0.titleLocArgs = ["a"]
            $0.bodyLocKey = "B"
        }
        var variant = Notification.LocaleVariant(locale: "fr")
        variant.title = "Salut"
        let words = example.replacingTexts(by: variant)
        #expect(words.title == "Salut")
        #expect(words.titleLocKey.isEmpty && words.titleLocArgs.isEmpty)
        #expect(words.bodyLocKey == "B")
    }
}
