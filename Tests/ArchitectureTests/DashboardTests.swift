import Foundation
import Testing

/// The dashboards name only what the services export, and are built as Grafana's own linter wants them.
@Suite struct DashboardTests {
    private static let folder = SourceTree.root.appending(path: "Dashboards")

    private static func files(_ suffix: String) throws -> [(path: String, text: String)] {
        let enumerator = FileManager.default.enumerator(atPath: folder.path())
        var files: [(path: String, text: String)] = []
        while let path = enumerator?.nextObject() as? String {
            guard path.hasSuffix(suffix) else { continue }
            files.append((path, try String(contentsOf: folder.appending(path: path), encoding: .utf8)))
        }
        return files
    }

    /// Names in quotes in the sources, as catalogues declare them.
    private static func declaredMetrics() throws -> Set<String> {
        var names: Set<String> = []
        for file in try SourceTree.swiftFiles() where file.path.contains("Metrics") {
            for line in file.lines {
                for match in line.matches(of: /"((?:apus|process)_[a-z0-9_]+)"/) { names.insert(String(match.1)) }
            }
        }
        return names
    }

    private struct Panel {
        let dashboard: String
        let object: [String: Any]

        var title: String { self.object["title"] as? String ?? "" }
        var targets: [[String: Any]] { self.object["targets"] as? [[String: Any]] ?? [] }
        var expressions: [String] { self.targets.compactMap { $0["expr"] as? String } }
    }

    private static func dashboards() throws -> [(path: String, object: [String: Any])] {
        try Self.files(".json").map { file in
            let object = try JSONSerialization.jsonObject(with: Data(file.text.utf8)) as? [String: Any]
            return (file.path, try #require(object))
        }
    }

    private static func panels() throws -> [Panel] {
        try Self.dashboards().flatMap { dashboard in
            let panels = try #require(dashboard.object["panels"] as? [[String: Any]])
            return panels.filter { $0["type"] as? String != "row" }.map { Panel(dashboard: dashboard.path, object: $0) }
        }
    }

    @Test func `Every metric that is named exists`() throws {
        let declared = try Self.declaredMetrics()
        #expect(declared.count > 40)
        var named = 0
        for file in try Self.files(".json") + Self.files(".yml") + Self.files(".md") {
            for match in file.text.matches(of: /\b(?:apus|process)_[a-z0-9_]+/) {
                var name = String(match.output)
                for suffix in ["_bucket", "_sum", "_count"] where !declared.contains(name) && name.hasSuffix(suffix) {
                    name.removeLast(suffix.count)
                }
                named += 1
                #expect(declared.contains(name), "\(file.path) names \(name), which no service exports")
            }
        }
        #expect(named > 30)
    }

    @Test func `Dashboards are of the classic model and ask for their data source`() throws {
        let dashboards = try Self.dashboards()
        #expect(!dashboards.isEmpty)
        for (path, object) in dashboards {
            #expect(object["schemaVersion"] as? Int == 39, "\(path)")
            #expect(object["editable"] as? Bool == false, "\(path)")
            let templating = try #require(object["templating"] as? [String: Any])
            let variables = try #require(templating["list"] as? [[String: Any]])
            #expect(variables.compactMap { $0["name"] as? String } == ["datasource", "job", "instance"], "\(path)")
        }
    }

    @Test func `Every panel has a title, a description, a unit and targets, at a place of its own`() throws {
        let panels = try Self.panels()
        #expect(panels.count > 10)
        var places: Set<String> = []
        for panel in panels {
            let name: Comment = "\(panel.dashboard): \(panel.title)"
            #expect(!panel.title.isEmpty, name)
            let description = panel.object["description"] as? String ?? ""
            #expect(!description.isEmpty, name)
            let fields = panel.object["fieldConfig"] as? [String: Any]
            let defaults = fields?["defaults"] as? [String: Any]
            let unit = defaults?["unit"] as? String ?? ""
            #expect(!unit.isEmpty, name)
            #expect(!panel.expressions.isEmpty, name)
            let place = try #require(panel.object["gridPos"] as? [String: Int])
            #expect(places.insert("\(panel.dashboard) \(place["x"] ?? -1) \(place["y"] ?? -1)").inserted, name)
        }
    }

    @Test
    func `Every query chooses job and instance, takes rates over the scrape's interval, and uses the data source`()
        throws
    {
        for panel in try Self.panels() {
            let name: Comment = "\(panel.dashboard): \(panel.title)"
            for target in panel.targets {
                let source = target["datasource"] as? [String: String]
                #expect(source?["uid"] == "${datasource}", name)
            }
            for expression in panel.expressions {
                let selectors = expression.matches(of: /\{[^}]*\}/).map { String($0.output) }
                #expect(!selectors.isEmpty, name)
                for selector in selectors {
                    #expect(selector.contains("job=~\"$job\"") && selector.contains("instance=~\"$instance\""), name)
                }
                for match in expression.matches(of: /\brate\([^\[]*\[([^\]]*)\]/) {
                    #expect(match.1 == "$__rate_interval", name)
                }
                for match in expression.matches(of: /([a-z_]+)\(\s*([a-z_]+_total)\b/) {
                    #expect(["rate", "irate", "increase"].contains(String(match.1)), name)
                }
            }
        }
    }

    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/promtool")))
    func `Prometheus parses every query and the example configuration`() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "apus-dashboards-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        var rules = "groups:\n  - name: panels\n    rules:\n"
        for (number, expression) in try Self.panels().flatMap(\.expressions).enumerated() {
            let concrete = expression.replacing("$__rate_interval", with: "1m").replacing("$__range", with: "1h")
                .replacing("$job", with: ".+").replacing("$instance", with: ".+")
            rules += "      - record: panel:\(number)\n        expr: '\(concrete.replacing("'", with: "''"))'\n"
        }
        let file = folder.appending(path: "rules.yml")
        try rules.write(to: file, atomically: true, encoding: .utf8)
        #expect(try Self.promtool("check", "rules", file.path()) == 0)
        let example = Self.folder.appending(path: "prometheus/prometheus.example.yml")
        #expect(try Self.promtool("check", "config", example.path()) == 0)
    }

    private static func promtool(_ arguments: String...) throws -> Int32 {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/promtool")
        process.arguments = arguments
        process.standardOutput = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        return process.terminationStatus
    }
}
