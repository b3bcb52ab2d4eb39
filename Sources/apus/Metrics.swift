import ApusCommand
import ApusDashboards
import ApusTerminal
import ArgumentParser

/// Describes the metrics that the services export (`apus metrics`).
struct Metrics: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Describe the metrics that the services export.",
        subcommands: [List.self],
        defaultSubcommand: List.self,
    )

    /// Lists metrics (`apus metrics list`).
    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List every metric: its type, labels and meaning, and the services that export it.",
            discussion: """
                The list is read from the declarations that the services use, so it is complete and exact. \
                --json includes the values of labels and the bounds of buckets.
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
