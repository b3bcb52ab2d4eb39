internal import ApusCore

/// Holds the content of a page, before the frame that all pages share.
struct Page: Sendable {
    /// The title, which is the heading of the page, too.
    var title: String
    /// The page of the app in the navigation; nil for the overview and pages outside of it.
    var place: AppPage?
    /// Words beside the heading: a state, or a link back.
    var aside: HTML = .none
    /// The part that is kept up to date while it is looked at; empty when the page has none.
    var live: HTML = .none
    /// The part above the live one, such as a form that filters it.
    var lead: HTML = .none
    /// The rest.
    var body: HTML = .none

    /// Creates a page.
    init(_ title: String, _ place: AppPage? = nil) {
        self.title = title
        self.place = place
    }
}

/// Puts pages into their frame: navigation, session, messages. It is pure.
struct Layout: Sendable {
    let viewer: Viewer
    /// The app whose pages the navigation leads to; nil when no app is known.
    let app: AppID?
    /// The path and query of the request, for the live part and the way back after signing in.
    let target: String

    /// A message above a page: what was done, or why not.
    struct Notice: Hashable, Sendable {
        var isError: Bool
        var text: String
        /// The page that it is about; nil for the one below.
        var subject: ConsolePath?
    }

    /// Returns the whole document.
    func document(_ page: Page, notice: Notice? = nil) -> HTML {
        let live: HTML =
            page.live.isEmpty
            ? .none : "<div id=\"live\" data-live=\"/live?page=\(FormFields.encoded(self.target))\">\(page.live)</div>"
        return """
            <!DOCTYPE html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">
            <title>\(page.title) · Apus</title>
            <link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
            <link rel="stylesheet" href="/assets/console.css">
            <script src="/assets/console.js" defer></script>
            </head>
            <body>
            <a class="skip" href="#main">Skip to the content</a>
            <header class="top">
            <a class="brand" href="/"><img src="/assets/icon.svg" alt="" width="28" height="28"><span>Apus</span></a>
            \(self.appSwitch)
            \(self.session)
            </header>
            <div class="frame">
            \(self.navigation(page))
            <main id="main" tabindex="-1">
            <div class="heading"><h1>\(page.title)</h1>\(page.aside)</div>
            \(Self.message(notice))
            \(page.lead)
            \(live)
            \(page.body)
            </main>
            </div>
            </body>
            </html>
            """
    }

    private static func message(_ notice: Notice?) -> HTML {
        guard let notice else { return .none }
        let kind = notice.isError ? "error" : "done"
        let link: HTML = notice.subject.map { " <a href=\"\($0.text)\">Look at it</a>" as HTML } ?? .none
        return "<p class=\"notice \(kind)\" role=\"\(notice.isError ? "alert" : "status")\">\(notice.text)\(link)</p>"
    }

    private var appSwitch: HTML {
        guard let app, self.viewer.apps.count > 1 else {
            return self.app.map { app in "<span class=\"app\">\(app.text)</span>" } ?? .none
        }
        let options = self.viewer.apps.map { name -> HTML in
            "<option value=\"\(name)\"\(name == app.text ? " selected" : "")>\(name)</option>"
        }
        return """
            <form class="app" method="get" action="/">
            <label for="app">App</label>
            <select id="app" name="app">\(options)</select>
            <button class="quiet">Show</button>
            </form>
            """
    }

    private var session: HTML {
        guard let session = self.viewer.session else {
            return "<a class=\"session\" href=\"/sign-in?next=\(FormFields.encoded(self.target))\">Sign in</a>"
        }
        return """
            <form class="session" method="post" action="/sign-out">
            <input type="hidden" name="form_token" value="\(session.formToken)">
            <span>\(session.key) <small>of \(session.app.text)</small></span>
            <button class="quiet">Sign out</button>
            </form>
            """
    }

    private func navigation(_ page: Page) -> HTML {
        guard let app else { return .none }
        func item(_ href: String, _ title: String, isCurrent: Bool) -> HTML {
            "<li><a href=\"\(href)\"\(isCurrent ? " aria-current=\"page\"" : "")>\(title)</a></li>"
        }
        let items = AppPage.allCases.map { place in
            item(ConsolePath.app(app, place).text, place.title, isCurrent: page.place == place)
        }
        let overview = item(
            "/?app=\(app.text)",
            "Overview",
            isCurrent: ConsolePath(self.target.prefix { $0 != "?" }) == .overview
        )
        return "<nav aria-label=\"Pages\"><ul>\(overview)\(items)</ul></nav>"
    }
}
