package import ApusCore
internal import ApusTerminal

/// The result of a load test. Every latency counts from the scheduled time of the send.
package struct LoadTestReport: Sendable {
    /// The minimum achieved share of the planned rate: below it, the figures are of another load.
    package static let rateShareMin = LoadValidation.rateShareMin

    /// The planned sends per second.
    let plannedRate: Double
    /// The sends per second that Redis acknowledged.
    let achievedRate: Double
    /// The number of measured sends.
    package let sends: Int
    /// The number of those that could not be published.
    package let failures: Int
    /// The reason of the first failure.
    let firstFailure: String?
    /// The number of those without a final receipt.
    let withoutReceipt: Int
    /// The number of acceptances beyond the first one of each send; nil when unknown.
    package let repeated: Int?
    /// The latencies from the scheduled time to the acknowledgement by Redis.
    package private(set) var published = LatencySummary()
    /// The latencies to the acceptance by the provider; nil when no simulator was queried.
    package private(set) var accepted: LatencySummary?
    /// The latencies to the final receipt.
    package private(set) var receipts = LatencySummary()

    /// Computes the report.
    ///
    /// - Parameters:
    ///   - receipts: the time at which each send's final receipt arrived.
    ///   - accepted: the time at which each send was accepted; nil when unknown.
    ///   - repeated: the number of further acceptances; nil when unknown.
    package init(
        _ plan: LoadPlan,
        _ publications: [OpenLoopPublisher.Publication],
        receipts: [String: Int64],
        accepted: [String: Int64]?,
        repeated: Int?,
    ) {
        let measured = publications.filter { plan.isMeasured($0.index) }
        let successful = measured.filter { $0.problem == nil }
        self.plannedRate = plan.ratePerSecond
        self.sends = measured.count
        self.repeated = repeated
        self.failures = measured.count - successful.count
        self.firstFailure = measured.compactMap(\.problem).first
        self.withoutReceipt = successful.count { receipts[$0.send] == nil }
        if accepted != nil { self.accepted = LatencySummary() }
        for publication in successful {
            self.published.record(nanoseconds: publication.acknowledgedNanoseconds - publication.dueNanoseconds)
            if let time = receipts[publication.send] {
                self.receipts.record(nanoseconds: time - publication.dueNanoseconds)
            }
            if let time = accepted?[publication.send] {
                self.accepted?.record(nanoseconds: time - publication.dueNanoseconds)
            }
        }
        // The span is from the first scheduled time to the last acknowledgement, plus the interval of the last send.
        let first = measured.map(\.dueNanoseconds).min() ?? 0
        let last = successful.map(\.acknowledgedNanoseconds).max() ?? first
        let planned = Double(measured.count) / plan.ratePerSecond
        let seconds = max(planned, Double(last - first) / 1e9)
        self.achievedRate = Double(successful.count) / seconds
    }

    /// True when the planned rate was achieved; otherwise latencies are not reported.
    package var isReached: Bool { self.achievedRate >= self.plannedRate * Self.rateShareMin }

    /// The sentences about problems of the run.
    package var complaints: [String] {
        var complaints: [String] = []
        if !self.isReached {
            complaints.append(
                "the rate was \(NumberText.rate(self.achievedRate))/s, not \(NumberText.rate(self.plannedRate))/s: the "
                    + "latencies would be of another load"
            )
        }
        if self.failures > 0 {
            let reason = self.firstFailure.map { " (\($0))" } ?? ""
            complaints.append("\(NumberText.grouped(self.failures)) sends could not be published\(reason)")
        }
        if self.withoutReceipt > 0 {
            complaints.append("\(NumberText.grouped(self.withoutReceipt)) sends got no final receipt")
        }
        if let accepted, accepted.count < self.sends - self.failures {
            complaints.append("\(NumberText.grouped(self.sends - self.failures - accepted.count)) sends were lost")
        }
        if let repeated, repeated > 0 { complaints.append("\(NumberText.grouped(repeated)) were accepted again") }
        return complaints
    }

    /// The latencies to the acceptance if a simulator was queried, otherwise to the final receipt.
    package var latency: LatencySummary { self.accepted ?? self.receipts }

    /// The report as JSON.
    package var json: JSONObject {
        let machine = Machine.current
        let isReached = self.isReached
        var object: JSONObject = [
            "planned_rate_per_second": NumberText.json(self.plannedRate, 1),
            "rate_per_second": NumberText.json(self.achievedRate, 1),
            "sends": .integer(self.sends), "failures": .integer(self.failures),
            "accepted": .integer(self.latency.count), "lost": .integer(self.sends - self.latency.count),
            "repeated": self.repeated.map { .integer($0) } ?? .null,
            "latency_ms": isReached ? .object(self.latency.json) : .null,
            "without_receipt": .integer(self.withoutReceipt),
            "publish_ms": isReached ? .object(self.published.json) : .null,
            "receipt_ms": isReached ? .object(self.receipts.json) : .null,
        ]
        object["machine"] = .object(machine.json)
        object["complaints"] = .array(self.complaints.map { .string($0) })
        return object
    }

    /// The report as lines.
    package var lines: [String] {
        var table = TextTable(["DUE UNTIL"] + LatencySummary.percentiles.map { ">" + $0.name } + [">SENDS"])
        func add(_ name: String, _ summary: LatencySummary) {
            let cells = LatencySummary.percentiles.map { percentile in
                summary.milliseconds(percentile: percentile.value).map { NumberText.decimal($0, 2) } ?? "-"
            }
            table.add([name] + cells + [NumberText.grouped(summary.count)])
        }
        if self.isReached {
            add("published", self.published)
            if let accepted { add("accepted", accepted) }
            add("receipt", self.receipts)
        }
        return table.lines + [
            "",
            "\(NumberText.rate(self.achievedRate))/s of \(NumberText.rate(self.plannedRate))/s planned; milliseconds; warm-up "
                + "not counted",
        ]
    }
}
