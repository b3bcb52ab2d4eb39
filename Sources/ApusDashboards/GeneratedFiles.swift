internal import ApusCore

/// What `Dashboards/` has that is made from the code: written by `apus dashboards generate`, committed, and compared by a test.
package enum GeneratedFiles {
    /// A file by its path below `Dashboards/`.
    package struct File: Sendable, Hashable {
        /// The path.
        package let path: String
        /// All of it.
        package let text: String
    }

    /// All of them.
    package static var all: [File] {
        Dashboard.all.map { File(path: "grafana/\($0.uid).json", text: $0.json.indentedText + "\n") } + [
            File(path: "prometheus/rules.yml", text: RuleFiles.recordings),
            File(path: "prometheus/alerts.yml", text: RuleFiles.alerts),
            File(path: "consoles/apus.html", text: ConsolePage.html),
        ]
    }
}
