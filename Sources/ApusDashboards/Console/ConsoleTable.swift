internal import ApusDispatcher
internal import ApusMetrics

/// A table of the console page: filled in by Prometheus itself when the page is asked for, so it needs no JavaScript.
struct ConsoleTable {
    /// How the value of a row is written.
    enum Value: String {
        case number = "humanize"
        case duration = "humanizeDuration"
    }

    let title: String
    let query: String
    /// Labels that are columns; rows are sorted by the first.
    let labels: [String]
    /// The title of the last column, and how it is written; nil for the labels say all.
    let value: (title: String, form: Value)?

    private typealias W = Words

    static let all: [ConsoleTable] = [
        ConsoleTable(
            title: "Alerts",
            query: "ALERTS{alertname=~\"Apus.+\", alertstate=\"firing\"}",
            labels: ["alertname", "severity", "job", "stream", "provider"],
            value: nil,
        ),
        ConsoleTable(
            title: "Instances",
            query: "\(W.every[common: \.ready].series()) * on (job, instance) group_left (version) "
                + W.every.buildInformation.series(),
            labels: ["job", "instance", "version"],
            value: ("ready", .number),
        ),
        ConsoleTable(
            title: "Outcomes, last hour",
            query: "round(sum by (provider, outcome) (increase(\(W.dispatcher[\.deliveries].series())[1h]))) > 0",
            labels: ["provider", "outcome"],
            value: ("recipients", .number),
        ),
        ConsoleTable(
            title: "Waiting",
            query: "max by (stream) (\(W.every[common: \.streams.backlog].series()))",
            labels: ["stream"],
            value: ("unread", .number),
        ),
        ConsoleTable(
            title: "Oldest unread",
            query: "max by (stream) ((time() - \(oldest)) * (\(oldest) > bool 0))",
            labels: ["stream"],
            value: ("age", .duration),
        ),
        ConsoleTable(
            title: "Dead letters, last day",
            query:
                "round(sum by (stream, reason) (increase(\(W.every[common: \.streams.deadLetters].series())[1d]))) > 0",
            labels: ["stream", "reason"],
            value: ("entries", .number),
        ),
        ConsoleTable(
            title: "Connections",
            query: "sum by (provider, state) (\(W.dispatcher[\.connections].series())) > 0",
            labels: ["provider", "state"],
            value: ("connections", .number),
        ),
        ConsoleTable(
            title: "Credentials",
            query: "min by (provider, kind) (\(W.dispatcher[\.credentialExpiry].series()) - time())",
            labels: ["provider", "kind"],
            value: ("valid for", .duration),
        ),
    ]

    private static let oldest = W.every[common: \.streams.oldestUnread].series()

    /// In the language of Prometheus' console templates, which is Go's `html/template`.
    ///
    /// Source: https://prometheus.io/docs/visualization/consoles/
    var template: String {
        var heads = self.labels.map { "<th>\($0)</th>" }.joined()
        var cells = self.labels.map { "<td>{{ .Labels.\($0) }}</td>" }.joined()
        if let value {
            heads += "<th class=\"number\">\(value.title)</th>"
            cells += "<td class=\"number\">{{ .Value | \(value.form.rawValue) }}</td>"
        }
        let sorted = "query `\(self.query)` | sortByLabel \"\(self.labels[0])\""
        return """
            <section><h2>\(self.title)</h2>
            <table><thead><tr>\(heads)</tr></thead><tbody>
            {{ range \(sorted) }}<tr>\(cells)</tr>
            {{ else }}<tr><td colspan="\(self.labels.count + (self.value == nil ? 0 : 1))">none</td></tr>
            {{ end }}</tbody></table></section>

            """
    }
}
