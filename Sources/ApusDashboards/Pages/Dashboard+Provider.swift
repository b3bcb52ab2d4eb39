internal import ApusDispatcher
internal import ApusFeedback
internal import ApusMetrics

extension Dashboard {
    private typealias Q = Queries
    private static let chosen = Matcher.variable("provider")

    /// The state of one provider and of the deliveries to it.
    static let provider = Dashboard(
        name: "provider",
        title: "Provider",
        description: "Connections, answers and limits of one provider or of all.",
        variables: [Variable(label: "provider", family: Q.dispatcher[\.requests])],
        rows: [
            PanelRow("Answers", answers, roundTrips, roundTripMap, retries, reasons, payloadSize),
            PanelRow(
                "Connections",
                connections,
                attempts,
                connecting,
                goAways,
                pings,
                bytes,
                origins,
                streamUse,
                inHand,
                payload
            ),
            PanelRow("Limits", throttled, circuits, levels),
            PanelRow("Credentials", expiry, mints, reloads),
        ],
    )

    private static let answers = Panel.lines(
        "Answers",
        "Requests by the status of their answer. The status error means that there was no answer.",
        .perSecond,
        PanelQuery(
            Q.dispatcher[\.requests].rate(chosen, by: ["provider", "code"]) + " > 0",
            "{{provider}} {{code}}",
        ),
    )

    private static let roundTrips = Panel.lines(
        "Round trip",
        "From a request to its answer.",
        .seconds,
        PanelQuery(Q.dispatcher[\.requestDuration].quantile("0.5", chosen, by: ["provider"]), "{{provider}} p50"),
        PanelQuery(Q.dispatcher[\.requestDuration].quantile("0.99", chosen, by: ["provider"]), "{{provider}} p99"),
    )

    private static let roundTripMap = Panel.heatmap(
        "Round trip distribution",
        "From a request to its answer: each column is one interval, darker is more.",
        width: 8,
        Q.dispatcher[\.requestDuration].buckets(chosen),
    )

    private static let retries = Panel.lines(
        "Retries",
        "Recipients that are retried, by reason, and recipients of all providers that were read again because they had waited.",
        .perSecond,
        PanelQuery(
            Q.dispatcher[\.retries].rate(chosen, by: ["provider", "reason"]) + " > 0",
            "{{provider}} {{reason}}",
        ),
        PanelQuery(Q.dispatcher[\.rechecked].rate() + " > 0", "read again"),
    )

    private static let reasons = Panel.lines(
        "Final reasons",
        "Reasons of the final outcomes other than accepted.",
        .perSecond,
        PanelQuery(
            Q.feedback[\.reasons].rate(chosen, by: ["provider", "reason"]) + " > 0",
            "{{provider}} {{reason}}",
        ),
    )

    private static let payload = Panel.lines(
        "Payload",
        "Bytes of the bodies of requests.",
        .bytesPerSecond,
        PanelQuery(Q.dispatcher[\.payloadTotal].rate(chosen, by: ["provider"]), "{{provider}}"),
    )

    private static let payloadSize = Panel.lines(
        "Payload size",
        "Bytes of the bodies of requests. The providers refuse more than 4 KiB.",
        .bytes,
        PanelQuery(Q.dispatcher[\.payloadBytes].quantile("0.5", chosen, by: ["provider"]), "{{provider}} p50"),
        PanelQuery(Q.dispatcher[\.payloadBytes].quantile("0.99", chosen, by: ["provider"]), "{{provider}} p99"),
    )

    private static let pings = Panel.lines(
        "PING round trip",
        "Time from an HTTP/2 PING to its answer, which does not include the provider's work on a request: p99.",
        .seconds,
        PanelQuery(Q.dispatcher[\.pingDuration].quantile("0.99", chosen, by: ["provider"]), "{{provider}}"),
    )

    private static let bytes = Panel.lines(
        "Bytes",
        "HTTP/2 bytes to and from the provider, before encryption.",
        .bytesPerSecond,
        PanelQuery(
            Q.dispatcher[\.bytes].rate(chosen, by: ["provider", "direction"]),
            "{{provider}} {{direction}}",
        ),
    )

    private static let connections = Panel.lines(
        "Connections",
        "By state.",
        .count,
        PanelQuery(
            Q.dispatcher[\.connections].sum(chosen, by: ["provider", "state"]),
            "{{provider}} {{state}}",
        ),
    )

