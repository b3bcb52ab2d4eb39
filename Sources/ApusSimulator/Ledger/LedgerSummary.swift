internal import ApusCore
internal import ApusMetrics

/// The counters of a ledger.
public struct LedgerSummary: Hashable, Sendable {
    /// The number of entries.
    public var entries = 0
    /// The numbers of requests by status; 0 stands for not processed.
    public var statuses: [FaultRoute: [Int: UInt64]] = [:]
    /// The numbers of requests with a fault, by its label, such as "reason:BadDeviceToken", "answer:502".
    public var faults: [String: UInt64] = [:]
    /// The number of opened connections.
    public var connections: UInt64 = 0
    /// The number of sent GOAWAYs.
    public var goAways: UInt64 = 0
    /// The seed of the faults in force; nil when unknown.
    public var seed: UInt64?

    /// Creates an empty summary.
    public init() {}

    /// Returns the number of requests on a route with a status.
    public func count(_ route: FaultRoute, status: Int) -> Int { Int(self.statuses[route]?[status] ?? 0) }

    /// Returns the number of requests on a route.
    public func count(_ route: FaultRoute) -> Int { Int(self.statuses[route]?.values.reduce(0, +) ?? 0) }

    /// The counters as a JSON object.
    package var json: [UInt8] {
        var object: JSONObject = ["entries": .integer(self.entries)]
        for route in FaultRoute.allCases {
            var counts = JSONObject()
            for (status, count) in (self.statuses[route] ?? [:]).sorted(by: { $0.key < $1.key }) {
                counts[status == 0 ? "refused" : String(status)] = .integer(count)
            }
            object[route.name] = .object(counts)
        }
        var faults = JSONObject()
        for (name, count) in self.faults.sorted(by: { $0.key < $1.key }) { faults[name] = .integer(count) }
        object["faults"] = .object(faults)
        object["connections"] = .integer(self.connections)
        object["go_aways"] = .integer(self.goAways)
        if let seed { object["seed"] = .integer(seed) }
        return JSONValue.object(object).bytes
    }
}

/// Exposes the ledger's counters to Prometheus. The metrics are created for each scrape, because the ledger already counts.
enum SimulatorMetrics {
    /// The maximum number of statuses, and of labels of faults, with a series of their own; others count as `other`.
    static let labelValuesMax = 128

    /// The format of a scrape.
    static let format = ExpositionFormat.prometheusText

    private struct Families: MetricSet {
        let codes = ConfiguredLabel("code", valuesMax: labelValuesMax)
        let routes = ConfiguredLabel("route", valuesMax: FaultRoute.allCases.count)
        let names = ConfiguredLabel("fault", valuesMax: labelValuesMax)
        let requests: CounterBy2<LabelSlot, LabelSlot>
        let faults: CounterBy<LabelSlot>
        let connections = Counter("apus_simulator_connections_total", "Connections that were opened.")
        let goAways = Counter("apus_simulator_goaway_total", "Connections that were ended with GOAWAY.")
        let entries = Gauge("apus_simulator_ledger_entries", "Requests that the ledger holds.")

        init() {
            self.requests = CounterBy2(
                "apus_simulator_requests_total",
                "Requests by the status of their answer; refused: they were not processed.",
                by: .configured(self.routes),
                .configured(self.codes),
            )
            self.faults = CounterBy(
                "apus_simulator_faults_total",
                "Requests that were struck by a fault of the script.",
                by: .configured(self.names),
            )
        }
    }

    /// Returns the counters in ``format``.
    static func exposition(_ summary: LedgerSummary) async -> [UInt8] {
        var catalogue = MetricCatalogue()
        let metrics = Families(&catalogue)
        let registry = MetricRegistry(catalogue)
        let cells = registry.shared
        for (route, statuses) in summary.statuses {
            for (status, count) in statuses {
                let slot = metrics.codes.slot(for: status == 0 ? "refused" : String(status))
                cells.add(Int64(clamping: count), to: metrics.requests[metrics.routes.slot(for: route.name), slot])
            }
        }
        for (name, count) in summary.faults {
            cells.add(Int64(clamping: count), to: metrics.faults[metrics.names.slot(for: name)])
        }
        cells.add(Int64(clamping: summary.connections), to: metrics.connections)
        cells.add(Int64(clamping: summary.goAways), to: metrics.goAways)
        cells.set(metrics.entries, to: Int64(summary.entries))
        return await registry.exposition(Self.format)
    }
}
