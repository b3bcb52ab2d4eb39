internal import ApusMetrics

extension Dashboard {
    private typealias Q = Queries

    /// The utilisation, saturation and errors of the processes.
    static let runtime = Dashboard(
        name: "runtime",
        title: "Runtime",
        description: "Processes: processor, memory, file descriptors, event loops, logs, configuration and builds.",
        rows: [
            PanelRow("Processes", processor, memory, virtualMemory, threads, descriptors, starts),
            PanelRow("Event loops", busy, lag),
            PanelRow("Logs, traces and configuration", logs, dropped, spans, reloads, phases),
            PanelRow("Builds", builds),
        ],
    )

    private static func byInstance(_ series: String) -> PanelQuery {
        PanelQuery("sum by (job, instance) (\(series))", "{{job}} {{instance}}")
    }

    private static let processor = Panel.lines(
        "Processor",
        "Processor time per second: 1 is one core.",
        .count,
        PanelQuery(Q.every[common: \.process.cpu].rate(by: ["job", "instance"]), "{{job}} {{instance}}"),
    )

    private static let memory = Panel.lines(
        "Resident memory",
        "Resident memory of each process.",
        .bytes,
        byInstance(Q.every[common: \.process.residentMemory].shown()),
    )

    private static let virtualMemory = Panel.lines(
        "Virtual memory",
        "Virtual memory of each process.",
        .bytes,
        byInstance(Q.every[common: \.process.virtualMemory].shown()),
    )

    private static let threads = Panel.lines(
        "Threads",
        "Threads of each process.",
        .count,
        byInstance(Q.every[common: \.process.threads].shown()),
    )

    private static let descriptors = Panel.lines(
        "File descriptors",
        "Open file descriptors, as a share of the limit.",
        .share,
        PanelQuery(
            Q.quotient(
                Q.every[common: \.process.openDescriptors].sum(by: ["job", "instance"]),
                Q.every[common: \.process.maxDescriptors].sum(by: ["job", "instance"]),
            ),
            "{{job}} {{instance}}",
        ),
    )

    private static let starts = Panel.lines(
        "Up",
        "Time since the process started.",
        .seconds,
        PanelQuery("time() - \(Q.every[common: \.process.startTime].shown())", "{{job}} {{instance}}"),
    )

    private static let busy = Panel.lines(
        "Busy",
        "Share of the time in which the thread of each event loop uses the processor.",
        .share,
        width: 12,
        PanelQuery(
            Q.every[common: \.eventLoopBusy].rate(by: ["job", "instance", "loop"]),
            "{{job}} {{instance}} {{loop}}"
        ),
    )

    private static let lag = Panel.lines(
        "Lag p99",
        "Delay of a timer of 100 ms.",
        .seconds,
        width: 12,
        PanelQuery(Q.every[common: \.eventLoopLag].quantile("0.99", by: ["job"]), "{{job}}"),
    )

    private static let logs = Panel.lines(
        "Log lines",
        "Log lines by level, from notice on.",
        .perSecond,
        PanelQuery(
            Q.every[common: \.logMessages]
                .rate(.isOne("level", of: ["notice", "warning", "error", "critical"]), by: ["job", "level"]),
            "{{job}} {{level}}",
        ),
    )

    private static let dropped = Panel.lines(
        "Log lines dropped",
        "Lines that were dropped because the output was too slow, or because one place in the code logged too much.",
        .perSecond,
        PanelQuery(Q.every[common: \.logMessagesDropped].rate(by: ["job"]), "{{job}}"),
    )

    private static let spans = Panel.lines(
        "Spans",
        "Spans of recorded traces, by outcome.",
        .perSecond,
        PanelQuery(Q.every[common: \.spans].rate(by: ["job", "outcome"]), "{{job}} {{outcome}}"),
    )

    private static let reloads = Panel.lines(
        "Configuration",
        "Time since a valid configuration was last read, and instances whose last reload failed.",
        .seconds,
        width: 12,
        PanelQuery(
            "max by (job) (time() - \(Q.every[common: \.configurationReloadSuccess].shown()))",
            "{{job}} last valid",
        ),
        PanelQuery(
            "sum by (job) (1 - \(Q.every[common: \.configurationReloadSuccessful].shown()))",
            "{{job}} failed",
        ),
    )

    private static let phases = Panel.lines(
        "Ready and draining",
        "Instances that report that they are ready, and those that are draining.",
        .count,
        width: 12,
        PanelQuery(Q.every[common: \.ready].sum(by: ["job"]), "{{job}} ready"),
        PanelQuery(Q.every[common: \.draining].sum(by: ["job"]), "{{job}} draining"),
    )

    private static let builds = Panel.table(
        "Builds",
        "The builds that are running, by instance.",
        Q.every.buildInformation.shown(),
    )
}
