internal import ApusDispatcher
internal import ApusMetrics

extension Dashboard {
    private typealias Q = Queries
    private static let chosen = Matcher.variable("provider")

    /// The state of one provider and of the deliveries to it.
    static let provider = Dashboard(
        name: "provider",
        title: "Provider",
        description: "Connections, answers and the brakes of one provider or all.",
        variables: [Variable(label: "provider", family: Q.dispatcher[\.requests])],
        rows: [
            PanelRow("Answers", answers, roundTrips, roundTripMap, retries, reasons, payloadSize),
            PanelRow(
                "Connections",
                connections,
                attempts,
                connecting,
                goodbyes,
                pings,
                bytes,
                streamUse,
                inHand,
                payload
            ),
            PanelRow("Brakes", throttled, circuits, levels),
            PanelRow("Credentials", expiry, mints, reloads),
        ],
    )

    private static let answers = Panel.lines(
        "Answers",
        "Requests by the status of their answer; error: there was none.",
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
        "Recipients that are tried again, by why.",
        .perSecond,
        PanelQuery(
            Q.dispatcher[\.retries].rate(chosen, by: ["provider", "reason"]) + " > 0",
            "{{provider}} {{reason}}",
        ),
    )

    private static let reasons = Panel.lines(
        "Final reasons",
        "Why recipients ended otherwise than accepted.",
        .perSecond,
        PanelQuery(
            Q.dispatcher[\.reasons].rate(chosen, by: ["provider", "reason"]) + " > 0",
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
        "Bytes of a request's body, of the messages that were written out: the providers refuse what is beyond 4 KiB.",
        .bytes,
        PanelQuery(Q.dispatcher[\.payloadBytes].quantile("0.5", chosen, by: ["provider"]), "{{provider}} p50"),
        PanelQuery(Q.dispatcher[\.payloadBytes].quantile("0.99", chosen, by: ["provider"]), "{{provider}} p99"),
    )

    private static let pings = Panel.lines(
        "Distance",
        "From an HTTP/2 PING to its answer, without the provider's own work on a request: p99.",
        .seconds,
        PanelQuery(Q.dispatcher[\.pingDuration].quantile("0.99", chosen, by: ["provider"]), "{{provider}}"),
    )

    private static let bytes = Panel.lines(
        "Bytes",
        "HTTP/2 to and from the provider, before TLS.",
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

    private static let attempts = Panel.lines(
        "Attempts to connect",
        "By how they ended.",
        .perSecond,
        PanelQuery(
            Q.dispatcher[\.connectionAttempts].rate(chosen, by: ["provider", "outcome"]),
            "{{provider}} {{outcome}}",
        ),
    )

    private static let connecting = Panel.lines(
        "Time to connect",
        "Name look-up, TCP and TLS of the connections that were made: p99.",
        .seconds,
        PanelQuery(Q.dispatcher[\.connectDuration].quantile("0.99", chosen, by: ["provider"]), "{{provider}} all"),
        PanelQuery(Q.dispatcher[\.handshakeDuration].quantile("0.99", chosen, by: ["provider"]), "{{provider}} TLS"),
    )

    private static let goodbyes = Panel.lines(
        "Goodbyes",
        "Connections that the provider ended with GOAWAY, by its code.",
        .perSecond,
        PanelQuery(Q.dispatcher[\.goAways].rate(chosen, by: ["provider", "code"]), "{{provider}} {{code}}"),
    )

    private static let streamUse = Panel.lines(
        "Streams",
        "Requests on the wire, and how many the provider allows at once.",
        .count,
        PanelQuery(Q.dispatcher[\.streamsInFlight].sum(chosen, by: ["provider"]), "{{provider}} in use"),
        PanelQuery(Q.dispatcher[\.streamsLimit].sum(chosen, by: ["provider"]), "{{provider}} allowed"),
    )

    private static let inHand = Panel.lines(
        "In hand",
        "On the wire, or answered and not written down: what a crash at this moment would send again.",
        .count,
        PanelQuery(Q.dispatcher[\.inFlight].sum(chosen, by: ["provider"]), "{{provider}}"),
    )

    private static let throttled = Panel.lines(
        "Held back",
        "Routes that send nothing though something waits, by cause: seconds per second, over all event loops.",
        .count,
        PanelQuery(
            Q.dispatcher[\.throttled].rate(chosen, by: ["provider", "cause"]),
            "{{provider}} {{cause}}",
        ),
    )

    private static let circuits = Panel.lines(
        "Circuits",
        "By state, one for each route and event loop.",
        .count,
        PanelQuery(Q.dispatcher[\.circuits].sum(chosen, by: ["provider", "state"]), "{{provider}} {{state}}"),
    )

    private static let levels = Panel.lines(
        "Rate level",
        "What refusals have left of the rate, on the average of routes: 100 % is all of it.",
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
        "Time until the first of the tokens in use expires; they are renewed before.",
        .seconds,
        PanelQuery(Q.validity(chosen, by: ["provider", "kind"]), "{{provider}} {{kind}}"),
    )

    private static let mints = Panel.lines(
        "Tokens made",
        "Tokens signed here and granted by providers, and those that were not to be had.",
        .perSecond,
        PanelQuery(
            Q.dispatcher[\.tokenMints].rate(chosen, by: ["provider", "outcome"]),
            "{{provider}} {{outcome}}",
        ),
    )

    private static let reloads = Panel.lines(
        "New credentials",
        "Keys and accounts that changed while the service ran, by what they came to.",
        .perSecond,
        PanelQuery(
            Q.dispatcher[\.credentialReloads].rate(chosen, by: ["provider", "result"]),
            "{{provider}} {{result}}",
        ),
    )
}
