internal import ApusCommand
internal import ApusCore
internal import ApusDispatcher
internal import ApusMessages
internal import ApusStreams
internal import ApusTerminal

/// Draws the routes of an app and their credentials. It is pure.
struct RoutesView {
    let viewer: Viewer
    let app: AppID
    let routes: [RouteControlReport.Row]
    /// The credentials, or why the services' configuration does not tell them.
    let credentials: Result<[CredentialCheck.Finding], CommandFailure>
    /// The number of devices by route.
    let devices: [String: Int]
    let now: UnixMilliseconds

    private var path: ConsolePath { .app(self.app, .routes) }

    var page: Page {
        var page = Page("Routes", .routes)
        page.lead = Components.readOnly(self.viewer, self.app.text, at: self.path.text)
        page.body = "<section><h2>Routes</h2>\(self.table)</section><section><h2>Credentials</h2>\(self.keys)</section>"
        return page
    }

    private var table: HTML {
        let rows = self.routes.map { row -> [HTML] in
            var obstacles = row.obstacles.map { "<li>\($0.sentence)</li>" as HTML }
            if row.state.stop == .byGuard {
                let path = ConsolePath.app(self.app, .quarantine).text
                obstacles.append("<li><a href=\"\(path)\">Settle its quarantine</a></li>")
            }
            let state: HTML =
                row.state.isPaused
                ? Components.badge("paused", "warn")
                : row.obstacles.isEmpty ? Components.badge("sending", "ok") : Components.badge("held back", "fail")
            let rate = row.state.ratePerSecond.map { "\(NumberText.rate($0))/s" } ?? "any"
            return [
                "<code>\(row.route)</code>", state,
                obstacles.isEmpty ? "not held back" : "<ul class=\"plain\">\(obstacles)</ul>",
                "\(row.state.isOverridden ? "\(rate), set by an operator" : rate)",
                "\(Int((row.state.rateLimit.level * 100).rounded())) %",
                "\(self.devices[row.route].map { NumberText.grouped($0) } ?? "")", self.acts(row),
            ]
        }
        return Components.table(
            "Routes of \(self.app)",
            ["Route", "State", "Held back by", "Rate", ">Level", ">Devices", "Actions"],
            rows,
            empty: "No dispatcher has had a provider of this app in its configuration yet."
        )
    }

    private func acts(_ row: RouteControlReport.Row) -> HTML {
        guard self.viewer.mayAct(self.app.text) else { return .none }
        let action = row.state.isPaused ? "resume" : "pause"
        return Components.act(
            self.viewer,
            at: self.path,
            row.state.isPaused ? "Resume" : "Pause",
            [("action", action), ("route", row.route)],
            kind: row.state.isPaused ? "" : "quiet"
        )
    }

    private var keys: HTML {
        let credentials: [CredentialCheck.Finding]
        switch self.credentials {
        case .success(let findings): credentials = findings
        case .failure(let failure): return "<p class=\"empty\">\(failure.description)</p>"
        }
        let rows = credentials.map { finding -> [HTML] in
            let (word, kind, detail): (String, String, String) =
                switch finding.verdict {
                case .taken: ("accepted", "ok", "")
                case .usable: ("can be read", "ok", "")
                case .unasked: ("can be read", "ok", "")
                case .refused(let reason): ("refused", "fail", reason)
                case .unanswered(let reason): ("no answer", "warn", reason)
                }
            let advice = [detail, finding.cure ?? "", finding.doubt ?? ""].filter { !$0.isEmpty }
            let expiry: HTML =
                finding.expiresAt.map { time -> HTML in
                    "\(Components.time(time)) <small>in \(NumberText.age(milliseconds: time.milliseconds(since: self.now)))</small>"
                } ?? "does not expire"
            return [
                "<code>\(finding.route.description)</code>", "\(finding.credential)", Components.badge(word, kind),
                expiry,
                "\(advice.joined(separator: ". "))",
            ]
        }
        return Components.table(
            "Credentials of \(self.app)",
            ["Route", "Credential", "State", "Expires", "Advice"],
            rows,
            empty: "The configuration names no credential for this app."
        )
    }
}

