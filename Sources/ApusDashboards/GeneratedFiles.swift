internal import ApusCore

/// The generated files in `Dashboards/`. `apus dashboards generate` writes them; they are committed, and a test
/// compares them with the code.
package enum GeneratedFiles {
    /// A generated file.
    package struct File: Sendable, Hashable {
        /// The path relative to `Dashboards/`.
        package let path: String
        /// The content of the file.
        package let text: String
    }

    /// All generated files, as they are committed.
    package static var all: [File] { Self.all(runbooks: "runbooks") }

    /// Returns all generated files.
    ///
    /// - Parameter runbooks: the address of the folder of runbooks that alerts link to.
    package static func all(runbooks: String) -> [File] {
        Dashboard.all.map { File(path: "grafana/\($0.uid).json", text: $0.json.indentedText + "\n") } + [
            File(path: "prometheus/rules.yml", text: RuleFiles.recordings),
            File(path: "prometheus/alerts.yml", text: RuleFiles.alerts(runbooks: runbooks)),
            File(path: "consoles/apus.html", text: ConsolePage.html),
        ]
    }
}
