internal import ApusMetrics
internal import ApusRegistration

extension Dashboard {
    private typealias Q = Queries

    /// The registration of devices.
    static let registration = Dashboard(
        name: "registration",
        title: "Registration",
        description: "The HTTP API, the register stream, and the changes of devices.",
        rows: [
            PanelRow("At a glance", errorRate, requestRate, slowest, inFlight, openConnections, unread),
            PanelRow("Requests", byRoute, byCode, duration, durationMap, load, held, cut),
            PanelRow("Devices", devices, changes, sources, authentication, rejected, looked, repaired),
        ],
    )

    private static let serverErrors = Matcher.isOne("code", of: ["500", "503"])

    private static let errorRate = Panel.stat(
        "Success",
        "Share of requests that were not answered with 500 or 503, over the range shown.",
        .share,
        "1 - " + Q.quotient(Q.registration[\.requests].growth(serverErrors), Q.registration[\.requests].growth()),
        bounds: .high(bad: 0.99, good: 0.999),
    )

    private static let requestRate = Panel.stat(
        "Requests",
        "Requests answered per second.",
        .perSecond,
        Q.registration[\.requests].rate(),
    )

    private static let slowest = Panel.stat(
        "Duration p99",
        "Ninety-nine of a hundred requests were answered within this time.",
        .seconds,
        Q.registration[\.requestDuration].quantile("0.99"),
        bounds: .low(good: 0.1, bad: 1),
    )

    private static let inFlight = Panel.stat(
        "In progress",
        "Requests that are being answered.",
        .count,
        Q.registration[\.requestsInFlight].sum(),
    )

    private static let openConnections = Panel.stat(
        "Connections",
        "Open HTTP connections.",
        .count,
        Q.registration[\.connections].sum(),
    )

    private static let unread = Panel.stat(
        "Unread commands",
        "Registration commands of backends that no consumer has read yet.",
        .count,
        Q.registration[common: \.streams.backlog].max(),
        bounds: .low(good: 1_000, bad: 100_000),
    )

    private static let byRoute = Panel.lines(
        "By route",
        "Requests answered, by route and method.",
        .perSecond,
        PanelQuery(Q.registration[\.requests].rate(by: ["route", "method"]) + " > 0", "{{method}} {{route}}"),
    )

    private static let byCode = Panel.lines(
        "By status",
        "Requests answered, by status.",
        .perSecond,
        PanelQuery(Q.registration[\.requests].rate(by: ["code"]) + " > 0", "{{code}}"),
    )

    private static let duration = Panel.lines(
        "Duration",
        "From the head of a request to its answer, by route: p99.",
        .seconds,
        PanelQuery(Q.registration[\.requestDuration].quantile("0.99", by: ["route"]) + " > 0", "{{route}}"),
    )

    private static let durationMap = Panel.heatmap(
        "Duration distribution",
        "All routes: each column is one interval, darker is more.",
        width: 8,
        Q.registration[\.requestDuration].buckets(),
    )

    private static let load = Panel.lines(
        "Connections and requests",
        "Open connections, and requests that are being answered.",
        .count,
        PanelQuery(Q.registration[\.connections].sum(by: ["instance"]), "{{instance}} connections"),
        PanelQuery(Q.registration[\.requestsInFlight].sum(by: ["instance"]), "{{instance}} requests"),
    )

    private static let held = Panel.lines(
        "Memory held for clients",
        "Request bodies, lines of imports, and answers of imports that nobody has read yet.",
        .bytes,
        PanelQuery(Q.registration[\.memoryHeld].sum(by: ["instance"]), "{{instance}}"),
    )

    private static let cut = Panel.lines(
        "Connections closed",
        "Connections closed for a request that arrived too slowly or was far too large, or because their address had too many.",
        .perSecond,
        PanelQuery(Q.registration[\.connectionsCut].rate(), "cut"),
        PanelQuery(Q.registration[\.connectionsRefused].rate(), "refused"),
    )

    private static let devices = Panel.lines(
        "Devices",
        "Devices in the store, of all apps.",
        .count,
        PanelQuery(Q.registration[\.devices].max(by: ["provider"]), "{{provider}}"),
    )

    private static let changes = Panel.lines(
        "Changes",
        "Changes of devices.",
        .perSecond,
        PanelQuery(Q.registration[\.changes].rate(by: ["change"]), "{{change}}"),
    )

    private static let sources = Panel.lines(
        "Sources",
        "Sources of the changes, by provider.",
        .perSecond,
        PanelQuery(Q.registration[\.changes].rate(by: ["provider", "source"]), "{{provider}} {{source}}"),
    )

    private static let authentication = Panel.lines(
        "Failed authentication",
        "Requests without valid credentials, by cause.",
        .perSecond,
        width: 6,
        PanelQuery(Q.registration[\.authenticationFailures].rate(by: ["cause"]) + " > 0", "{{cause}}"),
    )

    private static let rejected = Panel.lines(
        "Invalid requests",
        "Requests and commands that were rejected, by cause.",
        .perSecond,
        width: 6,
        PanelQuery(Q.registration[\.rejected].rate(by: ["cause"]), "{{cause}}"),
    )

    private static let looked = Panel.lines(
        "Janitor: checked",
        "Devices that the janitor checked, and those that it removed because they had not been registered for too long.",
        .perSecond,
        width: 6,
        PanelQuery(Q.registration[\.upkeepDevices].rate(by: ["instance"]), "{{instance}}"),
        PanelQuery(Q.registration[\.changes].rate(.is("change", "expired"), by: ["instance"]), "{{instance}} removed"),
    )

    private static let repaired = Panel.lines(
        "Janitor: repaired",
        "Errors that the janitor repaired, and empty topics that it forgot. Crashes leave wrong tokens and users only.",
        .perSecond,
        width: 6,
        PanelQuery(Q.registration[\.upkeepRepairs].rate(by: ["kind"]), "{{kind}}"),
        PanelQuery(Q.registration[\.topicsForgotten].rate(), "empty topics forgotten"),
    )
}
