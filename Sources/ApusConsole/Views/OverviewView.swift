internal import ApusCommand
internal import ApusCore
internal import ApusStreams
internal import ApusTerminal

/// Holds what the overview shows.
struct OverviewContent: Sendable {
    /// The findings that are not in order, the gravest first.
    var concerns: [Diagnosis.Finding] = []
    /// The processes of the services.
    var processes: [ReportedProcess] = []
    /// False when the list of processes cannot be read.
    var hasServices = true
    /// The milliseconds since a process of a service last stopped as it was asked to, by service.
    var stopped: [String: Int64] = [:]
    /// Sends that have not ended, the last accepted first.
    var open: [(app: String, status: SendStatus)] = []
    /// Recipients that ended in a second, of sends that have a ledger, the newest last.
    var rates: [Double] = []
    /// The entries that wait for a service in mailboxes, plans, work and elsewhere, by name of the kind.
    var waiting: [StreamBacklog.Row] = []
    /// The number of dead letters of all apps.
    var deadLetters: Int64 = 0
}

/// Draws the overview. It is pure.
struct OverviewView {
    let viewer: Viewer
    let overview: OverviewContent

    var page: Page {
        var page = Page("Overview")
        page.live = "\(self.tiles)\(self.attention)\(self.sends)\(self.services)\(self.backlog)"
        return page
    }

    private var tiles: HTML {
        let rate = self.overview.rates.last ?? 0
        let oldest = self.overview.waiting.compactMap(\.oldestMilliseconds).max()
        let missing = self.overview.concerns.count { $0.verdict == .fail }
        func tile(_ name: String, _ value: String, _ note: HTML, kind: String = "") -> HTML {
            "<div class=\"tile \(kind)\"><h2>\(name)</h2><p class=\"value\">\(value)</p>\(note)</div>"
        }
        let label = "Recipients per second over the last minutes, now \(NumberText.rate(rate))"
        let waits = oldest.map { NumberText.age(milliseconds: $0) } ?? "nothing"
        return """
            <div class="tiles">
            \(tile("Recipients per second", NumberText.rate(rate), Components.sparkline(self.overview.rates, label: label)))
            \(tile("Oldest waiting", waits, "<p class=\"note\">in any stream of any shard</p>", kind: (oldest ?? 0) > 60_000 ? "warn" : ""))
            \(tile("Open sends", NumberText.grouped(self.overview.open.count), "<p class=\"note\">accepted, not ended</p>"))
            \(tile("Failing", NumberText.grouped(missing), "<p class=\"note\">see below</p>", kind: missing > 0 ? "fail" : "ok"))
            \(tile("Dead letters", NumberText.grouped(self.overview.deadLetters), self.deadLettersNote, kind: self.overview.deadLetters > 0 ? "warn" : ""))
            </div>
            """
    }

    private var deadLettersNote: HTML {
        guard let app = self.viewer.session?.app ?? self.viewer.apps.first.flatMap({ try? AppID($0) }) else {
            return "<p class=\"note\">given up in all apps, kept 30 days</p>"
        }
        let path = ConsolePath.app(app, .deadLetters).text
        return "<p class=\"note\">given up in all apps, kept 30 days: <a href=\"\(path)\">those of \(app.text)</a></p>"
    }

    private var attention: HTML {
        guard !self.overview.concerns.isEmpty else {
            return
                "<section><h2>Attention</h2><p class=\"good\">All services run, no route is held back, and nothing waits unread.</p></section>"
        }
        let items = self.overview.concerns.map { finding -> HTML in
            let kind = finding.verdict == .fail ? "fail" : "warn"
            let word = finding.verdict == .fail ? "failing" : "warning"
            let cure: HTML = finding.cure.isEmpty ? .none : "<p class=\"cure\">\(finding.cure)</p>"
            return """
                <li class="\(kind)">\(Components.badge(word, kind))<div><strong>\(Self.subject(of: finding))</strong>
                <p>\(finding.detail)</p>\(cure)</div></li>
                """
        }
        return "<section><h2>Attention</h2><ul class=\"concerns\">\(items)</ul></section>"
    }

    /// The object of a finding; that of a route leads to the page where it can be paused and resumed.
    private static func subject(of finding: Diagnosis.Finding) -> HTML {
        guard finding.check == .routes,
            let app = finding.subject.split(separator: "/").first.flatMap({ try? AppID(String($0)) })
        else { return "\(finding.subject.isEmpty ? finding.check.rawValue : finding.subject)" }
        return "<a href=\"\(ConsolePath.app(app, .routes).text)\">\(finding.subject)</a>"
    }

    private var sends: HTML {
        let rows = self.overview.open.prefix(10).map { open -> [HTML] in
            [
                "<a id=\"open-\(open.app)-\(open.status.send)\" href=\"/apps/\(open.app)/sends/\(open.status.send)\">\(open.status.send)</a>",
                "\(open.app)", Components.badge(open.status.phase), Components.bar(open.status),
                "\(Components.progress(open.status))", "\(NumberText.grouped(open.status.planned))",
            ]
        }
        let table = Components.table(
            "Sends under way",
            ["Send", "App", "State", "Outcomes", ">Done", ">Recipients"],
            Array(rows),
            empty: "No send to an audience is under way."
        )
        return "<section><h2>Under way</h2>\(table)</section>"
    }

    private var services: HTML {
        let rows = self.overview.processes.map { process -> [HTML] in
            let isSilent = process.seenMillisecondsAgo > StreamLimits.serviceSilenceMilliseconds
            let state =
                if isSilent {
                    Components.badge("missing", "fail")
                } else if process.problem != nil {
                    Components.badge("not ready", "warn")
                } else if process.refusedConfiguration != nil {
                    Components.badge("former settings", "warn")
                } else {
                    Components.badge("ready", "ok")
                }
            return [
                "\(process.service)", state, "\(process.problem ?? process.refusedConfiguration ?? "")",
                "<code>\(process.name)</code>",
                "\(process.version)", "\(NumberText.age(milliseconds: process.startedMillisecondsAgo))",
                "\(NumberText.age(milliseconds: process.seenMillisecondsAgo)) ago",
            ]
        }
        let listed = Set(self.overview.processes.map(\.service))
        let stopped = self.overview.stopped.filter { !listed.contains($0.key) }.sorted { $0.key < $1.key }
            .map { service, milliseconds -> [HTML] in
                [
                    "\(service)", Components.badge("stopped", "warn"), "none runs", "", "", "",
                    "stopped \(NumberText.age(milliseconds: milliseconds)) ago",
                ]
            }
        let none = "No service has run within a day: start apus-registration, apus-dispatcher and apus-feedback."
        let table = Components.table(
            "Processes of the services",
            ["Service", "State", "Problem", "Process", "Version", ">Up", ">Seen"],
            rows + stopped,
            empty: self.overview.hasServices ? none : "The server that has the list of services does not answer."
        )
        return "<section><h2>Services</h2>\(table)</section>"
    }

    private var backlog: HTML {
        let rows = self.overview.waiting.filter { !$0.isEmpty }.map { row -> [HTML] in
            [
                "\(row.name)", "\(NumberText.grouped(row.backlog))",
                "\(row.pending.map { NumberText.grouped($0) } ?? "")",
                "\(row.oldestMilliseconds.map { NumberText.age(milliseconds: $0) } ?? "")",
            ]
        }
        let table = Components.table(
            "Waiting entries by stream",
            ["Stream", ">Waiting", ">In hand", ">Oldest"],
            rows,
            empty: "Nothing waits."
        )
        return "<section><h2>Waiting</h2>\(table)</section>"
    }
}
