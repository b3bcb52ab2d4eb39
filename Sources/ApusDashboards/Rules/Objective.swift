internal import ApusDispatcher
internal import ApusMetrics
internal import ApusRegistration

/// What is promised to the users, as a share of events that may go wrong in 30 days.
struct Objective {
    /// One pair of windows of a burn-rate alert: the long one says that it matters, the short one that it still goes on.
    ///
    /// Source: The Site Reliability Workbook, chapter 5, "Multiwindow, Multi-Burn-Rate Alerts".
    struct Burn {
        /// How many times faster than it may the budget is used up.
        let factor: Double
        let long: String
        let short: String
        let lasts: String
        let severity: Severity
        /// The time at which all of it would be gone.
        let goneIn: String
    }

    static let burns = [
        Burn(factor: 14.4, long: "1h", short: "5m", lasts: "2m", severity: .critical, goneIn: "two days"),
        Burn(factor: 6, long: "6h", short: "30m", lasts: "15m", severity: .critical, goneIn: "five days"),
        Burn(factor: 3, long: "1d", short: "2h", lasts: "1h", severity: .warning, goneIn: "ten days"),
        Burn(factor: 1, long: "3d", short: "6h", lasts: "3h", severity: .warning, goneIn: "thirty days"),
    ]

    /// Windows that error ratios are recorded for.
    static let windows = ["5m", "30m", "1h", "2h", "6h", "1d", "3d"]

    /// Events in the long window below which nobody is woken: one failure among a hundred is no outage.
    static let eventsMin = 100

    /// The alert: `ApusDeliveryErrorBudgetBurn`.
    let alert: String
    /// The recorded ratio without its window: `job_provider:apus_delivery_errors:ratio_rate`.
    let record: String
    /// What may go wrong, as a share.
    let budget: Double
    /// `99.9 %`.
    let target: String
    /// What goes wrong, after "a share of".
    let subject: String
    /// Events that went wrong, and all events, over a window.
    let bad: @Sendable (String) -> String
    let all: @Sendable (String) -> String

    /// The recorded ratio over a window.
    func ratio(_ window: String) -> String { self.record + window }

    // MARK: Objectives

    private typealias W = Words

    static let all: [Objective] = [.delivery, .latency, .registration]

    /// 99.9 % of recipients do not end because of us.
    static let delivery = Objective(
        alert: "ApusDeliveryErrorBudgetBurn",
        record: "job_provider:apus_delivery_errors:ratio_rate",
        budget: 0.001,
        target: "99.9 %",
        subject: "recipients that end as failed or expired",
        bad: { "sum without (instance, outcome) (rate(\(W.dispatcher[\.deliveries].series([W.failures]))[\($0)]))" },
        all: { "sum without (instance, outcome) (rate(\(W.dispatcher[\.deliveries].series())[\($0)]))" },
    )

    /// 99 % of accepted notifications are accepted within a second of their publication.
    static let latency = Objective(
        alert: "ApusDeliveryLatencyBudgetBurn",
        record: "job:apus_delivery_slow:ratio_rate",
        budget: 0.01,
        target: "99 %",
        subject: "accepted notifications that took more than a second from publication to acceptance",
        bad: { window in
            let latency = W.dispatcher[\.deliveryLatency]
            let all = latency.series(suffix: "_count")
            let quick = latency.series([.is("le", "1.0")], suffix: "_bucket")
            return "(sum without (instance, provider) (rate(\(all)[\(window)]))"
                + " - sum without (instance, provider, le) (rate(\(quick)[\(window)])))"
        },
        all: {
            "sum without (instance, provider) (rate(\(W.dispatcher[\.deliveryLatency].series(suffix: "_count"))[\($0)]))"
        },
    )

    /// 99.9 % of requests to registration are not answered with 500 or 503.
    static let registration = Objective(
        alert: "ApusRegistrationErrorBudgetBurn",
        record: "job:apus_registration_errors:ratio_rate",
        budget: 0.001,
        target: "99.9 %",
        subject: "requests to registration that are answered with 500 or 503",
        bad: { window in
            let failures = W.registration[\.requests].series([.isOne("code", of: ["500", "503"])])
            return "sum without (instance, route, method, code) (rate(\(failures)[\(window)]))"
        },
        all: { "sum without (instance, route, method, code) (rate(\(W.registration[\.requests].series())[\($0)]))" },
    )

    /// What is left of the budget of 30 days, for the overview.
    var budgetLeft: String {
        let deliveries = W.dispatcher[\.deliveries]
        let bad = "sum(increase(\(deliveries.shown([W.failures]))[30d]))"
        let all = "sum(increase(\(deliveries.shown())[30d]))"
        return "1 - \(bad) / \(all) / \(self.budget)"
    }
}
