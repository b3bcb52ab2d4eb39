package import ApusCore
internal import ApusTerminal

/// Runs a scenario in a cluster of its own.
package enum ScenarioRunner {
    /// Runs the scenario once, at the given rate.
    ///
    /// - Parameter say: receives progress messages.
    package static func measure(
        _ order: ScenarioOptions,
        say: @escaping @Sendable (String) -> Void = { _ in },
    ) async throws -> LoadResult {
        try await LoadEnvironment.with(order, say: say) { try await $0.perform(order, number: 0) }
    }

    /// Repeats the scenario at other rates, beginning with the given one, until the highest sustained rate is found.
    ///
    /// - Parameter latencyMillisecondsMax: the maximum 99th percentile of a sustained rate.
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
                // Work that this rate left would be counted against the next one.
                guard try await environment.waitUntilDone(within: order.patienceSeconds) else {
                    throw LocalClusterError("what \(rate) per second left behind is not done: raise --patience")
                }
            }
            return report
        }
    }
}

/// The results of a search for the highest sustained rate.
package struct StepReport: Sendable {
    /// The result of one rate.
    package struct Step: Hashable, Sendable {
        /// The rate, per second.
        package var ratePerSecond: Double
        /// The 99th percentile; nil when nothing was accepted.
        var latencyMilliseconds: Double?
        /// The reasons why it was not sustained: names of problems, `latency` or `not_exact`; empty when it was.
        package var reasons: [String]

        /// The step in one line.
        package var line: String {
            let rate = NumberText.json(self.ratePerSecond, 1).text
            let latency = self.latencyMilliseconds.map { NumberText.json($0, 2).text } ?? "-"
            return "\(rate) per second: p99 \(latency) ms, "
                + (self.reasons.isEmpty ? "held" : "not held: \(self.reasons.joined(separator: ", "))")
        }
    }

    /// The rates, in the order of the attempts.
    package private(set) var steps: [Step] = []
    /// The result at the highest sustained rate; nil when there is none.
    package private(set) var best: LoadResult?
    /// The state of the search.
    package private(set) var search: StepSearch
    private let latencyMillisecondsMax: Double

    /// Creates an empty report.
    package init(_ order: ScenarioOptions, latencyMillisecondsMax: Double) {
        self.search = StepSearch(first: order.ratePerSecond)
        self.latencyMillisecondsMax = latencyMillisecondsMax
    }

    /// Records the result of the search's next rate.
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

    /// The reasons why the lowest unsustained rate failed; empty when there is no such rate.
    package var bounds: [String] {
        self.steps.filter { !$0.reasons.isEmpty }.min { $0.ratePerSecond < $1.ratePerSecond }?.reasons ?? []
    }

    /// The sentences about problems; empty when there are none.
    package var problems: [String] {
        self.best == nil ? ["no rate was held; the last: \(self.steps.last?.line ?? "none")"] : []
    }

    /// Returns the report as JSON: the result at the knee, and the steps.
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

    /// The report as lines.
    package var lines: [String] {
        let knee = self.search.knee.map { NumberText.json($0, 1).text } ?? "none"
        return self.steps.map(\.line) + (self.best?.lines ?? [])
            + ["knee: \(knee) per second; above it: \(self.bounds.joined(separator: ", "))"]
    }
}