    private static let origins = Panel.lines(
        "Hosts of recipients",
        "Hosts that addresses of recipients lead to, such as push services of browsers, by state. Requests for those that are not sending "
            + "are put off.",
        .count,
        PanelQuery(Q.dispatcher[\.origins].sum(chosen, by: ["provider", "state"]) + " > 0", "{{provider}} {{state}}"),
    )

    private static let attempts = Panel.lines(
        "Attempts to connect",
        "Attempts by outcome.",
        .perSecond,
        PanelQuery(
            Q.dispatcher[\.connectionAttempts].rate(chosen, by: ["provider", "outcome"]),
            "{{provider}} {{outcome}}",
        ),
    )

    private static let connecting = Panel.lines(
        "Time to connect",
        "Time for name look-up, TCP and TLS of successful attempts: p99.",
        .seconds,
        PanelQuery(Q.dispatcher[\.connectDuration].quantile("0.99", chosen, by: ["provider"]), "{{provider}} all"),
        PanelQuery(Q.dispatcher[\.handshakeDuration].quantile("0.99", chosen, by: ["provider"]), "{{provider}} TLS"),
    )

    private static let goAways = Panel.lines(
        "GOAWAY",
        "Connections that the provider closed with GOAWAY, by error code.",
        .perSecond,
        PanelQuery(Q.dispatcher[\.goAways].rate(chosen, by: ["provider", "code"]), "{{provider}} {{code}}"),
    )

    private static let streamUse = Panel.lines(
        "Streams",
        "Requests in flight, and the number that the provider allows at once.",
        .count,
        PanelQuery(Q.dispatcher[\.streamsInFlight].sum(chosen, by: ["provider"]), "{{provider}} in use"),
        PanelQuery(Q.dispatcher[\.streamsLimit].sum(chosen, by: ["provider"]), "{{provider}} allowed"),
    )

    private static let inHand = Panel.lines(
        "In flight or unsaved",
        "Notifications in flight, or answered and not yet stored. After a crash at this moment they would be sent again.",
        .count,
        PanelQuery(Q.dispatcher[\.inFlight].sum(chosen, by: ["provider"]), "{{provider}}"),
    )

    private static let throttled = Panel.lines(
        "Held back",
        "Time in which routes send nothing although work waits, by cause: seconds per second, over all event loops.",
        .count,
        PanelQuery(
            Q.dispatcher[\.throttled].rate(chosen, by: ["provider", "cause"]),
            "{{provider}} {{cause}}",
        ),
    )

    private static let circuits = Panel.lines(
        "Circuits",
        "Circuits by state; there is one for each route and event loop.",
        .count,
        PanelQuery(Q.dispatcher[\.circuits].sum(chosen, by: ["provider", "state"]), "{{provider}} {{state}}"),
    )

    private static let levels = Panel.lines(
        "Rate level",
        "Share of the rate that remains after refusals, averaged over the routes. 100 % is the full rate.",
        .share,
        PanelQuery(
            Q.quotient(
                Q.dispatcher[\.rateLevels].sum(chosen, by: ["provider"]),
                "(\(Q.dispatcher[\.circuits].sum(chosen, by: ["provider"])) > 0)",
            ),
            "{{provider}}",
        ),
    )

    private static let expiry = Panel.lines(
        "Valid for",
        "Time until the credential of each route expires. Tokens are renewed before that.",
        .seconds,
        PanelQuery(Q.validity(.routeOfChosenProvider("route"), by: ["route", "kind"]), "{{route}} {{kind}}"),
    )

    private static let mints = Panel.lines(
        "Tokens made",
        "Tokens signed by Apus or granted by providers, and failed attempts.",
        .perSecond,
        PanelQuery(
            Q.dispatcher[\.tokenMints].rate(chosen, by: ["provider", "outcome"]),
            "{{provider}} {{outcome}}",
        ),
    )

    private static let reloads = Panel.lines(
        "New credentials",
        "Keys and accounts that changed while the service was running, by result.",
        .perSecond,
        PanelQuery(
            Q.dispatcher[\.credentialReloads].rate(chosen, by: ["provider", "result"]),
            "{{provider}} {{result}}",
        ),
    )
}
