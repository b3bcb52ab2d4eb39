package import ApusCore
internal import ApusTerminal

/// The result of a scenario.
package struct LoadResult: Sendable {
    /// The settings of the run.
    package var order: ScenarioOptions
    /// The number of planned notifications or registrations, including the warm-up and the topic sends of `mixed`.
    package var planned = 0
    /// The number of those that were accepted.
    package var accepted = 0
    /// The number of those that were not accepted.
    package var lost = 0
    /// The number of acceptances beyond the first of each.
    package var repeated = 0
    /// The number of acceptances outside of the audience.
    package var strangers = 0
    /// The sentences about counts that do not add up.
    package var complaints: [String] = []
    /// The accepted units per second; only measured ones count.
    package var ratePerSecond = 0.0
    /// The latencies from the scheduled time to the acceptance, of measured units.
    package var latency = LatencySummary()
    /// The same for the topic sends of `mixed`; nil when there are none.
    package var bulk: (ratePerSecond: Double, latency: LatencySummary)?
    /// The delays from the scheduled time to the start.
    package var lateness = LatencySummary()
    /// The number of acceptances that ``usage`` covers, including those of the bulk sends.
    package var measured = 0
    /// The processor time and memory of the processes during the measured part.
    package var usage = ResourceUsage([], from: 0, to: 0)
    /// The bytes of Redis's memory for each device that was registered before; nil when there were none.
    package var redisBytesPerDevice: Double?

    /// Creates an empty result.
    package init(_ order: ScenarioOptions) { self.order = order }

    /// True when the figures may be published.
    package var validation: LoadValidation {
        var rates = [(unit: self.order.scenario.unit, planned: self.order.ratePerSecond, achieved: self.ratePerSecond)]
        if let bulk = self.bulk {
            let planned = self.order.bulkRatePerSecond
            rates.append((unit: "bulk notifications", planned: planned, achieved: bulk.ratePerSecond))
        }
        return LoadValidation(
            rates: rates,
            sinkShare: self.usage.sinkShare,
            lateMilliseconds: self.lateness.milliseconds(percentile: 99) ?? 0,
        )
    }

    /// The sentences about all problems; empty when there are none.
    package var problems: [String] {
        var problems = self.complaints
        if self.lost > 0 { problems.append("\(self.lost) of \(self.planned) were lost") }
        if self.repeated > 0 { problems.append("\(self.repeated) were repeated") }
        if self.strangers > 0 { problems.append("\(self.strangers) were accepted outside of the audience") }
        return problems + self.validation.problems.map(\.description)
    }

    /// Returns a process's processor seconds for each million accepted, or for each million sends where one has several; nil when it was not measured, or nothing was accepted.
    package func secondsPerMillion(_ process: String) -> Double? {
        guard self.measured > 0, let seconds = self.usage.seconds[process] else { return nil }
        return seconds / Double(self.measured) * Double(self.order.scenario.devicesPerSend) * 1e6
    }

    /// Returns the result as JSON. Figures of another load than the planned one are null.
    package func json(revision: String) -> JSONObject {
        let problems = self.validation.problems
        let isValid = problems.isEmpty
        func rounded(_ value: Double?, _ decimals: Int) -> JSONValue {
            isValid ? value.map { NumberText.json($0, decimals) } ?? .null : .null
        }
        var cpu = JSONObject()
        for (name, seconds) in self.usage.seconds.sorted(by: { $0.key < $1.key }) {
            cpu[name] = NumberText.json(seconds, 2)
        }
        var object: JSONObject = [
            "scenario": .string(self.order.scenario.rawValue), "devices": .integer(self.order.devices),
            "planned_rate_per_second": NumberText.json(self.order.ratePerSecond, 1),
            "rate_per_second": NumberText.json(self.ratePerSecond, 1),
            "planned": .integer(self.planned), "accepted": .integer(self.accepted), "lost": .integer(self.lost),
            "repeated": .integer(self.repeated), "strangers": .integer(self.strangers),
            "latency_ms": isValid ? .object(self.latency.json) : .null,
        ]
        if let bulk = self.bulk {
            object["bulk"] = [
                "planned_rate_per_second": NumberText.json(self.order.bulkRatePerSecond, 1),
                "rate_per_second": NumberText.json(bulk.ratePerSecond, 1),
                "latency_ms": isValid ? .object(bulk.latency.json) : .null,
            ]
        }
        object["dispatcher_cpu_seconds_per_million"] = rounded(self.secondsPerMillion(LoadProcess.dispatcher), 3)
        object["redis_cpu_seconds_per_million"] = rounded(self.secondsPerMillion(LoadProcess.redis), 3)
        if self.order.scenario == .register {
            object["registration_cpu_seconds_per_million"] = rounded(
                self.secondsPerMillion(LoadProcess.registration),
                3
            )
        }
        object["dispatcher_rss_bytes_max"] = .integer(self.usage.residentBytesMax)
        object["redis_bytes_per_device"] = self.redisBytesPerDevice.map { NumberText.json($0, 1) } ?? .null
        object["cpu_seconds"] = .object(cpu)
        object["sink_busy_share"] = NumberText.json(self.usage.sinkShare, 3)
        object["late_ms"] = .object(self.lateness.json)
        object["refused"] = .array(problems.map { .string($0.name) })
        object["problems"] = .array(self.problems.map { .string($0) })
        object["machine"] = .object(Machine.current.json)
        object["revision"] = .string(revision)
        return object
    }

    /// The result as lines.
    package var lines: [String] {
        func text(_ value: Double?, _ decimals: Int = 2) -> String {
            value.map { NumberText.json($0, decimals).text } ?? "-"
        }
        var lines = [
            "\(self.order.scenario.rawValue): \(text(self.ratePerSecond, 1)) of \(text(self.order.ratePerSecond, 1)) "
                + "\(self.order.scenario.unit) per second",
            "accepted \(self.accepted) of \(self.planned), lost \(self.lost), repeated \(self.repeated)",
        ]
        let isValid = self.validation.problems.isEmpty
        func add(_ name: String, _ summary: LatencySummary) {
            let cells = LatencySummary.percentiles.map {
                "\($0.name) \(text(summary.milliseconds(percentile: $0.value)))"
            }
            lines.append("\(name), ms: \(cells.joined(separator: "  "))")
        }
        if isValid {
            add("latency from due to accepted", self.latency)
            if let bulk = self.bulk {
                lines.append("beside it \(text(bulk.ratePerSecond, 1)) bulk notifications per second")
                add("their latency", bulk.latency)
            }
            let costs = self.usage.seconds.keys.sorted().map { "\($0) \(text(self.secondsPerMillion($0)))" }
            lines.append("processor seconds per million: \(costs.joined(separator: ", "))")
        }
        let used = self.usage.seconds.sorted { $0.key < $1.key }.map { "\($0.key) \(text($0.value))" }
        lines.append(
            "processor seconds: \(used.joined(separator: ", ")); sink busy \(text(self.usage.sinkShare * 100, 1)) %"
        )
        if let bytes = self.redisBytesPerDevice { lines.append("redis bytes per device: \(text(bytes, 1))") }
        return lines + self.problems.map { "NOT GOOD: \($0)" }
    }
}

/// The names of a load's processes in its report.
package enum LoadProcess {
    /// `apus-dispatcher`.
    package static let dispatcher = "dispatcher"
    /// `apus-feedback`.
    package static let feedback = "feedback"
    /// `apus-registration`.
    package static let registration = "registration"
    /// `redis-server`.
    package static let redis = "redis"
    /// The simulator's event loops in this process.
    package static let sink = "sink"
    /// The rest of this process.
    package static let driver = "driver"
}
