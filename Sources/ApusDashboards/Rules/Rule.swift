internal import ApusDispatcher
internal import ApusMetrics

/// The urgency of an alert.
enum Severity: String {
    /// Somebody must act at once.
    case critical
    /// Somebody must act during working hours.
    case warning
    /// Additional information for other alerts.
    case info
}

/// A recording rule: a query whose result is stored under a name of the form `level:metric:operations`.
///
/// Source: https://prometheus.io/docs/practices/rules/
struct RecordingRule {
    let name: String
    let expression: String
}

/// An alerting rule.
///
/// Series that its expression sums up keep the label `namespace`, so that of several installations under one Prometheus none hides another. Where
/// the series have no such label it changes nothing.
struct Alert {
    let name: String
    let severity: Severity
    /// The time for which the condition must hold before the alert fires.
    let lasts: String
    let expression: String
    /// Parts of the expression that have a result whenever Apus runs. A test uses them to find alerts on metrics that
    /// are not exported, which could never fire.
    let queries: [String]
    /// The labels in addition to the severity.
    var labels: [(name: String, value: String)] = []
    /// A summary of one line. `{{ $labels.x }}` is replaced with the value of a label.
    let summary: String
    let description: String
}

/// A group of rules, which are evaluated in order.
struct RuleGroup {
    let name: String
    var recordings: [RecordingRule] = []
    var alerts: [Alert] = []

    /// The recording rules.
    static let recorded: [RuleGroup] =
        Objective.all.map { objective in
            RuleGroup(
                name: objective.group,
                recordings: Objective.windows.map { window in
                    RecordingRule(
                        name: objective.ratio(window),
                        expression: "\(objective.bad(window))\n/\n\(objective.all(window))",
                    )
                },
            )
        } + [.unregistered]

    /// The alerting rules.
    static let alerted: [RuleGroup] = [
        RuleGroup(name: "apus-objectives", alerts: Objective.all.flatMap(\.alerts)),
        RuleGroup(name: "apus-streams", alerts: Alert.streams),
        RuleGroup(name: "apus-providers", alerts: Alert.providers),
        RuleGroup(name: "apus-processes", alerts: Alert.processes),
    ]

    /// All alerts.
    static let alerts = Self.alerted.flatMap(\.alerts)

    /// The share of dead tokens among all final outcomes. Its mean over a day is the usual value.
    private static let unregistered = RuleGroup(
        name: "apus-unregistered",
        recordings: ["1h", "1d"].map { window in
            let deliveries = Queries.dispatcher[\.deliveries]
            let dead = deliveries.series([.is("outcome", "unregistered")])
            return RecordingRule(
                name: Self.unregisteredRatio + window,
                expression: """
                    sum without (instance, outcome) (rate(\(dead)[\(window)]))
                    /
                    sum without (instance, outcome) (rate(\(deliveries.series())[\(window)]))
                    """,
            )
        },
    )

    static let unregisteredRatio = "job_provider:apus_delivery_unregistered:ratio_rate"
}

extension Objective {
    /// The name of the rule group, for example `apus-delivery-errors`.
    fileprivate var group: String {
        let metric = self.record.split(separator: ":")[1]
        return String(metric.map { $0 == "_" ? "-" : $0 })
    }

    /// The alerts, one for each pair of windows.
    fileprivate var alerts: [Alert] {
        Self.burns.map { burn in
            let threshold = "(\(burn.factor.digits) * \(self.budget.digits))"
            return Alert(
                name: self.alert,
                severity: burn.severity,
                lasts: burn.lasts,
                expression: """
                    \(self.ratio(burn.long)) > \(threshold)
                    and
                    \(self.ratio(burn.short)) > \(threshold)
                    and
                    \(self.all(burn.long)) * \(burn.long.seconds) > \(Self.eventsMin)
                    """,
                queries: [self.ratio(burn.long), self.ratio(burn.short), self.all(burn.long)],
                labels: [("long_window", burn.long), ("short_window", burn.short)],
                summary: "The error budget is being used up \(burn.factor.digits) times too fast.",
                description: "Over \(burn.long) and over \(burn.short), \(self.subject) are more than "
                    + "\(burn.factor.digits) times what the objective of \(self.target) allows. At this rate the budget "
                    + "of 30 days lasts \(burn.goneIn).",
            )
        }
    }
}

extension Double {
    /// Formats a number, without a fraction if it is an integer.
    fileprivate var digits: String { self == self.rounded() ? String(Int(self)) : self.description }
}

extension String {
    /// Converts a duration of PromQL to seconds.
    fileprivate var seconds: Int {
        let unit = ["m": 60, "h": 3_600, "d": 86_400][String(self.suffix(1))] ?? 1
        return (Int(self.dropLast()) ?? 0) * unit
    }
}
