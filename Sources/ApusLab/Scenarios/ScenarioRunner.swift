internal import ApusConsole
package import ApusCore

/// Runs a scenario in a cluster of its own.
package enum ScenarioRunner {
    /// Once, at the order's rate.
    ///
    /// - Parameter say: told what happens.
    package static func measure(
        _ order: ScenarioOptions,
        say: @escaping @Sendable (String) -> Void = { _ in },
    ) async throws -> LoadResult {
        try await LoadEnvironment.with(order, say: say) { try await $0.perform(order, number: 0) }
    }

    /// Again and again at other rates, from the order's on, until the highest is found that is held.
    ///
    /// - Parameter latencyMillisecondsMax: the 99th percentile up to which a rate counts as held.
    package static func search(
        _ order: ScenarioOptions,
        latencyMillisecondsMax: Double,
        say: @escaping @Sendable (String) -> Void = { _ in },
    ) async throws -> StepReport {
        try await LoadEnvironment.with(order, say: say) { environment in
            var report = StepReport(order, latencyMillisecondsMax: latencyMillisecondsMax)
            while let rate = report.search.next {
                var order = order
                order.ratePerSecond = rate
                let result = try await environment.perform(order, number: report.steps.count)
                report.note(result)
                say(report.steps.last?.line ?? "")
                // What this rate left behind would be counted against the next.
                guard try await environment.waitUntilDone(within: order.patienceSeconds) else {
                    throw LocalClusterError("what \(rate) per second left behind is not done: raise --patience")
                }
            }
            return report
        }
    }
}

/// The results of a search for the highest rate that is held.
package struct StepReport: Sendable {
    /// One rate.
    package struct Step: Hashable, Sendable {
        /// The rate, per second.
        package var ratePerSecond: Double
        /// The 99th percentile; nil when nothing was accepted.
        package var latencyMilliseconds: Double?
        /// Reasons why it was not held: names of problems, `latency` or `not_exact`; empty: it was.
        package var reasons: [String]

        /// In one line.
        package var line: String {
            let rate = NumberText.json(self.ratePerSecond, 1).text
            let latency = self.latencyMilliseconds.map { NumberText.json($0, 2).text } ?? "-"
            return "\(rate) per second: p99 \(latency) ms, "
                + (self.reasons.isEmpty ? "held" : "not held: \(self.reasons.joined(separator: ", "))")
        }
    }

    /// The rates, in the order of their trying.
    package private(set) var steps: [Step] = []
    /// The result at the highest rate that was held; nil when no rate was.
    package private(set) var best: LoadResult?
    /// Where it goes from here.
    package private(set) var search: StepSearch
    private let latencyMillisecondsMax: Double

    /// Nothing tried yet.
    package init(_ order: ScenarioOptions, latencyMillisecondsMax: Double) {
        self.search = StepSearch(first: order.ratePerSecond)
        self.latencyMillisecondsMax = latencyMillisecondsMax
    }

    /// Takes note of how the next rate of the search went.
    package mutating func note(_ result: LoadResult) {
        let latency = result.latency.milliseconds(percentile: 99)
        var reasons = result.validation.problems.map(\.name)
        if latency ?? .infinity > self.latencyMillisecondsMax { reasons.append("latency") }
        if result.lost > 0 || result.repeated > 0 || result.strangers > 0 || !result.complaints.isEmpty {
            reasons.append("not_exact")
        }
        self.steps.append(
            Step(ratePerSecond: result.order.ratePerSecond, latencyMilliseconds: latency, reasons: reasons)
        )
        if reasons.isEmpty, result.order.ratePerSecond > self.best?.order.ratePerSecond ?? 0 { self.best = result }
        self.search.note(held: reasons.isEmpty)
    }

    /// The reasons why the lowest rate that was not held was not; empty: there is no such rate.
    package var bounds: [String] {
        self.steps.filter { !$0.reasons.isEmpty }.min { $0.ratePerSecond < $1.ratePerSecond }?.reasons ?? []
    }

    /// Sentences about what is wrong; empty: nothing is.
    package var problems: [String] {
        self.best == nil ? ["no rate was held; the last: \(self.steps.last?.line ?? "none")"] : []
    }

    /// As JSON: what was found at the knee, and the steps.
    package func json(revision: String) -> JSONObject {
        var object = self.best?.json(revision: revision) ?? JSONObject()
        object["knee_rate_per_second"] = self.search.knee.map { NumberText.json($0, 1) } ?? .null
        object["knee_bounds"] = .array(self.bounds.map { .string($0) })
        object["steps"] = .array(
            self.steps.map { step in
                [
                    "rate_per_second": NumberText.json(step.ratePerSecond, 1),
                    "p99_ms": step.latencyMilliseconds.map { NumberText.json($0, 2) } ?? .null,
                    "held": .bool(step.reasons.isEmpty), "reasons": .array(step.reasons.map { .string($0) }),
                ]
            }
        )
        return object
    }

    /// For the screen.
    package var lines: [String] {
        let knee = self.search.knee.map { NumberText.json($0, 1).text } ?? "none"
        return self.steps.map(\.line) + (self.best?.lines ?? [])
            + ["knee: \(knee) per second; above it: \(self.bounds.joined(separator: ", "))"]
    }
}
