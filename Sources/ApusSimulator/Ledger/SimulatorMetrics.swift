internal import ApusCore
internal import ApusMetrics

/// The ledger's counters as Prometheus reads them. Made anew for each scrape: the ledger counts by itself, and nothing else should.
enum SimulatorMetrics {
    /// Statuses, and names of faults, that have a series of their own; others count as `other`.
    static let labelValuesMax = 128

    /// What a scrape gets.
    static let format = ExpositionFormat.prometheusText

    private enum Route: Int, ClosedMetricLabel {
        case apns
        case fcm
        case oauth

        static let labelNames = ["route"]

        init(_ route: FaultRoute) {
            self =
                switch route {
                case .apns: .apns
                case .fcm: .fcm
                case .oauth: .oauth
                }
        }
    }

    /// The counters in ``format``.
    static func exposition(_ summary: LedgerSummary) async -> [UInt8] {
        var catalogue = MetricCatalogue()
        let codes = ConfiguredLabel("code", valuesMax: Self.labelValuesMax)
        let requests: CounterBy2<Route, LabelSlot> = catalogue.counter(
            "apus_simulator_requests_total",
            "Requests by the status of their answer; refused: they were not looked at.",
            by: .all,
            .configured(codes),
        )
        let names = ConfiguredLabel("fault", valuesMax: Self.labelValuesMax)
        let faults: CounterBy<LabelSlot> = catalogue.counter(
            "apus_simulator_faults_total",
            "Requests that were struck by a fault of the script.",
            by: .configured(names),
        )
        let connections = catalogue.counter("apus_simulator_connections_total", "Connections that were opened.")
        let goAways = catalogue.counter("apus_simulator_goaway_total", "Connections that were ended with GOAWAY.")
        let entries = catalogue.gauge("apus_simulator_ledger_entries", "Requests that the ledger holds.")

        let registry = MetricRegistry(catalogue)
        let cells = registry.shared
        for (route, statuses) in summary.statuses {
            for (status, count) in statuses {
                let slot = codes.slot(for: status == 0 ? "refused" : String(status))
                cells.add(Int64(clamping: count), to: requests[Route(route), slot])
            }
        }
        for (name, count) in summary.faults { cells.add(Int64(clamping: count), to: faults[names.slot(for: name)]) }
        cells.add(Int64(clamping: summary.connections), to: connections)
        cells.add(Int64(clamping: summary.goAways), to: goAways)
        cells.set(entries, to: Int64(summary.entries))
        return await registry.exposition(Self.format)
    }
}
