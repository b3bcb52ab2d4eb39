internal import ApusDispatcher
internal import ApusFeedback
internal import ApusMetrics

/// A table of the console page. Prometheus fills it in when it serves the page, so it needs no JavaScript.
struct ConsoleTable {
    /// The format of the value of a row.
    enum Value: String {
        case number = "humanize"
        case duration = "humanizeDuration"
    }

    let title: String
    let query: String
    /// The labels that are shown as columns. Rows are sorted by the first one.
    let labels: [String]
    /// The title and the format of the last column, which shows the value. Nil if the value is not shown.
    let value: (title: String, form: Value)?

    private typealias Q = Queries

    static let all: [ConsoleTable] = [
        ConsoleTable(
            title: "Alerts",
            query: "ALERTS{alertname=~\"Apus.+\", alertstate=\"firing\"}",
            labels: ["alertname", "severity", "job", "stream", "provider", "route"],
            value: nil,
        ),
        ConsoleTable(
            title: "Instances",
            query: "\(Q.every[common: \.ready].series()) * on (job, instance) group_left (version) "
                + Q.every.buildInformation.series(),
            labels: ["job", "instance", "version"],
            value: ("ready", .number),
        ),
        ConsoleTable(
            title: "Outcomes, last hour",
            query: "round(sum by (provider, outcome) (increase(\(Q.feedback[\.outcomes].series())[1h]))) > 0",
            labels: ["provider", "outcome"],
            value: ("recipients", .number),
        ),
        ConsoleTable(
            title: "Waiting",
            query: "max by (stream) (\(Q.every[common: \.streams.backlog].series()))",
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
                "round(sum by (stream, reason) (increase(\(Q.every[common: \.streams.deadLetters].series())[1d]))) > 0",
            labels: ["stream", "reason"],
            value: ("entries", .number),
        ),
        ConsoleTable(
            title: "Connections",
            query: "sum by (provider, state) (\(Q.dispatcher[\.connections].series())) > 0",
            labels: ["provider", "state"],
            value: ("connections", .number),
        ),
        ConsoleTable(
            title: "Credentials",
            query: "min by (route, kind) (\(Q.dispatcher[\.credentialExpiry].series()) - time())",
            labels: ["route", "kind"],
            value: ("valid for", .duration),
        ),
    ]

    private static let oldest = Q.every[common: \.streams.oldestUnread].series()

    /// The table in the language of Prometheus' console templates, which is Go's `html/template`.
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