/// Draws the dead letters of an app. It is pure.
struct DeadLettersView {
    let viewer: Viewer
    let app: AppID
    let letters: [(letter: StoredDeadLetter, replay: String)]
    let cause: DeadLetter.Cause?
    let now: UnixMilliseconds

    /// The maximum of letters on the page.
    static let countMax = 100

    private var path: ConsolePath { .app(self.app, .deadLetters) }

    var page: Page {
        var page = Page("Dead letters", .deadLetters)
        page.lead = "\(Components.readOnly(self.viewer, self.app.text, at: self.path.text))\(self.filter)"
        page.body = """
            <p class="hint">Messages that could not be handled, with the reason, newest first. A replay writes a message to its stream again.</p>
            \(self.form)
            """
        return page
    }

    private var filter: HTML {
        let causes = DeadLetter.Cause.allCases.map { cause -> HTML in
            "<option\(self.cause == cause ? " selected" : "")>\(cause.name)</option>"
        }
        return """
            <form class="filter" method="get" action="\(self.path.text)">
            <div><label for="cause">Cause</label><select id="cause" name="cause"><option value="">any</option>\(causes)</select></div>
            <button>Filter</button></form>
            """
    }

    private var form: HTML {
        guard let session = self.viewer.session, self.viewer.mayAct(self.app.text), !self.letters.isEmpty else {
            return self.table(selectable: false)
        }
        return """
            <form method="post" action="\(self.path.text)">
            <input type="hidden" name="form_token" value="\(session.formToken)"><input type="hidden" name="cause" value="\(self.cause?.name ?? "")">
            \(self.table(selectable: true))
            <div class="controls">
            <button name="action" value="replay">Replay the selected</button>
            <button class="quiet" name="action" value="replay-all">Replay all of this filter</button>
            <button class="danger" name="action" value="purge">Remove the selected</button>
            </div></form>
            """
    }

    private func table(selectable: Bool) -> HTML {
        let rows = self.letters.map { entry -> [HTML] in
            let (stored, letter) = (entry.letter, entry.letter.letter)
            let id = "\(stored.id)"
            let name: HTML =
                selectable
                ? "<label class=\"pick\"><input type=\"checkbox\" name=\"letter\" value=\"\(id)\"> <code>\(id)</code></label>"
                : "<code>\(id)</code>"
            let send: HTML =
                letter.send.isEmpty
                ? .none : "<a href=\"/apps/\(self.app.text)/sends/\(letter.send)\"><code>\(letter.send)</code></a>"
            let message = MessageSummary(stored.message)?.lines.joined(separator: "\n") ?? "cannot be read"
            return [
                name, "\(Components.badge(letter.cause.name, "fail"))",
                "\(letter.problem.description)<details><summary>Message</summary><pre tabindex=\"0\"><code>\(message)</code></pre></details>",
                send, "\(entry.replay)", "\(Components.age(letter.at, now: self.now))",
            ]
        }
        return Components.table(
            "Dead letters of \(self.app)",
            ["Letter", "Cause", "Problem", "Send", "A replay", ">Given up"],
            rows,
            empty: "There are no such dead letters."
        )
    }
}

/// Draws the quarantined tokens of an app. It is pure.
struct QuarantineView {
    let viewer: Viewer
    let app: AppID
    let routes: [QuarantinedRoute]
    let now: UnixMilliseconds

    /// Holds what is shown of one route.
    struct QuarantinedRoute: Sendable {
        var row: Quarantines.Row
        /// The numbers of tokens by our vocabulary's reason, the largest first.
        var reasons: [(reason: String, count: Int)]
        /// The devices of the tokens that have waited longest.
        var samples: [Sample]
    }

    /// Describes one device whose token is in quarantine.
    struct Sample: Sendable {
        var device: String
        var reason: String
        /// The provider's own word in the device's history; empty when it has none.
        var word: String
        var since: UnixMilliseconds
    }

    private var path: ConsolePath { .app(self.app, .quarantine) }

    var page: Page {
        var page = Page("Quarantine", .quarantine)
        page.lead = Components.readOnly(self.viewer, self.app.text, at: self.path.text)
        let cards = self.routes.map(self.card)
        page.body =
            cards.isEmpty
            ? "<p class=\"empty\">No token is in quarantine.</p>"
            : "\(cards)"
        page.body = """
            <p class="hint">A token that a provider calls bad gets nothing for ten minutes and is then removed. When too many of a route's tokens \
            are called bad at once, the mistake is more likely ours: the route stops, and nothing is removed until you decide.</p>\(page.body)
            """
        return page
    }

