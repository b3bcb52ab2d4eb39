internal import ApusCommand
internal import ApusCore
internal import ApusDispatcher
internal import ApusMessages
internal import ApusStore
internal import ApusStreams
internal import ApusTerminal

/// Holds what the search for devices found.
struct DeviceSearch: Sendable {
    /// A device, with its history.
    struct Found: Sendable {
        var id: String
        /// Its record; nil when it is not registered now.
        var device: StoredDevice?
        var topics: [String]
        var events: [HistoryEvent]
    }

    var device = ""
    var user = ""
    var token = ""
    /// The devices; nil when nothing was searched for.
    var found: [Found]?
}

/// Draws the search for devices, and what became of them. It is pure.
struct DevicesView {
    let viewer: Viewer
    let app: AppID
    let search: DeviceSearch
    let now: UnixMilliseconds

    private var path: ConsolePath { .app(self.app, .devices) }

    var page: Page {
        var page = Page("Devices", .devices)
        page.lead = """
            <form class="filter" method="get" action="\(self.path.text)" role="search">
            <div><label for="device">Device id</label><input id="device" name="device" value="\(self.search.device)" maxlength="128" autocomplete="off"></div>
            <div><label for="user">User id</label><input id="user" name="user" value="\(self.search.user)" maxlength="128" autocomplete="off"></div>
            <div><label for="token">Token</label><input id="token" name="token" value="\(self.search.token)" maxlength="4096" autocomplete="off"></div>
            <button>Find</button></form>
            """
        guard let found = self.search.found else {
            page.body =
                "<p class=\"hint\">Find a device by its id, its user or its token, and see why she did not get it.</p>"
            return page
        }
        page.body =
            found.isEmpty
            ? "<p class=\"empty\">No device of \(self.app.text) has that id, user or token.</p>"
            : "\(found.map(self.card))\(self.forgetUser)"
        return page
    }

    /// The form that forgets the user who was searched for.
    private var forgetUser: HTML {
        let user = self.search.user
        guard !user.isEmpty, self.search.device.isEmpty, self.viewer.mayAct(self.app.text) else { return .none }
        let act = Components.act(
            self.viewer,
            at: self.path,
            "Forget this user",
            [("action", "forget-user"), ("user", user)],
            kind: "danger"
        )
        return "<section><h2>The user <code>\(user)</code></h2>\(act)</section>"
    }

    private func card(_ found: DeviceSearch.Found) -> HTML {
        var facts: [(String, HTML)] = []
        if let device = found.device {
            let description = DeviceDescription(device, topics: found.topics, showsToken: false).json
            let shown = ["provider", "environment", "token", "user", "locale", "time_zone", "app_version", "country"]
            for name in shown {
                facts.append((name.replacing("_", with: " "), "\(description[name]?.string ?? "")"))
            }
            facts.append(("topics", "\(found.topics.sorted().joined(separator: ", "))"))
            facts.append(("registered", Components.time(device.registeredAt)))
            if let suspicion = device.record.suspicion {
                facts.append(("suspected", "since \(Components.time(suspicion.since)): \(suspicion.reason.name)"))
            }
        }
        let state =
            found.device == nil
            ? Components.badge("not registered", "fail")
            : found.device?.record.suspicion == nil
                ? Components.badge("registered", "ok") : Components.badge("suspected", "warn")
        let history = DeviceHistory(id: found.id, device: found.device, events: found.events)
        let items = history.timeline.reversed().map { event -> HTML in
            let words = [
                event.kind == .ended ? event.outcome?.name : nil, event.kind == .accepted ? nil : event.reason?.name,
                event.providerReason.isEmpty ? nil : "“\(event.providerReason)”",
            ].compactMap(\.self).joined(separator: ", ")
            let send: HTML =
                event.send.isEmpty
                ? .none
                : " <a href=\"/apps/\(self.app.text)/sends/\(event.send)\"><code>\(event.send)</code></a>"
            let kind = event.kind.rawValue.replacing("_", with: " ")
            return "<li>\(Components.time(event.at)) <span><strong>\(kind)</strong> \(words)\(send)</span></li>"
        }
        var acts: HTML = .none
        if found.device != nil, self.viewer.mayAct(self.app.text) {
            acts = Components.act(
                self.viewer,
                at: self.path,
                "Forget this device",
                [("action", "forget"), ("device", found.id)],
                kind: "danger"
            )
        }
        return """
            <section><h2><code>\(found.id)</code> \(state)</h2>\(Components.facts(facts))
            <h3>What became of it, newest first</h3><ol class="timeline">\(Array(items))</ol>
            <p class="hint">\(DeviceHistory.omissions).</p>\(acts)</section>
            """
    }
}

