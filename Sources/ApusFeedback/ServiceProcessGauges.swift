internal import ApusCore
internal import ApusMetrics
internal import ApusService
internal import ApusStreams

/// Counts the processes of the services at every scrape, so that Prometheus learns of those that are missing, and the routes whose
/// provider fails or cannot be connected to, as dispatchers report them.
///
/// While Redis does not answer the gauges are absent: an old number would be wrong.
struct ServiceProcessGauges: Sendable {
    /// The longest time that a scrape waits.
    private static let durationMax = Duration.seconds(2)

    let processes: ServiceProcesses
    let metrics: FeedbackMetrics
    let shared: SharedMetrics

    func collect() async {
        let all = await firstWithin(Self.durationMax) { try? await self.processes.all() } ?? nil
        for service in ServiceName.allCases {
            let availability = all.map { ServiceAvailability(of: service.rawValue, among: $0) }
            self.set(self.metrics.processes[service, .running], to: availability?.running.count)
            self.set(self.metrics.processes[service, .missing], to: availability?.missing.count)
        }
        let silence = StreamLimits.serviceSilenceMilliseconds
        let failing = all.map { all in
            Set(
                all.filter { $0.seenMillisecondsAgo <= silence }.flatMap(\.failingRoutes)
                    .map { self.metrics.routes.slot(for: $0.route) }
            )
        }
        for slot in self.metrics.routes.slots {
            self.set(self.metrics.failingRoutes[slot], to: failing.map { $0.contains(slot) ? 1 : 0 })
        }
    }

    private func set(_ gauge: Gauge, to count: Int?) {
        guard let count else { return self.shared.setAbsent(gauge) }
        self.shared.set(gauge, to: Int64(count))
    }
}
