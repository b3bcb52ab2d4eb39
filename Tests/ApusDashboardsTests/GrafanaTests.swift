import Foundation
import Testing

/// The dashboards are built as Grafana's own linter wants them (https://github.com/grafana/dashboard-linter).
@Suite struct GrafanaTests {
    private struct Panel {
        let dashboard: String
        let object: [String: Any]

        var title: String { self.object["title"] as? String ?? "" }
        var name: Comment { "\(self.dashboard): \(self.title)" }
        var targets: [[String: Any]] { self.object["targets"] as? [[String: Any]] ?? [] }
        var expressions: [String] { self.targets.compactMap { $0["expr"] as? String } }
    }

    private static func dashboards() throws -> [(name: String, object: [String: Any])] {
        try DashboardsFolder.names("grafana").map { name in
            let bytes = Data(try DashboardsFolder.text("grafana/\(name)").utf8)
            return (name, try #require(try JSONSerialization.jsonObject(with: bytes) as? [String: Any]))
        }
    }

    private static func panels() throws -> [Panel] {
        try Self.dashboards().flatMap { dashboard in
            let panels = try #require(dashboard.object["panels"] as? [[String: Any]])
            return panels.filter { $0["type"] as? String != "row" }.map { Panel(dashboard: dashboard.name, object: $0) }
        }
    }

    @Test func `There are six dashboards of the classic model, with a variable for their data source`() throws {
        let dashboards = try Self.dashboards()
        #expect(dashboards.count == 6)
        for (name, object) in dashboards {
            #expect(object["schemaVersion"] as? Int == 39, "\(name)")
            #expect(object["editable"] as? Bool == false, "\(name)")
            #expect("\(object["uid"] as? String ?? "").json" == name)
            let templating = try #require(object["templating"] as? [String: Any])
            let variables = try #require(templating["list"] as? [[String: Any]])
            #expect(variables.compactMap { $0["name"] as? String }.prefix(3) == ["datasource", "job", "instance"])
            for variable in variables.dropFirst() {
                #expect(variable["allValue"] as? String == ".+" && variable["multi"] as? Bool == true, "\(name)")
            }
        }
    }

    @Test func `Every panel has a title, a description, a unit, targets, and a place that no other takes`() throws {
        var taken: Set<String> = []
        for panel in try Self.panels() {
            #expect(!panel.title.isEmpty, panel.name)
            #expect(panel.object["description"] as? String != "", panel.name)
            let fields = panel.object["fieldConfig"] as? [String: Any]
            let defaults = fields?["defaults"] as? [String: Any]
            let unit = defaults?["unit"] as? String ?? ""
            #expect(["ops", "s", "percentunit", "short", "bytes", "Bps"].contains(unit), panel.name)
            #expect(!panel.expressions.isEmpty && panel.expressions.count <= 6, panel.name)
            let place = try #require(panel.object["gridPos"] as? [String: Int])
            let (x, y) = (place["x"] ?? -1, place["y"] ?? -1)
            let (width, height) = (place["w"] ?? 0, place["h"] ?? 0)
            #expect(x >= 0 && width > 0 && x + width <= 24, panel.name)
            for column in x..<x + width {
                for line in y..<y + height {
                    #expect(taken.insert("\(panel.dashboard) \(column) \(line)").inserted, panel.name)
                }
            }
        }
        #expect(taken.count > 1_000)
    }

    @Test
    func `Every query chooses job and instance, takes rates over the scrape's interval, and uses the data source`()
        throws
    {
        for panel in try Self.panels() {
            for target in panel.targets {
                let source = target["datasource"] as? [String: String]
                #expect(source?["uid"] == "${datasource}", panel.name)
            }
            for expression in panel.expressions {
                let selectors = expression.matches(of: /\{[^}]*\}/).map { String($0.output) }
                #expect(!selectors.isEmpty, panel.name)
                for selector in selectors {
                    let chooses = selector.contains("job=~\"$job\"") && selector.contains("instance=~\"$instance\"")
                    #expect(chooses, panel.name)
                }
                for match in expression.matches(of: /\brate\([^\[]*\[([^\]]*)\]/) {
                    #expect(match.1 == "$__rate_interval", panel.name)
                }
                for match in expression.matches(of: /([a-z_]+)\(\s*([a-z_]+_total)\b/) {
                    #expect(["rate", "irate", "increase"].contains(String(match.1)), panel.name)
                }
            }
        }
    }
}