/// Draws the topics of an app, and the size of an audience. It is pure.
struct TopicsView {
    let viewer: Viewer
    let app: AppID
    /// The names, sorted, that contain the searched text.
    let topics: [String]
    /// The number of all topics.
    let count: Int
    let search: String
    let expression: String
    let report: AudienceReport?
    /// The mistake in the expression; nil when there is none.
    let mistake: String?
    /// The number of devices by route.
    let devices: [(route: String, count: Int)]

    /// The maximum of topics on the page.
    static let countMax = 200

    private var path: ConsolePath { .app(self.app, .topics) }

    var page: Page {
        var page = Page("Audiences", .topics)
        page.body = "\(self.calculator)\(self.all)\(self.names)"
        return page
    }

    private var calculator: HTML {
        var answer: HTML = .none
        if let mistake {
            answer = "<p class=\"notice error\" role=\"alert\">\(mistake)</p>"
        } else if let report {
            let rows = report.rows.filter { $0.size.candidates > 0 }.map { row -> [HTML] in
                [
                    "\(row.realm.name)",
                    "\(row.size.matching.map { NumberText.grouped($0) } ?? "up to \(NumberText.grouped(row.size.candidates))")",
                ]
            }
            let total = report.total.map { NumberText.grouped($0) } ?? "?"
            answer = """
                <p class="value">\(total) <small>devices match <code>\(report.expression)</code></small></p>
                \(Components.table("Devices by route", ["Route", ">Devices"], rows, empty: ""))
                """
        }
        return """
            <section><h2>How many would it reach?</h2>
            <form class="filter" method="get" action="\(self.path.text)"><div class="grow"><label for="expression">Audience expression</label>
            <input id="expression" name="expression" value="\(self.expression)" maxlength="\(Limits.expressionBytesMax)" placeholder="'news' in topics &amp;&amp; locale in ['en', 'fr']" autocomplete="off" spellcheck="false"></div>
            <button>Count</button></form>\(answer)</section>
            """
    }

    private var all: HTML {
        let rows = self.devices.filter { $0.count > 0 }.map { row -> [HTML] in
            ["<code>\(row.route)</code>", "\(NumberText.grouped(row.count))"]
        }
        let table = Components.table(
            "All devices by route",
            ["Route", ">Devices"],
            rows,
            empty: "No device is registered."
        )
        return "<section><h2>All devices</h2>\(table)</section>"
    }

    private var names: HTML {
        let rows = self.topics.map { name -> [HTML] in
            let query = FormFields.encoded("'\(name)' in topics")
            return [
                "<span dir=\"auto\">\(name)</span>",
                "<a href=\"\(self.path.text)?expression=\(query)\">Count its devices<span class=\"hidden\"> of \(name)</span></a>",
            ]
        }
        let table = Components.table("Topics", ["Topic", "Size"], rows, empty: "No such topic.")
        let more: HTML =
            self.topics.count >= Self.countMax
            ? "<p class=\"hint\">The first \(Self.countMax) are shown: search for others.</p>" : .none
        return """
            <section><h2>Topics <small>\(NumberText.grouped(self.count))</small></h2>
            <form class="filter" method="get" action="\(self.path.text)"><div><label for="topic">Part of the name</label>
            <input id="topic" name="topic" type="search" value="\(self.search)" autocomplete="off"></div><button>Search</button></form>
            \(table)\(more)</section>
            """
    }
}

/// Holds the values of the form for a new send.
struct ComposedSend: Hashable, Sendable {
    /// A kind of audience that the form offers.
    enum Audience: String, CaseIterable, Sendable {
        case topic
        case expression
        case users
        case devices
        case everyone

        var words: String {
            switch self {
            case .topic: "a topic"
            case .expression: "an audience expression"
            case .users: "users, by id"
            case .devices: "devices, by id"
            case .everyone: "everyone"
            }
        }
    }

    /// The maximum of languages beside the notification's own.
    static let variantsMax = 8

    var id: String
    var audience = Audience.topic
    var names = ""
    var title = ""
    var body = ""
    var link = ""
    var image = ""
    var ttl = ""
    var start = ""
    var isHigh = true
    var isExpress = false
    /// The texts in further languages.
    var variants: [(locale: String, title: String, body: String)] {
        self.languages.map { ($0.locale, $0.title, $0.body) }
    }
    var languages: [Language] = []

