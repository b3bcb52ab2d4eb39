internal import ApusCommand
internal import ApusCore
internal import ApusMessages
internal import ApusProviders
internal import ApusStreams
internal import ApusTerminal

/// Holds a page of the list of sends.
struct SendList: Sendable {
    /// A send in the list.
    struct Row: Sendable {
        var status: SendStatus
        var acceptedAt: UnixMilliseconds?
        var ratePerSecond: UInt32
        /// The title that its recipients see; empty when its command is not kept.
        var title: String
        /// Its audience in words; empty when its command is not kept.
        var target: String
    }

    var rows: [Row]
    /// The place where the next page begins; nil at the end.
    var next: SendListCursor?
    var state: SendLists.State?
    var search: String
    /// The direct sends that ended last, the last first; none on pages that filter, or are behind the first.
    var direct: [(at: UnixMilliseconds, status: SendStatus)] = []
    /// True for a page behind the first.
    var isFurther: Bool
}

/// Draws the list of an app's sends. It is pure.
struct SendListView {
    let viewer: Viewer
    let app: AppID
    let list: SendList
    let now: UnixMilliseconds

    var page: Page {
        var page = Page("Sends", .sends)
        page.aside = "<a class=\"button\" href=\"\(ConsolePath.app(self.app, .compose).text)\">New send</a>"
        page.lead = self.filter
        page.live = "\(self.table)\(self.direct)"
        page.body = "\(self.paging)\(self.explanation)"
        return page
    }

    private var filter: HTML {
        let states = SendLists.State.allCases.map { state -> HTML in
            "<option\(self.list.state == state ? " selected" : "")>\(state.rawValue)</option>"
        }
        return """
            <form class="filter" method="get" action="\(ConsolePath.app(self.app, .sends).text)" role="search">
            <div><label for="search">Part of the id</label>
            <input id="search" name="search" type="search" value="\(self.list.search)" maxlength="64" pattern="[A-Za-z0-9._:\\-]*" autocomplete="off"></div>
            <div><label for="state">State</label>
            <select id="state" name="state"><option value="">any</option>\(states)</select></div>
            <button>Filter</button>
            </form>
            """
    }

    private var table: HTML {
        let rows = self.list.rows.map { row -> [HTML] in
            let link = ConsolePath.send(self.app, (try? SendID(row.status.send)) ?? Self.unnamed).text
            let title: HTML = row.title.isEmpty ? .none : "<span class=\"title\" dir=\"auto\">\(row.title)</span>"
            let target: HTML = row.target.isEmpty ? .none : "<small>\(row.target)</small>"
            let start = row.status.notBefore.map { "begins \($0.timestamp)" } ?? ""
            return [
                "<a id=\"send-\(row.status.send)\" href=\"\(link)\"><code>\(row.status.send)</code></a>\(title)",
                "\(Components.badge(row.status.phase))<small>\(start)</small>\(target)",
                "\(Components.bar(row.status))", "\(Components.progress(row.status))",
                "\(NumberText.grouped(row.status.planned))", "\(Components.age(row.acceptedAt, now: self.now))",
            ]
        }
        return Components.table(
            "Sends of \(self.app), the last accepted first",
            ["Send", "State and audience", "Outcomes", ">Done", ">Recipients", ">Accepted"],
            rows,
            empty: self.list.state == nil && self.list.search.isEmpty
                ? "No send of this app to an audience has been accepted within 30 days."
                : "No such send on this page."
        )
    }

    /// The sends that went out at once, which the list above does not have.
    private var direct: HTML {
        guard self.list.state == nil, self.list.search.isEmpty, !self.list.isFurther else { return .none }
        let rows = self.list.direct.map { entry -> [HTML] in
            let link = ConsolePath.send(self.app, (try? SendID(entry.status.send)) ?? Self.unnamed).text
            let problem: HTML = entry.status.problem.map { "<small>\($0.detail)</small>" } ?? .none
            return [
                "<a id=\"direct-\(entry.status.send)\" href=\"\(link)\"><code>\(entry.status.send)</code></a>",
                "\(Components.badge(entry.status.phase))\(problem)", "\(Components.bar(entry.status))",
                "\(NumberText.grouped(entry.status.planned))", "\(Components.age(entry.at, now: self.now))",
            ]
        }
        let table = Components.table(
            "Small sends of \(self.app) that ended last",
            ["Send", "State", "Outcomes", ">Recipients", ">Ended"],
            rows,
            empty: "No small send has ended lately, or its receipt went to another stream."
        )
        return "<section><h2>Small sends that ended last</h2>\(table)</section>"
    }

    private static var unnamed: SendID {
        guard let id = try? SendID("unknown") else { preconditionFailure("the id is valid") }
        return id
    }

