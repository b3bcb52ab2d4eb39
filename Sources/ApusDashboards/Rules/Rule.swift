internal import ApusDispatcher
internal import ApusMetrics

/// How soon somebody must look.
enum Severity: String {
    /// Wake somebody.
    case critical
    /// During the day.
    case warning
    /// Good to know beside another alert.
    case info
}

/// A query whose result is kept under a name: `level:metric:operations`.
///
/// Source: https://prometheus.io/docs/practices/rules/
struct RecordingRule {
    let name: String
    let expression: String
}

/// A condition that somebody is told about.
struct Alert {
    let name: String
    let severity: Severity
    /// How long it must last before anybody is told.
    let lasts: String
    let expression: String
    /// Parts of the expression that have an answer whenever Apus runs: an alert on what nobody exports never fires.
    let probes: [String]
    /// Labels beside the severity.
    var labels: [(name: String, value: String)] = []
    /// One line; `{{ $labels.x }}` stands for a label.
    let summary: String
    let description: String

    /// Its page, by its path beside the rules.
    var runbook: String { "runbooks/\(self.name).md" }
}

/// Rules that are evaluated one after the other.
struct RuleGroup {
    let name: String
    var recordings: [RecordingRule] = []
    var alerts: [Alert] = []

    /// What is recorded.
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

    /// What is told.
    static let alerted: [RuleGroup] = [
        RuleGroup(name: "apus-objectives", alerts: Objective.all.flatMap(\.alerts)),
        RuleGroup(name: "apus-streams", alerts: Alert.streams),
        RuleGroup(name: "apus-providers", alerts: Alert.providers),
        RuleGroup(name: "apus-processes", alerts: Alert.processes),
    ]

    /// All alerts.
    static let alerts = Self.alerted.flatMap(\.alerts)

    /// Dead tokens as a share of what ended: its mean over a day says what is usual.
    private static let unregistered = RuleGroup(
        name: "apus-unregistered",
        recordings: ["1h", "1d"].map { window in
            let deliveries = Words.dispatcher[\.deliveries]
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
    /// `apus-delivery-errors`.
    fileprivate var group: String {
        let metric = self.record.split(separator: ":")[1]
        return String(metric.map { $0 == "_" ? "-" : $0 })
    }

    /// One for each pair of windows.
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
                probes: [self.ratio(burn.long), self.ratio(burn.short), self.all(burn.long)],
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
    /// Without a fraction where there is none.
    fileprivate var digits: String { self == self.rounded() ? String(Int(self)) : self.description }
}

extension String {
    /// A duration of PromQL in seconds.
    fileprivate var seconds: Int {
        let unit = ["m": 60, "h": 3_600, "d": 86_400][String(self.suffix(1))] ?? 1
        return (Int(self.dropLast()) ?? 0) * unit
    }
}
