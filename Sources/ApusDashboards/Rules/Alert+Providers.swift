internal import ApusDispatcher
internal import ApusFeedback
internal import ApusMetrics

extension Alert {
    private typealias Q = Queries

    /// Alerts about the providers and their answers.
    static let providers: [Alert] = Self.answers + Self.certificates

    private static let answers: [Alert] = [
        Alert(
            name: "ApusProviderDown",
            severity: .critical,
            lasts: "2m",
            expression: """
                sum by (namespace, job, instance, provider) (\(open)) == 0
                and
                sum by (namespace, job, instance, provider) (rate(\(failed)[5m])) > 0
                """,
            queries: [
                "sum by (namespace, job, instance, provider) (\(open))",
                "sum by (namespace, job, instance, provider) (rate(\(failed)[5m]))",
            ],
            summary: "{{ $labels.instance }} has no connection to {{ $labels.provider }}.",
            description:
                "Its attempts to connect fail, and no connection is open. What it has taken waits in Redis, and so does everything for "
                + "the provider when no other dispatcher has a connection.",
        ),
        Alert(
            name: "ApusProviderThrottled",
            severity: .warning,
            lasts: "10m",
            expression: """
                sum by (namespace, job, provider) (rate(\(requests([.is("code", "429")]))[5m]))
                /
                sum by (namespace, job, provider) (rate(\(requests([]))[5m]))
                > 0.05
                """,
            queries: ["sum by (namespace, job, provider) (rate(\(requests([.is("code", "429")]))[5m]))"],
            summary: "{{ $labels.provider }} answers more than 5 % of the requests with 429.",
            description: "The rate limit adapts by itself; if this lasts, the configured rate is above what the "
                + "provider grants.",
        ),
        Alert(
            name: "ApusOriginRefusesKey",
            severity: .warning,
            lasts: "20m",
            // Between two requests that may be refused there is up to a minute in which nobody knows of a refusal.
            expression: "sum by (namespace, job, provider) (max_over_time(\(refusing)[10m])) > 0",
            queries: ["sum by (namespace, job, provider) (max_over_time(\(refusing)[10m]))"],
            summary: "A push service of {{ $labels.provider }} refuses the key.",
            description:
                "Each one that refuses it rests for five minutes at a time, and its recipients wait; the others go on. The route "
                + "stops when two refuse it and none has accepted it.",
        ),
        Alert(
            name: "ApusProviderSaturated",
            severity: .warning,
            lasts: "10m",
            expression: """
                sum by (namespace, job, provider) (\(Q.dispatcher[\.streamsInFlight].series()))
                /
                (sum by (namespace, job, provider) (\(Q.dispatcher[\.streamsLimit].series())) > 0)
                > 0.9
                """,
            queries: [
                """
                sum by (namespace, job, provider) (\(Q.dispatcher[\.streamsInFlight].series()))
                /
                (sum by (namespace, job, provider) (\(Q.dispatcher[\.streamsLimit].series())) > 0)
                """
            ],
            summary: "The streams of {{ $labels.provider }} are used up.",
            description: "More than 90 % of the requests that the provider allows at once are in flight: answers are "
                + "slow, or there are too few connections.",
        ),
        Alert(
            name: "ApusCircuitOpen",
            severity: .warning,
            lasts: "5m",
            expression: "max by (namespace, route) (\(Q.feedback[\.failingRoutes].series())) > 0",
            queries: ["max by (namespace, route) (\(Q.feedback[\.failingRoutes].series()))"],
            summary: "The provider of the route {{ $labels.route }} fails, or cannot be connected to.",
            description:
                "Most requests failed there or had no answer, so nothing but trial requests goes out; or a dispatcher cannot "
                + "connect, or gets no access token. All are tried again automatically, and recipients wait. The reason, and since "
                + "when: apus lag.",
        ),
        Alert(
            name: "ApusCredentialNotRenewed",
            severity: .critical,
            lasts: "2m",
            expression: "min by (namespace, job, route, kind) (\(tokenExpiry) - time()) < 120",
            queries: [tokenExpiry],
            summary: "The token of the route {{ $labels.route }} expires and is not renewed.",
            description:
                "Tokens are renewed long before they expire; this one has less than two minutes left. After it "
                + "nothing is sent over {{ $labels.route }}.",
        ),
        Alert(
            name: "ApusRouteQuarantined",
            severity: .critical,
            lasts: "0m",
            expression: "max by (namespace, route) (\(Q.feedback[\.quarantinedRoutes].series())) > 0",
            queries: ["max by (namespace, route) (\(Q.feedback[\.quarantinedRoutes].series()))"],
            summary: "The route {{ $labels.route }} is paused: too many of its tokens were reported as bad.",
            description:
                "Either all these tokens are bad, or a key, a topic or an environment is wrong. Nothing is deleted "
                + "until an operator decides: apus quarantine list.",
        ),
        Alert(
            name: "ApusRouteFaulty",
            severity: .critical,
            lasts: "0m",
            expression: "max by (namespace, route) (\(Q.feedback[\.faultyRoutes].series())) > 0",
            queries: ["max by (namespace, route) (\(Q.feedback[\.faultyRoutes].series()))"],
            summary:
                "The route {{ $labels.route }}, or one topic of it, waits: the provider refuses our configuration.",
            description:
                "A project or credential is wrong for all recipients, or one topic for what goes there: nothing of that is sent, and "
                + "the recipients wait. The topic and the provider's reason: apus lag.",
        ),
        Alert(
            name: "ApusUnregisteredSurge",
            severity: .info,
            lasts: "15m",
            expression: """
                \(RuleGroup.unregisteredRatio)1h > 4 * \(RuleGroup.unregisteredRatio)1d
                and
                \(RuleGroup.unregisteredRatio)1h > 0.05
                """,
            queries: ["\(RuleGroup.unregisteredRatio)1h", "\(RuleGroup.unregisteredRatio)1d"],
            summary: "{{ $labels.provider }} reports four times as many dead tokens as its mean over the day.",
            description: "Tokens of another environment or app look like this, and so does a provider that cleans up.",
        ),
    ]

    /// A credential must be renewed before it expires, or nothing can be sent. A person must do this in the provider's
    /// portal.
    private static let certificates: [Alert] = [(Severity.warning, 30), (.critical, 14)].map { severity, days in
        Alert(
            name: "ApusCertificateExpiring",
            severity: severity,
            lasts: "10m",
            expression: "min by (namespace, job, route) (\(certificateExpiry) - time()) < \(days) * 86400",
            queries: [],
            summary: "The certificate of the route {{ $labels.route }} expires within \(days) days.",
            description:
                "It is not renewed automatically. After it has expired, nothing is sent with it. Its file and its names: apus "
                + "credentials check.",
        )
    }

    private static let tokenExpiry = Q.dispatcher[\.credentialExpiry].series([.isNot("kind", "certificate")])
    private static let certificateExpiry = Q.dispatcher[\.credentialExpiry].series([.is("kind", "certificate")])

    private static let open = Q.dispatcher[\.connections].series([.is("state", "open")])
    private static let failed = Q.dispatcher[\.connectionAttempts].series([.isNot("outcome", "ok")])

    private static let refusing = Q.dispatcher[\.origins].series([.is("state", "refused")])

    private static func requests(_ matchers: [Matcher]) -> String { Q.dispatcher[\.requests].series(matchers) }
}
