internal import ApusFeedback
internal import ApusMetrics
internal import ApusService

extension Alert {
    private typealias Q = Queries

    /// Alerts about the processes, Redis and the configuration.
    static let processes: [Alert] =
        [
            Alert(
                name: "ApusRedisDisconnected",
                severity: .critical,
                lasts: "1m",
                expression: "max_over_time(\(Q.every[common: \.redis.connected].series())[1m]) == 0",
                queries: [Q.every[common: \.redis.connected].series()],
                summary: "{{ $labels.instance }} of {{ $labels.job }} does not reach Redis.",
                description: "It reads and sends nothing until it does. The results of requests in flight are kept.",
            ),
            Alert(
                name: "ApusShardUnreachable",
                severity: .critical,
                lasts: "1m",
                expression: "\(Q.every[common: \.streams.unreachableShards].series()) > 0",
                queries: [Q.every[common: \.streams.unreachableShards].series()],
                summary: "{{ $labels.instance }} of {{ $labels.job }} does not reach Redis for {{ $value }} shards.",
                description:
                    "What these shards hold waits; the others go on. A failover takes seconds, so nobody takes over here.",
            ),
            Alert(
                name: "ApusFunctionsMissing",
                severity: .critical,
                lasts: "0m",
                expression: "max by (namespace) (\(Q.every[common: \.streams.serversWithoutFunctions].series())) > 0",
                queries: [Q.every[common: \.streams.serversWithoutFunctions].series()],
                summary: "{{ $value }} Redis masters lack Apus' functions.",
                description:
                    "Whatever lies on them waits, and a slot that moves there stops. `apus init` loads the functions on every master.",
            ),
            Alert(
                name: "ApusRecordsRefused",
                severity: .critical,
                lasts: "0m",
                expression: "increase(\(Q.every[common: \.refusedRecords].series())[5m]) > 0",
                queries: ["increase(\(Q.every[common: \.refusedRecords].series())[5m])"],
                summary: "{{ $labels.instance }} of {{ $labels.job }} lacks a key of the records of devices.",
                description:
                    "What needs these devices waits, and clients are told to come back. Nothing is lost and nothing is written "
                    + "in the clear. Its log names the key.",
            ),
            Alert(
                name: "ApusEventLoopBlocked",
                severity: .warning,
                lasts: "5m",
                expression: """
                    histogram_quantile(0.99, sum by (namespace, job, instance, le) (rate(\(lag)[5m]))) > 0.1
                    """,
                queries: ["histogram_quantile(0.99, sum by (namespace, job, instance, le) (rate(\(lag)[5m])))"],
                summary: "The event loops of {{ $labels.instance }} of {{ $labels.job }} are delayed.",
                description:
                    "One timer of a hundred fires more than 100 ms late: the machine is overloaded, or something "
                    + "blocks a loop.",
            ),
            Alert(
                name: "ApusFdsNearLimit",
                severity: .warning,
                lasts: "5m",
                expression: """
                    \(Q.every[common: \.process.openDescriptors].series([]))
                    /
                    \(Q.every[common: \.process.maxDescriptors].series([]))
                    > 0.8
                    and on (namespace, job, instance)
                    \(Q.every.buildInformation.series())
                    """,
                queries: [
                    Q.every[common: \.process.openDescriptors].series(),
                    Q.every[common: \.process.maxDescriptors].series(),
                    Q.every.buildInformation.series(),
                ],
                summary: "{{ $labels.instance }} of {{ $labels.job }} has almost no file descriptor left.",
                description:
                    "More than 80 % of the limit are open. At the limit it cannot accept connections.",
            ),
            Alert(
                name: "ApusConfigReloadFailed",
                severity: .warning,
                lasts: "0m",
                expression: "max_over_time(\(Q.every[common: \.configurationReloadSuccessful].series())[5m]) == 0",
                queries: [Q.every[common: \.configurationReloadSuccessful].series()],
                summary: "{{ $labels.instance }} of {{ $labels.job }} cannot apply its configuration.",
                description:
                    "A file has mistakes, or a key was refused. It continues with the former settings; apus services and its log say why.",
            ),
            Alert(
                name: "ApusServiceMissing",
                severity: .critical,
                lasts: "15s",
                expression: "max by (namespace, service) (\(missing)) > 0",
                queries: ["max by (namespace, service) (\(missing))"],
                summary: "{{ $value }} processes of {{ $labels.service }} have ended without a shutdown.",
                description:
                    "They have not reported themselves for 15 s, and none took their place. What they had in hand goes to "
                    + "the others; if none is left, nothing of that service's work is done.",
            ),
            Alert(
                name: "ApusWebhookFailing",
                severity: .warning,
                lasts: "2m",
                expression: """
                    sum by (namespace, job) (increase(\(webhook([.isOne("effect", of: ["retried", "dead"])]))[15m])) > 0
                    unless
                    sum by (namespace, job) (increase(\(webhook([.is("effect", "delivered")]))[15m])) > 0
                    or
                    sum by (namespace, job) (increase(\(webhook([.is("effect", "expired")]))[15m])) > 0
                    or
                    max by (namespace, job) (time() - (\(failing) > 0)) > 900
                    """,
                queries: [
                    "sum by (namespace, job) (increase(\(webhook([.isOne("effect", of: ["retried", "dead"])]))[15m]))",
                    "sum by (namespace, job) (increase(\(webhook([.is("effect", "delivered")]))[15m]))",
                    "sum by (namespace, job) (increase(\(webhook([.is("effect", "expired")]))[15m]))",
                    failing,
                ],
                summary: "The webhook takes no receipts, or too few.",
                description:
                    "Receipts were posted again, and for a quarter of an hour none was taken, or none of one shard; or it takes them so slowly "
                    + "that some were removed after three days. They wait in Redis, and what is not taken in the last try becomes a dead "
                    + "letter. How many wait, and since when: apus lag.",
            ),
            Alert(
                name: "ApusTargetMissing",
                severity: .critical,
                lasts: "30s",
                expression: (["sum by (namespace, job) (up{job=~\"\(jobs.joined(separator: "|"))\"}) == 0"]
                    + jobs.map { "absent(up{job=\"\($0)\"})" }).joined(separator: "\nor\n"),
                queries: jobs.map { "up{job=\"\($0)\"} == 1" },
                summary: "No instance of {{ $labels.job }} can be scraped.",
                description: "Either none runs, or Prometheus looks for them in the wrong place.",
            ),
        ]

    private static let jobs = ServiceName.allCases.map(\.programName)

    private static let missing = Q.feedback[\.processes].series([.is("state", "missing")])

    private static func webhook(_ matchers: [Matcher]) -> String {
        Q.feedback[\.webhookReceipts].series(matchers)
    }

    private static let failing = Q.feedback[\.webhookFailingSince].series()

    private static let lag = Q.every[common: \.eventLoopLag].series(suffix: "_bucket")
}