    private var paging: HTML {
        var query = "?search=\(FormFields.encoded(self.list.search))&state=\(self.list.state?.rawValue ?? "")"
        let path = ConsolePath.app(self.app, .sends).text
        let newest: HTML =
            self.list.isFurther ? "<a class=\"button quiet\" href=\"\(path)\(query)\">Newest</a>" : .none
        guard let next = self.list.next else { return "<p class=\"paging\">\(newest)</p>" }
        query += "&cursor=\(FormFields.encoded("\(next)"))"
        return "<p class=\"paging\">\(newest)<a class=\"button quiet\" href=\"\(path)\(query)\">Older</a></p>"
    }

    /// The places where what was searched for may be found as well.
    private var elsewhere: HTML {
        guard !self.list.search.isEmpty, self.list.rows.isEmpty else { return .none }
        let (path, text) = (ConsolePath.app(self.app, .devices).text, FormFields.encoded(self.list.search))
        return """
             Is <code>\(self.list.search)</code> the id of <a href="\(path)?device=\(text)">a device</a> or of \
            <a href="\(path)?user=\(text)">a user</a>?
            """
    }

    private var explanation: HTML {
        """
        <p class="hint">Listed are sends to audiences and to more than \(Limits.directRecipientsMax) recipients, and smaller ones with something left to retry. \
        A smaller one goes out at once and keeps no ledger, since writing one would slow it: any of them whose receipt is in its shard's own stream is found for three days by its whole id, \
        and in the <a href="\(ConsolePath.app(self.app, .devices).text)">history of its device or user</a>.\(self.elsewhere)</p>
        <form class="filter" method="get" action="\(ConsolePath.app(self.app, .sends).text)">
        <div><label for="open">Open a send by its id</label><input id="open" name="open" required maxlength="64" pattern="[A-Za-z0-9._:\\-]+" autocomplete="off"></div>
        <button class="quiet">Open</button>
        </form>
        """
    }
}

/// Holds what the page of one send shows.
struct SendDetails: Sendable {
    var status: SendStatus
    /// Its ledger; nil for a direct send.
    var ledger: SendLedger?
    /// Its command; nil when it is not kept.
    var command: SendCommand?
    /// The obstacles that keep it from going on, in sentences.
    var obstacles: [String] = []
    /// The messages that its recipients' providers get, rendered as of now; nil when the services' configuration is not at hand.
    var renderings: [RouteRendering]?
    /// The receipts that the shard keeps of it, oldest first.
    var receipts: [(at: UnixMilliseconds, receipt: SendReceipt)] = []
    /// The acts of operators on it, newest first.
    var audit: [AuditEntry] = []
    /// Counts of what apps reported, by kind.
    var events: [(kind: String, count: UInt64)] = []
}

/// Draws the page of one send. It is pure.
struct SendView {
    let viewer: Viewer
    let app: AppID
    let send: SendID
    let details: SendDetails

    private var status: SendStatus { self.details.status }
    private var path: ConsolePath { .send(self.app, self.send) }

    var page: Page {
        var page = Page(self.send.text, .sends)
        page.aside = "<a class=\"quiet\" href=\"\(ConsolePath.app(self.app, .sends).text)\">All sends</a>"
        page.live = "\(self.state)\(self.outcomes)\(self.timeline)"
        page.lead = self.controls
        page.body = "\(self.content)\(self.rendered)\(self.receipts)"
        return page
    }

    // MARK: Controls

    private var controls: HTML {
        guard self.viewer.mayAct(self.app.text) else {
            return Components.readOnly(self.viewer, self.app.text, at: self.path.text)
        }
        guard self.details.ledger != nil, !self.status.isOver, self.status.phase != .cancelled else { return .none }
        func act(_ words: String, _ name: String, kind: String = "quiet") -> HTML {
            Components.act(self.viewer, at: self.path, words, [("action", name)], kind: kind)
        }
        let turn =
            self.status.phase == .paused ? act("Resume", "resume", kind: "") : act("Pause", "pause")
        let rate: HTML = """
            <label for="rate">Recipients per second</label>
            <input id="rate" name="rate" type="number" min="0" max="4294967295" value="\(self.details.ledger?.ratePerSecond ?? 0)" aria-describedby="rate-hint">
            """
        let setting = Components.act(
            self.viewer,
            at: self.path,
            "Set the rate",
            [("action", "rate")],
            kind: "quiet",
            inputs: rate
        )
        let cancel = act("Cancel for good", "cancel", kind: "danger")
        return """
            <div class="controls">\(turn)\(setting)\(cancel)</div><p class="hint" id="rate-hint">A rate of 0 means: as fast as its routes allow.</p>
            """
    }

    // MARK: State

    private var state: HTML {
        let routes: HTML =
            "<p class=\"hint\"><a href=\"\(ConsolePath.app(self.app, .routes).text)\">See the routes of \(self.app.text)</a></p>"
        let obstacles = self.details.obstacles.map { "<li class=\"warn\">\($0)</li>" as HTML }
        let problem: HTML =
            self.status.problem.map { "<p class=\"notice error\"><strong>\($0.code)</strong> \($0.detail)</p>" }
            ?? .none
        let rate = self.details.ledger?.ratePerSecond ?? 0
        return """
            <div class="state">\(Components.badge(self.status.phase))
            <p class="value">\(Components.progress(self.status)) <small>of \(NumberText.grouped(self.status.planned)) recipients have their outcome\
            \(rate > 0 ? "; at most \(NumberText.grouped(rate)) per second" : "")</small></p></div>
            <div class="wide">\(Components.bar(self.status))</div>
            \(problem)\(obstacles.isEmpty ? .none : "<ul class=\"concerns plain\">\(obstacles)</ul>\(routes)")
            """
    }

