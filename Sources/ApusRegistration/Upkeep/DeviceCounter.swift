internal import ApusCore
internal import ApusMetrics
internal import ApusRedis
internal import ApusStore
internal import Logging

/// Counts devices for metrics. The store counts them as they come and go; the counters are added up here, place by place, without reading
/// any device.
struct DeviceCounter: Sendable {
    /// The maximum of counters that are read in a second: one app has one for each partition and realm.
    static let readsPerSecondMax = 2_048
    /// The minimum time between two counts.
    static let rest = Duration.seconds(60)

    let store: DeviceStore
    let apps: @Sendable () -> [AppID]
    let metrics: RegistrationMetrics
    let shared: SharedMetrics
    let logger: Logger

    /// Counts repeatedly until it is cancelled. While Redis does not answer, there is no number, because an old one would be wrong.
    func run() async {
        while !Task.isCancelled {
            do {
                let counts = try await self.count()
                for provider in Provider.allCases {
                    self.shared.set(self.metrics.devices[provider], to: counts[provider] ?? 0)
                }
            } catch {
                guard !Task.isCancelled else { return }
                for provider in Provider.allCases { self.shared.setAbsent(self.metrics.devices[provider]) }
                self.logger.warning("the devices cannot be counted", metadata: ["error": "\(error)"])
            }
            try? await Task.sleep(for: Self.rest)
        }
    }

    /// Counts the devices of all apps, by provider.
    func count() async throws -> [Provider: Int64] {
        var counts: [Provider: Int64] = [:]
        let partitions = self.store.keys.keyspace.devicePartitions
        for app in self.apps() {
            for realm in Realm.allCases {
                counts[realm.provider, default: 0] += Int64(try await self.store.deviceCount(realm.route(of: app)))
                try await Task.sleep(for: .seconds(partitions) / Self.readsPerSecondMax)
            }
        }
        return counts
    }
}
