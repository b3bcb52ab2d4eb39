import Foundation
import Testing

@testable import ApusDashboards

@Suite struct RuleTests {
    private static let files = ["rules.yml": RuleFiles.recordings, "alerts.yml": RuleFiles.alerts()]

    @Test(.enabled(if: Promtool.isInstalled, "needs the Debian package prometheus"))
    func `Promtool finds nothing wrong with the rules and the example configuration`() throws {
        let check = ["check", "rules", "--lint=all", "--lint-fatal", "rules.yml", "alerts.yml"]
        #expect(try Promtool.complaint(check, files: Self.files) == nil)
        var files = Self.files
        files["prometheus.yml"] = try DashboardsFolder.text("prometheus/prometheus.example.yml")
        #expect(try Promtool.complaint(["check", "config", "prometheus.yml"], files: files) == nil)
    }

    @Test(.enabled(if: Promtool.isInstalled, "needs the Debian package prometheus"))
    func `Every alert fires, lets its near miss pass, and resolves`() throws {
        for alert in RuleGroup.alerts {
            #expect(AlertCase.all.contains { $0.isAbout(alert) }, "\(alert.name) \(alert.labels) is not tried")
        }
        try Self.tryCases(Self.files) { $0.yaml }
    }

    @Test(.enabled(if: Promtool.isInstalled, "needs the Debian package prometheus"))
    func `Every alert fires, whatever an installation in another namespace does`() throws {
        var files = Self.files
        // The chart puts the namespace of its release there.
        let own = "absent(up{namespace=\"\(AlertCase.namespace)\", "
        files["alerts.yml"] = RuleFiles.alerts().replacing("absent(up{", with: own)
        try Self.tryCases(files) { $0.yamlBesideAnother }
    }

    /// Expects that promtool finds all cases, each in these words, to be as they should.
    private static func tryCases(_ files: [String: String], _ yaml: (AlertCase) -> String) throws {
        for (interval, cases) in Dictionary(grouping: AlertCase.all, by: \.interval) {
            var files = files
            // Recorded rules come first: promtool asks groups in no order of its own.
            let order = (RuleGroup.recorded + RuleGroup.alerted).map(\.name).joined(separator: ", ")
            files["tests.yml"] =
                "rule_files: [rules.yml, alerts.yml]\nevaluation_interval: \(interval)m\n"
                + "group_eval_order: [\(order)]\ntests:\n" + cases.map(yaml).joined()
            let complaint = try Promtool.complaint(["test", "rules", "tests.yml"], files: files)
            #expect(complaint == nil)
        }
    }

    @Test(.enabled(if: Promtool.isInstalled, "needs the Debian package prometheus"))
    func `An alert says what it is about, and where to read on`() throws {
        var files = Self.files
        files["tests.yml"] = """
            rule_files: [rules.yml, alerts.yml]
            evaluation_interval: 1m
            tests:
              - interval: 1m
                input_series:
                  - series: 'apus_stream_backlog_entries{job="d", instance="a", stream="in_bulk", group="dispatcher"}'
                    values: '5x20'
                  - series: 'apus_stream_entries_read_total{job="d", instance="a", stream="in_bulk", group="dispatcher"}'
                    values: '7x20'
                alert_rule_test:
                  - eval_time: 14m
                    alertname: ApusStreamStalled
                    exp_alerts:
                      - exp_labels: {severity: critical, job: d, stream: in_bulk}
                        exp_annotations:
                          summary: Nobody reads the stream in_bulk.
                          description: Entries wait in in_bulk, and d has read none for five minutes.
                          runbook_url: runbooks/ApusStreamStalled.md

            """
        #expect(try Promtool.complaint(["test", "rules", "tests.yml"], files: files) == nil)
    }

    @Test func `The links to runbooks are absolute once their address is given`() {
        let alerts = RuleFiles.alerts(runbooks: "https://wiki.example/apus")
        let links = alerts.matches(of: /runbook_url: '([^']*)'/).map { String($0.1) }
        #expect(links.count == RuleGroup.alerts.count)
        for link in links { #expect(link.hasPrefix("https://wiki.example/apus/Apus") && link.hasSuffix(".md")) }
    }

    @Test func `Every alert has its page, with what it means, how to find out, and what to do; no page is left over`()
        throws
    {
        let alerts = Set(RuleGroup.alerts.map { "\($0.name).md" })
        #expect(alerts.count == 28)
        #expect(try Set(DashboardsFolder.names("runbooks")) == alerts)
        for page in alerts {
            let text = try DashboardsFolder.text("runbooks/\(page)")
            #expect(text.hasPrefix("# \(page.dropLast(3))\n"), "\(page)")
            for heading in ["\n## Impact\n", "\n## Diagnosis\n", "\n## Mitigation\n"] {
                #expect(text.contains(heading), "\(page) has no\(heading)")
            }
        }
    }
}
