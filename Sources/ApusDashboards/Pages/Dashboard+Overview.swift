internal import ApusDispatcher
internal import ApusFeedback
internal import ApusMetrics
internal import ApusRegistration

extension Dashboard {
    private typealias Q = Queries

    /// The overview of the whole installation.
    static let overview = Dashboard(
        name: "overview",
        title: "Overview",
        description: "Apus at a glance: deliveries, latencies, backlogs, and the answers of the providers.",
        rows: [
            PanelRow("At a glance", success, budget, accepted, latency, oldest, ready),
            PanelRow("Deliveries", acceptedByProvider, otherOutcomes, reasons, latencies, latencyMap, apps),
            PanelRow("Backlog", backlog, age, pending, deadLetters),
            PanelRow("Providers", roundTrip, saturation, refusals, circuits, credentials),
            PanelRow("Devices", changes, requests, removed, ignored, suspects, quarantine),
        ],
    )

    // MARK: Summary panels

    private static let success = Panel.stat(
        "Success",
        "Share of final outcomes that are not the gateway's failure, over the range shown. Dead tokens are not failures.",
        .share,
        "1 - "
            + Q.quotient(Q.feedback[\.outcomes].growth(Q.failures), Q.feedback[\.outcomes].growth()),
        bounds: .high(bad: 0.99, good: 0.999),
    )

    private static let budget = Panel.stat(
        "Error budget left",
        "Remaining share of the failures that an objective of \(Objective.delivery.target) over 30 days allows. Below zero, it is exceeded.",
        .share,
        Objective.delivery.budgetLeft,
        bounds: .high(bad: 0, good: 0.25),
    )

    private static let accepted = Panel.stat(
        "Accepted",
        "Notifications that the providers accept per second.",
        .perSecond,
        Q.dispatcher[\.deliveries].rate(.is("outcome", "accepted")),
    )

    private static let latency = Panel.stat(
        "Latency p99",
        "Ninety-nine of a hundred accepted notifications were accepted within this time of their publication.",
        .seconds,
        Q.dispatcher[\.deliveryLatency].quantile("0.99"),
        bounds: .low(good: 1, bad: 5),
    )

    private static let oldest = Panel.stat(
        "Oldest waiting",
        "Time for which the oldest unread entry of all streams has been waiting.",
        .seconds,
        Q.age(Q.every[common: \.streams.oldestUnread]),
        bounds: .low(good: 60, bad: 300),
    )

    private static let ready = Panel.stat(
        "Ready",
        "Instances that report that they are ready.",
        .count,
        Q.every[common: \.ready].sum(),
    )

    // MARK: Deliveries

    private static let acceptedByProvider = Panel.lines(
        "Accepted",
        "Notifications that the providers accepted.",
        .perSecond,
        PanelQuery(Q.dispatcher[\.deliveries].rate(.is("outcome", "accepted"), by: ["provider"]), "{{provider}}"),
    )

    private static let otherOutcomes = Panel.lines(
        "Other outcomes",
        "Recipients with another final outcome than accepted.",
        .perSecond,
        PanelQuery(Q.feedback[\.outcomes].rate(.isNot("outcome", "accepted"), by: ["outcome"]), "{{outcome}}"),
    )

    private static let reasons = Panel.lines(
        "Reasons",
        "Reasons of the outcomes other than accepted.",
        .perSecond,
        PanelQuery(Q.feedback[\.reasons].rate(by: ["reason"]) + " > 0", "{{reason}}"),
    )

    private static let latencies = Panel.lines(
        "Latency",
        "From publication to acceptance by the provider, by lane: express is what a person waits for, bulk takes as long as it takes.",
        .seconds,
        PanelQuery(Q.dispatcher[\.deliveryLatency].quantile("0.5", by: ["lane"]), "{{lane}} p50"),
        PanelQuery(
            Q.dispatcher[\.deliveryLatency].quantile("0.99", by: ["provider", "lane"]),
            "{{provider}} {{lane}} p99"
        ),
    )

    private static let latencyMap = Panel.heatmap(
        "Latency distribution",
        "From publication to acceptance, all providers: each column is one interval, darker is more.",
        width: 8,
        Q.dispatcher[\.deliveryLatency].buckets(),
    )

    private static let apps = Panel.lines(
        "Apps",
        "Recipients that reached a final outcome, by app and provider.",
        .perSecond,
        isStacked: true,
        PanelQuery(Q.dispatcher[\.appDeliveries].rate(by: ["app", "provider"]) + " > 0", "{{app}} {{provider}}"),
    )

    // MARK: Backlog

    private static let backlog = Panel.lines(
        "Unread",
        "Entries that no consumer has read yet, by stream.",
        .count,
        width: 6,
        PanelQuery(Q.every[common: \.streams.backlog].max(by: ["stream"]), "{{stream}}"),
    )

