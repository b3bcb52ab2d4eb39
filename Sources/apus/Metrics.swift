import ApusCommand
import ApusConsole
import ApusDashboards
import ArgumentParser

/// `apus metrics`: what the services export.
struct Metrics: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Tell about the metrics that the services export.",
        subcommands: [List.self],
        defaultSubcommand: List.self,
    )

    /// `apus metrics list`.
    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List every metric: its type, labels and meaning, and who exports it.",
            discussion: """
                Read from the declarations that the services run on, so nothing is missing and nothing is made up. \
                --json has the values of labels and the bounds of buckets too.
                """,
        )

        @OptionGroup var output: OutputOptions

        func run() {
            let list = MetricList()
            var table = TextTable(["NAME", "TYPE", "LABELS", "SERVICES", "MEANING"])
            for row in list.rows { table.add(row) }
            self.output.write(list.json, else: table.lines)
        }
    }
}
