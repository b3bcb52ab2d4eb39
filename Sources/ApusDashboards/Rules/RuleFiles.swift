/// Encodes rules as YAML files for Prometheus.
///
/// Source: https://prometheus.io/docs/prometheus/latest/configuration/recording_rules/
enum RuleFiles {
    /// The file `rules.yml`, with the recording rules.
    static var recordings: String {
        self.head("What is recorded: error ratios of the objectives, over the windows that their alerts look at.")
            + RuleGroup.recorded.map { group in
                self.group(group) + group.recordings.map(self.recording).joined()
            }
            .joined()
    }

    /// Returns the file `alerts.yml`, with the alerting rules.
    ///
    /// - Parameter runbooks: the address of the folder of runbooks; a path relative to the rules by default.
    static func alerts(runbooks: String = "runbooks") -> String {
        self.head("The alerts; needs rules.yml. Each alert has its page in runbooks/.")
            + RuleGroup.alerted.map { group in
                self.group(group) + group.alerts.map { self.alert($0, runbooks: runbooks) }.joined()
            }
            .joined()
    }

    private static func head(_ comment: String) -> String {
        "# \(comment)\n# Made by `apus dashboards generate`.\ngroups:\n"
    }

    private static func group(_ group: RuleGroup) -> String { "  - name: \(group.name)\n    rules:\n" }

    private static func recording(_ rule: RecordingRule) -> String {
        "      - record: \(rule.name)\n" + self.expression(rule.expression)
    }

    private static func alert(_ alert: Alert, runbooks: String) -> String {
        let labels = [("severity", alert.severity.rawValue)] + alert.labels.map { ($0.name, $0.value) }
        return "      - alert: \(alert.name)\n" + self.expression(alert.expression)
            + (alert.lasts == "0m" ? "" : "        for: \(alert.lasts)\n")
            + "        labels:\n"
            + labels.map { "          \($0.0): \($0.1)\n" }.joined()
            + "        annotations:\n"
            + [
                ("summary", alert.summary), ("description", alert.description),
                ("runbook_url", "\(runbooks)/\(alert.name).md"),
            ]
            .map { "          \($0.0): \(self.quoted($0.1))\n" }.joined()
    }

    private static func expression(_ expression: String) -> String {
        let lines = expression.split(separator: "\n")
        return "        expr: |\n" + lines.map { "          \($0)\n" }.joined()
    }

    private static func quoted(_ text: String) -> String {
        "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''") + "'"
    }
}
