internal import ApusDispatcher
internal import ApusMetrics

extension Dashboard {
    private typealias Q = Queries

    /// Shows the effect of a load test on the services. The target rate and the latencies of the test are in its
    /// report: `apus-lab loadtest --json`.
    static let loadTest = Dashboard(
        name: "loadtest",
        title: "Load test",
        description: "The effect of a load on the services: rates, latencies, and the cost of a million notifications.",
        rows: [
            PanelRow("At a glance", taken, delivered, latency, worst, cost, redisCost),
            PanelRow("Rates and latencies", rates, latencies, latencyMap, wait, stages, lag, backlog),
            PanelRow("Cost", processor, memory, redis),
            PanelRow("Limits", inHand, saturation, throttled),
        ],
    )

    private static let accepted = Q.dispatcher[\.deliveries].rate(.is("outcome", "accepted"))
    private static let processorTime = "rate(\(Q.every[common: \.process.cpu].shown())[$__rate_interval])"

    private static let taken = Panel.stat(
        "Commands",
        "Send commands read per second.",
        .perSecond,
        Q.dispatcher[\.commands].rate(.is("result", "accepted")),
    )

    private static let delivered = Panel.stat(
        "Accepted",
        "Notifications that the providers accept per second.",
        .perSecond,
        accepted,
    )

    private static let latency = Panel.stat(
        "Latency p50",
        "Half of the notifications were accepted within this time of their publication.",
        .seconds,
        Q.dispatcher[\.deliveryLatency].quantile("0.5"),
    )

    private static let worst = Panel.stat(
        "Latency p99.9",
        "All but one of a thousand were accepted within this time of their publication.",
        .seconds,
        Q.dispatcher[\.deliveryLatency].quantile("0.999"),
    )

    private static let cost = Panel.stat(
        "Dispatcher cost",
        "Seconds of processor time that the dispatchers take for a million accepted notifications.",
        .count,
        "1e6 * sum(\(processorTime) * on (job, instance) group_left () \(Q.dispatcher.buildInformation.shown([.is("service", "apus-dispatcher")]))) / \(accepted)",
    )

    private static let redisCost = Panel.stat(
        "Redis commands per notification",
        "Redis commands of all services, divided by accepted notifications.",
        .count,
        Q.quotient(Q.every[common: \.redis.commands].rate(), accepted),
    )

    private static let rates = Panel.lines(
        "Rates",
        "Commands read and notifications accepted.",
        .perSecond,
        PanelQuery(Q.dispatcher[\.commands].rate(.is("result", "accepted")), "commands"),
        PanelQuery(accepted, "accepted"),
    )

    private static let latencies = Panel.lines(
        "Latency",
        "From publication to acceptance by the provider.",
        .seconds,
        PanelQuery(Q.dispatcher[\.deliveryLatency].quantile("0.5"), "p50"),
        PanelQuery(Q.dispatcher[\.deliveryLatency].quantile("0.9"), "p90"),
        PanelQuery(Q.dispatcher[\.deliveryLatency].quantile("0.99"), "p99"),
        PanelQuery(Q.dispatcher[\.deliveryLatency].quantile("0.999"), "p99.9"),
    )

    private static let latencyMap = Panel.heatmap(
        "Latency distribution",
        "From publication to acceptance: each column is one interval, darker is more.",
        width: 8,
        Q.dispatcher[\.deliveryLatency].buckets(),
    )

    private static let wait = Panel.lines(
        "Queue wait",
        "From publication to reading from the mailbox.",
        .seconds,
        PanelQuery(Q.dispatcher[\.queueWait].quantile("0.5"), "p50"),
        PanelQuery(Q.dispatcher[\.queueWait].quantile("0.99"), "p99"),
    )

    private static let stages = Panel.lines(
        "Stages",
        "Time that direct sends and work units spend in each stage: p99.",
        .seconds,
        PanelQuery(Q.dispatcher[\.stageDuration].quantile("0.99", by: ["stage"]), "{{stage}}"),
    )

    private static let lag = Panel.lines(
        "Event loop lag",
        "Delay of a timer of 100 ms: p99.",
        .seconds,
        PanelQuery(Q.every[common: \.eventLoopLag].quantile("0.99", by: ["job"]), "{{job}}"),
    )

    private static let backlog = Panel.lines(
        "Unread",
        "Entries that no consumer has read yet. If their number grows, the load is more than the services can handle.",
        .count,
        PanelQuery(Q.every[common: \.streams.backlog].max(by: ["stream"]), "{{stream}}"),
    )

    private static let processor = Panel.lines(
        "Processor",
        "Processor time per second, by service: 1 is one core.",
        .count,
        PanelQuery(Q.byService(processorTime), "{{service}}"),
    )

    private static let memory = Panel.lines(
        "Resident memory",
        "By service. It does not depend on the size of the audience.",
        .bytes,
        PanelQuery(Q.byService(Q.every[common: \.process.residentMemory].shown()), "{{service}}"),
    )

    private static let redis = Panel.lines(
        "Redis commands",
        "By command.",
        .perSecond,
        PanelQuery(Q.every[common: \.redis.commands].rate(by: ["command"]) + " > 0", "{{command}}"),
    )

    private static let inHand = Panel.lines(
        "In flight or unsaved",
        "Notifications in flight, or answered and not yet stored: the window.",
        .count,
        PanelQuery(Q.dispatcher[\.inFlight].sum(by: ["provider"]), "{{provider}}"),
    )

    private static let saturation = Panel.lines(
        "Streams in use",
        "Requests in flight, as a share of those that the providers allow at once.",
        .share,
        PanelQuery(
            Q.quotient(
                Q.dispatcher[\.streamsInFlight].sum(by: ["provider"]),
                "(\(Q.dispatcher[\.streamsLimit].sum(by: ["provider"])) > 0)",
            ),
            "{{provider}}",
        ),
    )

    private static let throttled = Panel.lines(
        "Held back",
        "Time in which routes send nothing although work waits, by cause: seconds per second, over all event loops.",
        .count,
        PanelQuery(Q.dispatcher[\.throttled].rate(by: ["cause"]), "{{cause}}"),
    )
}