    private static let age = Panel.lines(
        "Age of the oldest",
        "Time for which the oldest unread entry of each stream has been waiting.",
        .seconds,
        width: 6,
        PanelQuery(Q.age(Q.every[common: \.streams.oldestUnread], by: ["stream"]), "{{stream}}"),
    )

    private static let pending = Panel.lines(
        "Pending",
        "Entries that were read and are not yet finished, by stream.",
        .count,
        width: 6,
        PanelQuery(Q.every[common: \.streams.pending].max(by: ["stream"]), "{{stream}}"),
    )

    private static let deadLetters = Panel.lines(
        "Dead letters",
        "Entries that were set aside because they could not be handled; see `apus dead list`.",
        .perSecond,
        width: 6,
        PanelQuery(Q.every[common: \.streams.deadLetters].rate(by: ["stream", "reason"]), "{{stream}} {{reason}}"),
    )

    // MARK: Providers

    private static let roundTrip = Panel.lines(
        "Round trip p99",
        "From a request to its answer.",
        .seconds,
        width: 6,
        PanelQuery(Q.dispatcher[\.requestDuration].quantile("0.99", by: ["provider"]), "{{provider}}"),
    )

    private static let saturation = Panel.lines(
        "Streams in use",
        "Requests in flight, as a share of those that the providers allow at once.",
        .share,
        width: 6,
        PanelQuery(
            Q.quotient(
                Q.dispatcher[\.streamsInFlight].sum(by: ["provider"]),
                "(\(Q.dispatcher[\.streamsLimit].sum(by: ["provider"])) > 0)",
            ),
            "{{provider}}",
        ),
    )

    private static let refusals = Panel.lines(
        "Refusals",
        "Answers 429 and 503, and connections that the provider closed.",
        .perSecond,
        width: 6,
        PanelQuery(
            Q.dispatcher[\.requests].rate(.isOne("code", of: ["429", "503"]), by: ["provider", "code"]),
            "{{provider}} {{code}}",
        ),
        PanelQuery(Q.dispatcher[\.goAways].rate(by: ["provider"]), "{{provider}} GOAWAY"),
    )

    private static let circuits = Panel.lines(
        "Circuits not closed",
        "Routes on which nothing or only trial requests are sent, because the provider fails; counted on each event loop.",
        .count,
        width: 6,
        PanelQuery(
            Q.dispatcher[\.circuits].sum(.isNot("state", "closed"), by: ["provider", "state"]),
            "{{provider}} {{state}}",
        ),
    )

    private static let credentials = Panel.stats(
        "Credentials valid for",
        "Time until the first credential in use expires. Tokens (jwt, oauth) are renewed automatically; certificates are not.",
        .seconds,
        PanelQuery(Q.validity(by: ["kind"]), "{{kind}}"),
        // As the alert for tokens; certificates have alerts weeks before.
        bounds: .high(bad: 120, good: 300),
    )

    // MARK: Devices

    private static let changes = Panel.lines(
        "Changes",
        "Changes of devices.",
        .perSecond,
        PanelQuery(Q.registration[\.changes].rate(by: ["change"]), "{{change}}"),
    )

    private static let requests = Panel.lines(
        "Requests",
        "HTTP requests to registration, by status.",
        .perSecond,
        PanelQuery(Q.registration[\.requests].rate(by: ["code"]) + " > 0", "{{code}}"),
    )

    private static let removed = Panel.lines(
        "Removed and changed",
        "Devices that were removed or changed because of a provider's answer about their tokens, by cause.",
        .perSecond,
        PanelQuery(Q.feedback[\.removed].rate(by: ["cause"]), "removed {{cause}}"),
        PanelQuery(Q.feedback[\.marked].rate(by: ["change"]), "{{change}}"),
    )

    private static let ignored = Panel.lines(
        "Verdicts ignored",
        "Answers of providers about tokens that had no effect, by cause.",
        .perSecond,
        PanelQuery(Q.feedback[\.ignored].rate(by: ["cause"]), "{{cause}}"),
    )

    private static let suspects = Panel.lines(
        "Suspect tokens",
        "Tokens that a provider reported as bad: those that wait to be deleted, and those that are kept until an operator decides.",
        .count,
        PanelQuery(Q.feedback[\.suspects].max(by: ["provider"]), "{{provider}} waiting"),
        PanelQuery(Q.feedback[\.quarantinedSuspects].max(by: ["provider"]), "{{provider}} kept"),
    )

    private static let quarantine = Panel.lines(
        "Quarantine",
        "Routes that are paused because too many of their tokens were reported as bad, and how often that happens per second; "
            + "routes that are paused because the provider refuses their configuration.",
        .count,
        PanelQuery(Q.feedback[\.quarantinedRoutes].max(by: ["route"]), "{{route}} in quarantine"),
        PanelQuery(Q.feedback[\.guardTrips].rate(by: ["provider"]), "{{provider}} paused per second"),
        PanelQuery(Q.feedback[\.faultyRoutes].max(by: ["route"]), "{{route}} faulty"),
    )
}