    /// Texts in another language.
    struct Language: Hashable, Sendable {
        var locale: String
        var title: String
        var body: String
    }

    /// Creates an empty form whose send will have that id.
    init(id: String) { self.id = id }

    /// Reads a form that was sent.
    init(_ fields: FormFields) {
        self.id = fields["id"]
        self.audience = Audience(rawValue: fields["audience"]) ?? .topic
        self.names = fields["names"]
        self.title = fields["title"]
        self.body = fields["body"]
        self.link = fields["link"]
        self.image = fields["image"]
        self.ttl = fields["ttl"]
        self.start = fields["start"]
        self.isHigh = fields["priority"] != "normal"
        self.isExpress = fields["lane"] == "express"
        let (locales, titles, bodies) = (fields.all("locale"), fields.all("variant_title"), fields.all("variant_body"))
        for index in locales.indices.prefix(Self.variantsMax) where !locales[index].isEmpty {
            self.languages.append(
                Language(
                    locale: locales[index],
                    title: index < titles.count ? titles[index] : "",
                    body: index < bodies.count ? bodies[index] : ""
                )
            )
        }
    }

    /// Returns the command.
    ///
    /// - Throws: `SendArguments.UsageError` when a rule is broken.
    func command(app: AppID, now: UnixMilliseconds) throws -> SendCommand {
        var arguments = SendArguments()
        arguments.app = app.text
        arguments.id = self.id
        let words = self.names.split(whereSeparator: { $0.isWhitespace || $0 == "," }).map(String.init)
        switch self.audience {
        case .topic: arguments.topic = self.names
        case .expression: arguments.audience = self.names
        case .users: arguments.users = words
        case .devices: arguments.devices = words
        case .everyone: arguments.everyone = true
        }
        arguments.title = self.title
        arguments.body = self.body
        arguments.ttl = self.ttl.isEmpty ? nil : self.ttl
        arguments.notBefore = self.start.isEmpty ? nil : self.start
        arguments.notification.clickAction = self.link
        arguments.notification.image = self.image
        arguments.notification.priority = self.isHigh ? .high : .normal
        arguments.notification.variants = self.languages.map { language in
            var variant = Notification.LocaleVariant(locale: language.locale)
            variant.title = language.title
            variant.body = language.body
            return variant
        }
        return try arguments.command(now: now)
    }
}

/// Draws the form for a new send, and what it would do. It is pure.
struct ComposeView {
    let viewer: Viewer
    let app: AppID
    let form: ComposedSend
    /// The command, once the form was checked.
    var command: SendCommand?
    /// The result of trying the send; nil before it was tried, or without the services' configuration.
    var report: DryRunReport?
    /// The reason why it was not tried; empty when it was.
    var untried = ""

    private var path: ConsolePath { .app(self.app, .compose) }

    var page: Page {
        var page = Page("Compose", .compose)
        guard self.viewer.mayAct(self.app.text) else {
            page.body = Components.readOnly(self.viewer, self.app.text, at: self.path.text)
            return page
        }
        page.body = self.whole
        return page
    }

