internal import ApusDispatcher
internal import ApusFeedback
internal import ApusMetrics
internal import ApusRegistration

/// A service level objective: the share of events that may fail within 30 days.
struct Objective {
    /// A pair of windows of a burn-rate alert. The long window shows that the failures are significant, the short one
    /// that they have not stopped.
    ///
    /// Source: The Site Reliability Workbook, chapter 5, "Multiwindow, Multi-Burn-Rate Alerts".
    struct Burn {
        /// The factor by which the budget is used up faster than allowed.
        let factor: Double
        let long: String
        let short: String
        let lasts: String
        let severity: Severity
        /// The time after which the whole budget would be used up.
        let goneIn: String
    }

    static let burns = [
        Burn(factor: 14.4, long: "1h", short: "5m", lasts: "2m", severity: .critical, goneIn: "two days"),
        Burn(factor: 6, long: "6h", short: "30m", lasts: "15m", severity: .critical, goneIn: "five days"),
        Burn(factor: 3, long: "1d", short: "2h", lasts: "1h", severity: .warning, goneIn: "ten days"),
        Burn(factor: 1, long: "3d", short: "6h", lasts: "3h", severity: .warning, goneIn: "thirty days"),
    ]

    /// The windows for which error ratios are recorded.
    static let windows = ["5m", "30m", "1h", "2h", "6h", "1d", "3d"]

    /// The minimum number of events in the long window for an alert. With fewer events a single failure would be
    /// enough.
    static let eventsMin = 100

    /// The name of the alert, for example `ApusDeliveryErrorBudgetBurn`.
    let alert: String
    /// The name of the recorded ratio without its window, for example `job_provider:apus_delivery_errors:ratio_rate`.
    let record: String
    /// The share of events that may fail.
    let budget: Double
    /// The objective as text, for example `99.9 %`.
    let target: String
    /// A description of the failures, used in alert texts.
    let subject: String
    /// The queries for the number of failed events and of all events in a window.
    let bad: @Sendable (String) -> String
    let all: @Sendable (String) -> String

    /// The name of the recorded ratio for a window.
    func ratio(_ window: String) -> String { self.record + window }

    // MARK: Objectives

    private typealias Q = Queries

    static let all: [Objective] = [.delivery, .latency, .registration]

    /// 99.9 % of recipients do not fail because of the gateway. Feedback counts every recipient of every send, also one that no route
    /// leads to, which no dispatcher has in hand.
    static let delivery = Objective(
        alert: "ApusDeliveryErrorBudgetBurn",
        record: "job_provider:apus_delivery_errors:ratio_rate",
        budget: 0.001,
        target: "99.9 %",
        subject: "recipients that end as failed or expired",
        bad: { "sum without (instance, outcome) (rate(\(Q.feedback[\.outcomes].series([Q.failures]))[\($0)]))" },
        all: { "sum without (instance, outcome) (rate(\(Q.feedback[\.outcomes].series())[\($0)]))" },
    )

    /// 99 % of accepted notifications of the express lane are accepted within a second of their publication. A broadcast takes as long as
    /// it takes: what waits too long in the bulk lane is an alert of its own (`ApusBacklogOld`).
    static let latency = Objective(
        alert: "ApusDeliveryLatencyBudgetBurn",
        record: "job:apus_delivery_slow:ratio_rate",
        budget: 0.01,
        target: "99 %",
        subject:
            "accepted notifications of the express lane that took more than a second from publication to acceptance",
        bad: { window in
            let latency = Q.dispatcher[\.deliveryLatency]
            let all = latency.series([.is("lane", "express")], suffix: "_count")
            let quick = latency.series([.is("lane", "express"), .is("le", "1.0")], suffix: "_bucket")
            return "(sum without (instance, provider, lane) (rate(\(all)[\(window)]))"
                + " - sum without (instance, provider, lane, le) (rate(\(quick)[\(window)])))"
        },
        all: { window in
            let all = Q.dispatcher[\.deliveryLatency].series([.is("lane", "express")], suffix: "_count")
            return "sum without (instance, provider, lane) (rate(\(all)[\(window)]))"
        },
    )

    /// 99.9 % of requests to the registration service are not answered with 500 or 503.
    static let registration = Objective(
        alert: "ApusRegistrationErrorBudgetBurn",
        record: "job:apus_registration_errors:ratio_rate",
        budget: 0.001,
        target: "99.9 %",
        subject: "requests to registration that are answered with 500 or 503",
        bad: { window in
            let failures = Q.registration[\.requests].series([.isOne("code", of: ["500", "503"])])
            return "sum without (instance, route, method, code) (rate(\(failures)[\(window)]))"
        },
        all: { "sum without (instance, route, method, code) (rate(\(Q.registration[\.requests].series())[\($0)]))" },
    )

    /// The remaining share of the budget of 30 days, for the overview.
    var budgetLeft: String {
        let deliveries = Q.feedback[\.outcomes]
        let bad = "sum(increase(\(deliveries.shown([Q.failures]))[30d]))"
        let all = "sum(increase(\(deliveries.shown())[30d]))"
        return "1 - \(bad) / \(all) / \(self.budget)"
    }
}
