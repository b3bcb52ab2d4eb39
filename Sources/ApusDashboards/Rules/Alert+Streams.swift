internal import ApusMetrics

extension Alert {
    private typealias Q = Queries

    /// Alerts about backlogs, and about entries that cannot be handled.
    static let streams: [Alert] = [
        Alert(
            name: "ApusStreamStalled",
            severity: .critical,
            lasts: "5m",
            expression: """
                max by (namespace, job, stream) (\(Q.every[common: \.streams.backlog].series([notDue]))) > 0
                and
                sum by (namespace, job, stream) (rate(\(Q.every[common: \.streams.entriesRead].series([notDue]))[5m])) == 0
                """,
            queries: [
                "max by (namespace, job, stream) (\(Q.every[common: \.streams.backlog].series([notDue])))",
                "sum by (namespace, job, stream) (rate(\(Q.every[common: \.streams.entriesRead].series([notDue]))[5m]))",
            ],
            summary: "Nobody reads the stream {{ $labels.stream }}.",
            description: "Entries wait in {{ $labels.stream }}, and {{ $labels.job }} has read none for five minutes.",
        ),
        Alert(
            name: "ApusReadsStalled",
            severity: .critical,
            lasts: "0m",
            expression: "\(Q.every[common: \.streams.readsStalled].series()) > 0",
            queries: [Q.every[common: \.streams.readsStalled].series()],
            summary: "{{ $labels.instance }} of {{ $labels.job }} does not read its streams.",
            description:
                "Reads of {{ $value }} streams had no good answer for ten seconds. It connects anew by itself, "
                + "reads the other shards of a cluster meanwhile, and is not ready when it reads none.",
        ),
        backlogOld(seconds: 300, severity: .warning, words: "five minutes"),
        backlogOld(seconds: 1_800, severity: .critical, words: "half an hour"),
        Alert(
            name: "ApusPendingStuck",
            severity: .warning,
            lasts: "5m",
            expression: """
                max by (namespace, job, stream) (
                  time() - (\(Q.every[common: \.streams.oldestPending].series([quick])) > 0)
                ) > 900
                unless on (namespace, job, stream)
                max by (namespace, job, stream) (
                  time() - (\(Q.every[common: \.streams.oldestUnread].series([quick])) > 0)
                ) > 600
                """,
            queries: [
                Q.every[common: \.streams.oldestPending].series([quick]),
                Q.every[common: \.streams.oldestUnread].series([quick]),
            ],
            summary:
                "An entry of {{ $labels.stream }} that was written more than fifteen minutes ago is still pending.",
            description:
                "It was read and is neither finished nor released, and it is not one of an old backlog, which ApusBacklogOld tells of. "
                + "The size of an audience is not the cause, because plans and work units are not included here.",
        ),
        Alert(
            name: "ApusDeadLetters",
            severity: .warning,
            lasts: "0m",
            expression: """
                sum by (namespace, job, stream, reason) (increase(\(Q.every[common: \.streams.deadLetters].series())[15m])) > 0
                """,
            queries: [
                "sum by (namespace, job, stream, reason) (increase(\(Q.every[common: \.streams.deadLetters].series())[15m]))"
            ],
            summary: "Entries of {{ $labels.stream }} became dead letters: {{ $labels.reason }}.",
            description: "They could not be handled and were set aside with their bytes: apus dead list.",
        ),
    ]

    /// Counts unread entries; in the stream of due entries these are the ones that should have been moved.
    private static let notDue = Matcher.isNot("stream", "due")
    /// The streams whose entries are finished within moments. Plans are not included, because a plan stays pending for
    /// as long as its send takes.
    private static let quick = Matcher.isNone("stream", of: ["plan", "work", "due"])

    private static func backlogOld(seconds: Int, severity: Severity, words: String) -> Alert {
        let oldest = Q.every[common: \.streams.oldestUnread].series()
        return Alert(
            name: "ApusBacklogOld",
            severity: severity,
            lasts: "5m",
            expression: "max by (namespace, job, stream) (time() - (\(oldest) > 0)) > \(seconds)",
            queries: [oldest],
            summary: "The oldest unread entry of {{ $labels.stream }} has been waiting for more than \(words).",
            description: "More comes in than goes out, or something holds the dispatchers back.",
        )
    }
}