    private var whole: HTML {
        let session = self.viewer.session?.formToken ?? ""
        let audiences = ComposedSend.Audience.allCases.map { audience -> HTML in
            "<option value=\"\(audience.rawValue)\"\(self.form.audience == audience ? " selected" : "")>\(audience.words)</option>"
        }
        let languages = (0..<min(ComposedSend.variantsMax, self.form.languages.count + 2)).map { index -> HTML in
            let language =
                index < self.form.languages.count
                ? self.form.languages[index] : ComposedSend.Language(locale: "", title: "", body: "")
            return """
                <fieldset><legend>Language \(index + 2)</legend>
                <div><label for="locale-\(index)">Language tag</label><input id="locale-\(index)" name="locale" value="\(language.locale)" maxlength="35" placeholder="fr, pt-BR" autocomplete="off"></div>
                <div><label for="title-\(index)">Title</label><input id="title-\(index)" name="variant_title" value="\(language.title)" dir="auto"></div>
                <div><label for="body-\(index)">Text</label><textarea id="body-\(index)" name="variant_body" rows="2" dir="auto">\(language.body)</textarea></div>
                </fieldset>
                """
        }
        return """
            <form class="compose" method="post" action="\(self.path.text)">
            <input type="hidden" name="form_token" value="\(session)"><input type="hidden" name="id" value="\(self.form.id)">
            <fieldset><legend>Who gets it</legend>
            <div><label for="audience">To</label><select id="audience" name="audience">\(audiences)</select></div>
            <div class="grow"><label for="names">Topic, expression or ids</label><textarea id="names" name="names" rows="2" spellcheck="false" aria-describedby="names-hint">\(self.form.names)</textarea>
            <p class="hint" id="names-hint">Ids are separated by spaces, commas or new lines. Leave it empty for everyone.</p></div>
            </fieldset>
            <fieldset><legend>What it says</legend>
            <div class="grow"><label for="title">Title</label><input id="title" name="title" value="\(self.form.title)" dir="auto"></div>
            <div class="grow"><label for="body">Text</label><textarea id="body" name="body" rows="3" dir="auto">\(self.form.body)</textarea></div>
            <div><label for="link">Link</label><input id="link" name="link" type="url" value="\(self.form.link)"></div>
            <div><label for="image">Picture (https)</label><input id="image" name="image" type="url" value="\(self.form.image)"></div>
            </fieldset>
            <details\(self.form.languages.isEmpty ? .none : " open" as HTML)><summary>Other languages</summary>\(languages)</details>
            <fieldset><legend>When and how</legend>
            <div><label for="start">Not before</label><input id="start" name="start" value="\(self.form.start)" placeholder="2h, or 2026-12-01T09:00:00Z" autocomplete="off"></div>
            <div><label for="ttl">Worth keeping for</label><input id="ttl" name="ttl" value="\(self.form.ttl)" placeholder="30m, 2h, 1d" autocomplete="off"></div>
            <div><label for="priority">Urgency</label><select id="priority" name="priority"><option value="high"\(self.form.isHigh ? " selected" : "")>at once</option><option value="normal"\(self.form.isHigh ? "" : " selected")>when the device is awake</option></select></div>
            <div><label for="lane">Lane</label><select id="lane" name="lane"><option value="bulk"\(self.form.isExpress ? "" : " selected")>bulk</option><option value="express"\(self.form.isExpress ? " selected" : "")>express: a person waits</option></select></div>
            </fieldset>
            <div class="controls"><button name="action" value="preview" class="\(self.command == nil ? "" : "quiet")">Preview</button>\
            \(self.command == nil ? .none : "<button name=\"action\" value=\"send\">Send</button>" as HTML)</div>
            \(self.preview)
            </form>
            """
    }

    /// Returns what a person is asked before a send is published.
    ///
    /// - Parameter report: what it would do; nil when that is not known.
    static func confirmation(of command: SendCommand, report: DryRunReport?) -> Confirmation {
        let audience = TargetText.words(command.target)
        let previews = PreviewView.previews(of: command.notification, app: command.app)
        let count = report.map {
            $0.recipients == 1
                ? ", 1 recipient as of now" : ", \(NumberText.grouped($0.recipients)) recipients as of now"
        }
        return Confirmation(
            question: "Send it to \(audience)?",
            consequence: "It is published to \(audience)\(count ?? ""). Whom it has reached cannot be taken back.",
            words: "Send it",
            isDestructive: false,
            details: "<section><h2>Message</h2>\(previews)</section>",
        )
    }

    private var preview: HTML {
        guard let command else { return .none }
        var result: HTML = "<p class=\"hint\">\(self.untried)</p>"
        if let report {
            let routes = report.audiences.map { row -> [HTML] in
                ["<code>\(row.route.description)</code>", "\(NumberText.grouped(row.recipients))"]
            }
            let closed = report.closed.map { count -> [HTML] in
                ["\(count.provider.name): \(count.reason.name)", "\(NumberText.grouped(count.count))"]
            }
            let lints = report.lints.map { "<li><strong>\($0.code)</strong> \($0.detail)</li>" as HTML }
            result = """
                <p class="value">\(NumberText.grouped(report.recipients)) <small>recipients</small></p>
                \(Components.table("Recipients by route", ["Route", ">Recipients"], routes + closed, empty: "Nobody would get it."))
                \(lints.isEmpty ? .none : "<h3>Advice</h3><ul class=\"plain\">\(lints)</ul>" as HTML)
                <h3>As each provider gets it</h3>\(PreviewView.payloads(report.renderings))
                """
        }
        return """
            <section class="result"><h2>Preview</h2>\(PreviewView.previews(of: command.notification, app: self.app.text))\(result)</section>
            """
    }
}