    private func card(_ route: QuarantinedRoute) -> HTML {
        let (row, reasons) = (route.row, route.reasons)
        let facts = Components.facts([
            ("Tokens", "\(NumberText.grouped(row.state.tokens))"),
            (
                "Stopped",
                "\(row.state.quarantinedAt.map { "\(NumberText.age(milliseconds: self.now.milliseconds(since: $0))) ago" } ?? "no")"
            ),
            (
                "Because",
                "\(row.state.quarantinedAt == nil ? "" : "\(NumberText.grouped(row.state.causeTokens)) of \(NumberText.grouped(row.state.causeAnswers)) answers called a token \(row.state.isForDead ? "dead" : "bad")")"
            ),
            ("Moved instead of removed", "\(row.moving > 0 ? NumberText.grouped(row.moving) : "")"),
            ("Tried again instead", "\(row.retrying > 0 ? NumberText.grouped(row.retrying) : "")"),
        ])
        let words = reasons.map { reason -> [HTML] in
            ["<code>\(reason.reason)</code>", "\(NumberText.grouped(reason.count))"]
        }
        let table = Components.table("Reasons", ["Reason", ">Tokens"], words, empty: "")
        let devices = route.samples.map { sample -> [HTML] in
            let link = "\(ConsolePath.app(self.app, .devices).text)?device=\(FormFields.encoded(sample.device))"
            return [
                "<a href=\"\(link)\"><code>\(sample.device)</code></a>", "<code>\(sample.reason)</code>",
                sample.word.isEmpty ? "<span class=\"muted\">not recorded</span>" : "“\(sample.word)”",
                Components.age(sample.since, now: self.now),
            ]
        }
        let samples: HTML =
            devices.isEmpty
            ? .none
            : Components.table(
                "Devices that have waited longest",
                ["Device", "Reason", "The provider's words", ">Since"],
                devices,
                empty: ""
            )
        var acts: HTML = .none
        if self.viewer.mayAct(self.app.text) {
            let restore = Components.act(
                self.viewer,
                at: self.path,
                "Restore: send to them again",
                [("action", "restore"), ("route", row.route)]
            )
            let confirm = Components.act(
                self.viewer,
                at: self.path,
                "Confirm: remove their devices",
                [("action", "confirm"), ("route", row.route)],
                kind: "danger"
            )
            acts = "<div class=\"controls\">\(restore)\(confirm)</div>"
        }
        let state =
            row.state.quarantinedAt == nil
            ? Components.badge("waiting", "idle") : Components.badge("stopped by the guard", "fail")
        return "<section><h2><code>\(row.route)</code> \(state)</h2>\(facts)\(table)\(samples)\(acts)</section>"
    }
}

/// Draws the audit trail. It is pure.
struct AuditView {
    let viewer: Viewer
    let app: AppID
    let entries: [AuditEntry]
    /// The id of the entry before which the next page begins; nil at the end.
    let next: String?

    /// The number of entries on a page.
    static let countMax = 100

    var page: Page {
        var page = Page("Audit", .audit)
        let rows = self.entries.map { entry -> [HTML] in
            [
                "\(Components.time(entry.at))", "\(entry.actor)", "\(entry.source.rawValue)",
                "<code>\(entry.action)</code>", "\(entry.object)", "\(entry.detail)",
            ]
        }
        let table = Components.table(
            "What operators did with \(self.app)",
            ["Time", "Who", "By", "Action", "Object", "Detail"],
            rows,
            empty: "Nothing was recorded for this app yet."
        )
        let older: HTML =
            self.next.map {
                "<p class=\"paging\"><a class=\"button quiet\" href=\"\(ConsolePath.app(self.app, .audit).text)?before=\($0)\">Older</a></p>"
            } ?? .none
        page.body = """
            <p class="hint">Commands of apus, requests to the HTTP API and this console leave an entry before they act. Entries are kept for a year.</p>\
            \(table)\(older)
            """
        return page
    }
}
