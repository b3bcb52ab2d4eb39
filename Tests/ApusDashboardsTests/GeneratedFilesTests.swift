import ApusDashboards
import ApusMetrics
import Foundation
import Testing

@Suite struct GeneratedFilesTests {
    @Test func `The committed files are those that the code generates`() throws {
        for file in GeneratedFiles.all {
            let isSame = try DashboardsFolder.text(file.path) == file.text
            #expect(isSame, "Dashboards/\(file.path) is stale: run apus dashboards generate")
        }
        let made = Set(GeneratedFiles.all.map(\.path))
        let committed = try DashboardsFolder.names("grafana").map { "grafana/\($0)" }
        #expect(committed.allSatisfy(made.contains), "a dashboard that no code makes")
    }

    /// Words for people name only what there is.
    @Test func `Every metric that a page names exists`() throws {
        let declared = Set(MetricList().entries.map(\.definition.name))
        let pages = ["README.md"] + (try DashboardsFolder.names("runbooks").map { "runbooks/\($0)" })
        var named = 0
        for page in pages {
            for match in try DashboardsFolder.text(page).matches(of: /\b(?:apus|process)_[a-z0-9_]+/) {
                var name = String(match.output)
                for suffix in ["_bucket", "_sum", "_count"] where !declared.contains(name) && name.hasSuffix(suffix) {
                    name.removeLast(suffix.count)
                }
                named += 1
                #expect(declared.contains(name), "\(page) names \(name), which no service exports")
            }
        }
        #expect(named > 5)
    }
}
