internal import ApusCore
internal import ApusMessages
internal import ApusProviders
internal import ApusTerminal

/// Draws notifications as devices would show them, and as providers get them. It is pure.
enum PreviewView {
    /// The texts of a notification in one language.
    struct Texts: Hashable, Sendable {
        var locale: String
        var title: String
        var subtitle: String
        var body: String
    }

    /// Returns the texts in each language, the notification's own first. What a variant leaves out is the notification's own.
    static func texts(of notification: Notification) -> [Texts] {
        let own = Texts(
            locale: "",
            title: notification.title,
            subtitle: notification.subtitle,
            body: notification.body
        )
        return [own]
            + notification.variants.map { variant in
                Texts(
                    locale: variant.locale,
                    title: variant.title.isEmpty ? own.title : variant.title,
                    subtitle: variant.subtitle.isEmpty ? own.subtitle : variant.subtitle,
                    body: variant.body.isEmpty ? own.body : variant.body
                )
            }
    }

    /// Returns pictures of a notification on an iPhone, an Android phone and in a browser, for each language.
    static func previews(of notification: Notification, app: String) -> HTML {
        let all = self.texts(of: notification)
        guard all.contains(where: { !$0.title.isEmpty || !$0.body.isEmpty }) else {
            return "<p class=\"hint\">It shows nothing: it wakes the app, or the app draws it from data.</p>"
        }
        let groups = all.map { texts -> HTML in
            let name = texts.locale.isEmpty ? "Own language" : texts.locale
            let language: HTML = texts.locale.isEmpty ? .none : " lang=\"\(texts.locale)\""
            return """
                <figure class="previews"><figcaption>\(name)</figcaption><div\(language)>
                \(self.phone(texts, app, "iPhone", "ios"))\(self.phone(texts, app, "Android phone", "android"))\(self.phone(texts, app, "Browser", "browser"))
                </div></figure>
                """
        }
        return "\(groups)"
    }

    private static func phone(_ texts: Texts, _ app: String, _ device: String, _ kind: String) -> HTML {
        let subtitle: HTML =
            kind == "ios" && !texts.subtitle.isEmpty
            ? "<p class=\"subtitle\" dir=\"auto\">\(texts.subtitle)</p>" : .none
        let source = kind == "browser" ? "your site" : "now"
        return """
            <div class="device \(kind)"><h3>\(device)</h3><div class="shown">
            <span class="icon" aria-hidden="true">\(String(app.prefix(1).uppercased()))</span>
            <p class="from"><span>\(app)</span> <small>\(source)</small></p>
            <p class="headline" dir="auto">\(texts.title)</p>\(subtitle)<p class="text" dir="auto">\(texts.body)</p>
            </div></div>
            """
    }

    /// Returns what each provider gets in each language.
    static func payloads(_ renderings: [RouteRendering]) -> HTML {
        let parts = renderings.map { rendering -> HTML in
            let headers = rendering.headers.map { "\($0.name): \($0.value)" }.joined(separator: "\n")
            let language = rendering.locale.isEmpty ? "own language" : rendering.locale
            return """
                <details><summary>\(rendering.route.description) <small>\(language), \(NumberText.grouped(rendering.payloadBytes)) of \
                \(NumberText.grouped(rendering.payloadBytesMax)) bytes</small></summary>
                <pre tabindex="0"><code>\(headers)
                \(rendering.payload)</code></pre></details>
                """
        }
        return "\(parts)"
    }
}
