internal import ApusMetrics

extension Dashboard {
    private typealias Q = Queries

    /// The utilisation, saturation and errors of the processes.
    static let runtime = Dashboard(
        name: "runtime",
        title: "Runtime",
        description: "Processes: processor, memory, descriptors, event loops, logs, configuration and builds.",
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
        "What each process has in memory.",
        .bytes,
        byInstance(Q.every[common: \.process.residentMemory].shown()),
    )

    private static let virtualMemory = Panel.lines(
        "Virtual memory",
        "What each process has reserved.",
        .bytes,
        byInstance(Q.every[common: \.process.virtualMemory].shown()),
    )

    private static let threads = Panel.lines(
        "Threads",
        "Of each process.",
        .count,
        byInstance(Q.every[common: \.process.threads].shown()),
    )

    private static let descriptors = Panel.lines(
        "File descriptors",
        "Open ones, as a share of those that may be.",
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
        "How late a timer of 100 ms fires.",
        .seconds,
        width: 12,
        PanelQuery(Q.every[common: \.eventLoopLag].quantile("0.99", by: ["job"]), "{{job}}"),
    )

    private static let logs = Panel.lines(
        "Log lines",
        "By level, from notice on.",
        .perSecond,
        PanelQuery(
            Q.every[common: \.logMessages]
                .rate(.isOne("level", of: ["notice", "warning", "error", "critical"]), by: ["job", "level"]),
            "{{job}} {{level}}",
        ),
    )

    private static let dropped = Panel.lines(
        "Log lines dropped",
        "Because the output could not keep up, or one place of the code said too much.",
        .perSecond,
        PanelQuery(Q.every[common: \.logMessagesDropped].rate(by: ["job"]), "{{job}}"),
    )

    private static let spans = Panel.lines(
        "Spans",
        "Steps of recorded traces, by what became of them.",
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
        "Instances that say that they are ready, and those on their way to stop.",
        .count,
        width: 12,
        PanelQuery(Q.every[common: \.ready].sum(by: ["job"]), "{{job}} ready"),
        PanelQuery(Q.every[common: \.draining].sum(by: ["job"]), "{{job}} draining"),
    )

    private static let builds = Panel.table(
        "Builds",
        "What runs where.",
        Q.every.buildInformation.shown(),
    )
}
