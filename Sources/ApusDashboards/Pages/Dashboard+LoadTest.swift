internal import ApusDispatcher
internal import ApusMetrics

extension Dashboard {
    private typealias W = Words

    /// What a load test does to the services. Its own target and latencies are in its report: `apus-lab loadtest --json`.
    static let loadTest = Dashboard(
        name: "loadtest",
        title: "Load test",
        description: "What the services make of a load: rates, latencies, and what each million costs.",
        rows: [
            PanelRow("At a glance", taken, delivered, latency, worst, cost, redisCost),
            PanelRow("Rates and latencies", rates, latencies, latencyMap, wait, stages, lag, backlog),
            PanelRow("What it costs", processor, memory, redis),
            PanelRow("What holds it back", inHand, saturation, throttled),
        ],
    )

    private static let accepted = W.dispatcher[\.deliveries].rate(.is("outcome", "accepted"))
    private static let processorTime = "rate(\(W.every[common: \.process.cpu].shown())[$__rate_interval])"

    private static let taken = Panel.stat(
        "Commands",
        "Send commands taken per second.",
        .perSecond,
        W.dispatcher[\.commands].rate(.is("result", "accepted")),
    )

    private static let delivered = Panel.stat(
        "Accepted",
        "Notifications that the providers take per second.",
        .perSecond,
        accepted,
    )

    private static let latency = Panel.stat(
        "Latency p50",
        "Half of the notifications were accepted within this time of their publication.",
        .seconds,
        W.dispatcher[\.deliveryLatency].quantile("0.5"),
    )

    private static let worst = Panel.stat(
        "Latency p99.9",
        "All but one of a thousand were accepted within this time of their publication.",
        .seconds,
        W.dispatcher[\.deliveryLatency].quantile("0.999"),
    )

    private static let cost = Panel.stat(
        "Dispatcher's cost",
        "Seconds of processor time that the dispatchers take for a million accepted notifications.",
        .count,
        "1e6 * sum(\(processorTime) * on (job, instance) group_left () \(W.dispatcher.buildInformation.shown([.is("service", "apus-dispatcher")]))) / \(accepted)",
    )

    private static let redisCost = Panel.stat(
        "Redis commands each",
        "Commands to Redis for each accepted notification, of all services.",
        .count,
        W.quotient(W.every[common: \.redis.commands].rate(), accepted),
    )

    private static let rates = Panel.lines(
        "Rates",
        "Commands taken and notifications accepted.",
        .perSecond,
        PanelQuery(W.dispatcher[\.commands].rate(.is("result", "accepted")), "commands"),
        PanelQuery(accepted, "accepted"),
    )

    private static let latencies = Panel.lines(
        "Latency",
        "From publication to acceptance by the provider.",
        .seconds,
        PanelQuery(W.dispatcher[\.deliveryLatency].quantile("0.5"), "p50"),
        PanelQuery(W.dispatcher[\.deliveryLatency].quantile("0.9"), "p90"),
        PanelQuery(W.dispatcher[\.deliveryLatency].quantile("0.99"), "p99"),
        PanelQuery(W.dispatcher[\.deliveryLatency].quantile("0.999"), "p99.9"),
    )

    private static let latencyMap = Panel.heatmap(
        "Latency distribution",
        "From publication to acceptance: each column is one interval, darker is more.",
        width: 8,
        W.dispatcher[\.deliveryLatency].buckets(),
    )

    private static let wait = Panel.lines(
        "Queue wait",
        "From publication to reading from the mailbox.",
        .seconds,
        PanelQuery(W.dispatcher[\.queueWait].quantile("0.5"), "p50"),
        PanelQuery(W.dispatcher[\.queueWait].quantile("0.99"), "p99"),
    )

    private static let stages = Panel.lines(
        "Stages",
        "Where the time of direct sends and work units goes: p99 of each stage.",
        .seconds,
        PanelQuery(W.dispatcher[\.stageDuration].quantile("0.99", by: ["stage"]), "{{stage}}"),
    )

    private static let lag = Panel.lines(
        "Event loop lag",
        "How late a timer of 100 ms fires: p99.",
        .seconds,
        PanelQuery(W.every[common: \.eventLoopLag].quantile("0.99", by: ["job"]), "{{job}}"),
    )

    private static let backlog = Panel.lines(
        "Unread",
        "Entries that nobody has read yet: what grows here is more than the services can take.",
        .count,
        PanelQuery(W.every[common: \.streams.backlog].max(by: ["stream"]), "{{stream}}"),
    )

    private static let processor = Panel.lines(
        "Processor",
        "Processor time per second, by service: 1 is one core.",
        .count,
        PanelQuery(W.byService(processorTime), "{{service}}"),
    )

    private static let memory = Panel.lines(
        "Resident memory",
        "By service; flat whatever the audience.",
        .bytes,
        PanelQuery(W.byService(W.every[common: \.process.residentMemory].shown()), "{{service}}"),
    )

    private static let redis = Panel.lines(
        "Redis commands",
        "By command.",
        .perSecond,
        PanelQuery(W.every[common: \.redis.commands].rate(by: ["command"]) + " > 0", "{{command}}"),
    )

    private static let inHand = Panel.lines(
        "In hand",
        "On the wire, or answered and not written down: the window.",
        .count,
        PanelQuery(W.dispatcher[\.inFlight].sum(by: ["provider"]), "{{provider}}"),
    )

    private static let saturation = Panel.lines(
        "Streams in use",
        "Requests on the wire, as a share of those that the providers allow at once.",
        .share,
        PanelQuery(
            W.quotient(
                W.dispatcher[\.streamsInFlight].sum(by: ["provider"]),
                "(\(W.dispatcher[\.streamsLimit].sum(by: ["provider"])) > 0)",
            ),
            "{{provider}}",
        ),
    )

    private static let throttled = Panel.lines(
        "Held back",
        "Routes that send nothing though something waits, by cause: seconds per second, over all event loops.",
        .count,
        PanelQuery(W.dispatcher[\.throttled].rate(by: ["cause"]), "{{cause}}"),
    )
}
