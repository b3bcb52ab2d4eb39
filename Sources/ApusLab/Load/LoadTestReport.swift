internal import ApusConsole
package import ApusCore

/// The result of a load test. Every latency counts from when the send was due.
package struct LoadTestReport: Sendable {
    /// The rate that must be reached, as a share of the planned one: below, the figures are of another load.
    package static let rateShareMin = LoadValidation.rateShareMin

    /// Sends per second that were planned.
    package let plannedRate: Double
    /// Sends per second that Redis acknowledged.
    package let achievedRate: Double
    /// Sends that were measured.
    package let sends: Int
    /// Of them, those that could not be published, and the first reason.
    package let failures: Int
    /// The first reason.
    package let firstFailure: String?
    /// Of them, those without a final receipt.
    package let withoutReceipt: Int
    /// Acceptances beyond the first one of each send; nil for not known.
    package let repeated: Int?
    /// Due to acknowledgement by Redis.
    package private(set) var published = LatencySummary()
    /// Due to acceptance by the provider; nil when nobody was asked.
    package private(set) var accepted: LatencySummary?
    /// Due to the final receipt.
    package private(set) var receipts = LatencySummary()

    /// Adds it up.
    ///
    /// - Parameters:
    ///   - receipts: when the final receipt of each send arrived.
    ///   - accepted: when each send was accepted; nil for not known.
    ///   - repeated: acceptances beyond those; nil for not known.
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
        // From the first that is due to the last acknowledgement, and the interval that the last one stands for.
        let first = measured.map(\.dueNanoseconds).min() ?? 0
        let last = successful.map(\.acknowledgedNanoseconds).max() ?? first
        let planned = Double(measured.count) / plan.ratePerSecond
        let seconds = max(planned, Double(last - first) / 1e9)
        self.achievedRate = Double(successful.count) / seconds
    }

    /// True when the rate was that of the plan; else latencies are not told.
    package var isReached: Bool { self.achievedRate >= self.plannedRate * Self.rateShareMin }

    /// Sentences about what is wrong with the run.
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

    /// From due to the end that is known: acceptance where a simulator was asked, else the final receipt.
    package var latency: LatencySummary { self.accepted ?? self.receipts }

    /// As JSON.
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

    /// For the screen.
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
