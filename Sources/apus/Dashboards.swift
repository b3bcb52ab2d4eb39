import ApusCommand
import ApusDashboards
import ApusTerminal
import ArgumentParser
import FoundationEssentials

/// Generates the files of `Dashboards/` (`apus dashboards`).
struct Dashboards: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Generate the dashboards, rules, alerts and the console page.",
        subcommands: [Generate.self],
    )

    /// Writes or compares the files (`apus dashboards generate`).
    struct Generate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Write the files, or compare them.",
            discussion: """
                Grafana's dashboards, Prometheus' recording rules and alerts, and a console page that needs no \
                Grafana, all made from the metrics that the services declare.
                """,
        )

        @Option(help: "The folder of the files.")
        var into = "Dashboards"
        @Option(
            name: .customLong("runbooks-url"),
            help: ArgumentHelp(
                "Where the alerts' runbooks are, for absolute links: an address such as https://wiki.example/apus.",
                valueName: "url"
            )
        )
        var runbooks: String?
        @Flag(help: "Write nothing; fail when a file differs from the generated one.")
        var check = false

        func validate() throws {
            guard let runbooks else { return }
            guard runbooks.hasPrefix("https://") || runbooks.hasPrefix("http://"), !runbooks.contains("'") else {
                throw ValidationError("--runbooks-url is an address that begins with https://")
            }
        }

        func run() throws {
            let runbooks = self.runbooks.map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 } ?? "runbooks"
            var stale: [String] = []
            for file in GeneratedFiles.all(runbooks: runbooks) {
                let path = "\(self.into)/\(file.path)"
                let bytes = Data(file.text.utf8)
                guard FileManager.default.contents(atPath: path) != bytes else { continue }
                stale.append(path)
                guard !self.check else { continue }
                let folder = URL(filePath: path).deletingLastPathComponent()
                do {
                    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
                    try bytes.write(to: URL(filePath: path))
                } catch {
                    throw CommandFailure("\(path) cannot be written: is there room, and may you write to its folder?")
                }
                Console.data(path)
            }
            guard !self.check || stale.isEmpty else {
                throw CommandFailure(
                    "outdated: \(stale.joined(separator: ", ")). Run apus dashboards generate."
                )
            }
        }
    }
}