    private var outcomes: HTML {
        let total = max(1, self.status.planned)
        let open = self.status.total(.open)
        var rows = self.status.counts.filter { $0.count > 0 }.sorted { $0.count > $1.count }.map { count -> [HTML] in
            [
                "<span class=\"dot \(count.outcome.name)\"></span>\(count.outcome.name)",
                "\(count.outcome == .accepted ? "" : count.reason.name)", "\(count.provider.name)",
                "\(NumberText.grouped(count.count))",
                "\(NumberText.decimal(Double(count.count) * 100 / Double(total), 1)) %",
            ]
        }
        if open > 0 {
            rows.append([
                "<span class=\"dot open\"></span>open", "", "", "\(NumberText.grouped(open))",
                "\(NumberText.decimal(Double(open) * 100 / Double(total), 1)) %",
            ])
        }
        let table = Components.table(
            "Recipients by outcome, reason and provider",
            ["Outcome", "Reason", "Provider", ">Recipients", ">Share"],
            rows,
            empty: "No recipient has an outcome yet."
        )
        let events: HTML =
            self.details.events.isEmpty
            ? .none : Components.facts(self.details.events.map { ($0.kind, "\(NumberText.grouped($0.count))") })
        return "<section><h2>Outcomes</h2>\(table)\(events)</section>"
    }

    private var timeline: HTML {
        var moments: [(UnixMilliseconds, String)] = []
        if let accepted = self.details.ledger?.acceptedAt { moments.append((accepted, "accepted by a dispatcher")) }
        if let start = self.details.ledger?.notBefore { moments.append((start, "scheduled to begin")) }
        if let first = self.status.firstAt { moments.append((first, "first recipient ended")) }
        if let last = self.status.lastAt {
            moments.append((last, self.status.isOver ? "last recipient ended" : "last outcome so far"))
        }
        for entry in self.details.audit {
            guard let at = entry.at else { continue }
            let detail = entry.detail.isEmpty ? "" : " (\(entry.detail))"
            moments.append((at, "\(entry.action.replacing("send.", with: ""))\(detail) by \(entry.actor)"))
        }
        let items = moments.sorted { $0.0 < $1.0 }.map { moment -> HTML in
            "<li>\(Components.time(moment.0)) <span>\(moment.1)</span></li>"
        }
        return "<section><h2>Timeline</h2><ol class=\"timeline\">\(items)</ol></section>"
    }

    // MARK: Content

    private var content: HTML {
        guard let command = self.details.command else {
            return
                "<section><h2>Message</h2><p class=\"empty\">Its command is not kept: it was a small send, or larger than \(StreamLimits.commandKeptBytesMax / 1_024) KiB.</p></section>"
        }
        let facts = Components.facts([
            ("Audience", "\(TargetText.words(command.target))"),
            ("Kind", "\(SnakeCase.name(of: command.notification.kind))"),
            ("Languages", "\(command.notification.variants.map(\.locale).joined(separator: ", "))"),
            ("Collapses as", "\(command.notification.collapseKey)"),
            ("Link", "\(command.notification.clickAction)"),
        ])
        return
            "<section><h2>Message</h2>\(facts)\(PreviewView.previews(of: command.notification, app: self.app.text))</section>"
    }

    private var rendered: HTML {
        guard let renderings = self.details.renderings, !renderings.isEmpty else { return .none }
        return
            "<section><h2>As each provider gets it</h2><p class=\"hint\">Rendered again, with the configuration of now.</p>\(PreviewView.payloads(renderings))</section>"
    }

    /// Returns counts by outcome, the largest first.
    private static func words(_ counts: [OutcomeCount]) -> String {
        let sums = Dictionary(counts.map { ($0.outcome, $0.count) }, uniquingKeysWith: +)
        return sums.sorted { ($0.value, $1.key.rawValue) > ($1.value, $0.key.rawValue) }
            .map { "\(NumberText.grouped($0.value)) \($0.key.name)" }.joined(separator: ", ")
    }

    private var receipts: HTML {
        let rows = self.details.receipts.map { entry -> [HTML] in
            [
                "\(Components.time(entry.at))", "\(SnakeCase.name(of: entry.receipt.kind))",
                "\(NumberText.grouped(entry.receipt.planned))",
                "\(Self.words(entry.receipt.counts))",
            ]
        }
        let table = Components.table(
            "Receipts in the shard's own stream",
            ["Written", "Kind", ">Recipients", "Counts"],
            rows,
            empty:
                "There is none in the shard's own stream: its publisher named another, wanted none, or it is older than three days."
        )
        return "<section><h2>Receipts</h2>\(table)</section>"
    }
}
