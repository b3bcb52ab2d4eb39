internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusRedis
internal import ApusStore
internal import ApusStreams
internal import Logging

/// Checks the device store, slowly and all the time, and repairs what crashes left: tokens that were claimed and never confirmed, hints
/// that no record bears out, and missing hints and postings of a record. It also ends marks of
/// suspect tokens that no quarantine knows, as after a master has forgotten the last seconds, encrypts records with the current key, removes devices that nobody has registered for so long
/// that their provider has forgotten their tokens, and forgets topics that have no devices any more.
///
/// The janitors of all processes share the work: each partition belongs to one of them for an interval. If it dies in the middle, the rest
/// of that partition is left for the next interval.
struct Janitor: Sendable {
    let store: DeviceStore
    let streams: SendStreams
    let apps: @Sendable () -> [AppID]
    /// The maximum of records and hints that it reads in a second.
    let recordsPerSecond: Int
    /// The time between two checks of a partition.
    let interval: Duration
    /// The time after its last registration at which a device is removed, by provider; none for never.
    let staleAfterMilliseconds: [Provider: Int64]
    let metrics: RegistrationMetrics
    let shared: SharedMetrics
    let logger: Logger

    /// The number of postings whose search costs Redis as much as reading a record.
    private static let postingsPerRecord = 10
    /// The maximum pause when there is nothing to do; it is less when the interval is short.
    private static let restMax = Duration.seconds(60)

    /// Works until it is cancelled.
    func run() async {
        while !Task.isCancelled {
            for app in self.apps() {
                do {
                    try await self.lookOver(app)
                } catch {
                    guard !Task.isCancelled else { return }
                    self.logger.warning("the janitor stopped", metadata: ["app": "\(app)", "error": "\(error)"])
                }
            }
            try? await Task.sleep(for: min(Self.restMax, self.interval / 2))
        }
    }

    /// Checks each partition of an app that is due.
    ///
    /// - Returns: the number of these partitions.
    @discardableResult
    func lookOver(_ app: AppID) async throws(StoreError) -> Int {
        let seconds = Int(self.interval.components.seconds)
        let rate = self.recordsPerSecond
        let quarantines = QuarantineLook(self.streams, try? await self.streams.routes.all())
        var count = 0
        // Each process begins elsewhere, so that they do not follow each other.
        for partition in (0..<self.store.keys.keyspace.devicePartitions).shuffled() {
            guard !Task.isCancelled else { return count }
            guard try await self.store.beginUpkeep(app, partition, within: max(1, seconds)) else { continue }
            do throws(StoreError) {
                let report = try await self.store.upkeep(
                    app,
                    partition,
                    staleAfterMilliseconds: self.staleAfterMilliseconds,
                    isWatched: { await quarantines.watch($0) },
                    throttle: { try? await Task.sleep(for: .seconds($0) / rate) },
                )
                self.record(report, app, partition)
            } catch {
                // A record that cannot be read must not keep it from the other partitions.
                guard error.isOfOneDevice || error.code == .sealed else { throw error }
                self.logger.error(
                    "the janitor cannot finish a part of the store: \"apus store check\" says more",
                    metadata: ["app": "\(app)", "partition": "\(partition)", "error": "\(error)"]
                )
            }
            count += 1
        }
        guard try await self.store.beginTopicUpkeep(app, within: max(1, seconds)) else { return count }
        let forgotten = try await self.store.forgetEmptyTopics(app) { postings in
            try? await Task.sleep(for: .seconds(postings) / rate / Self.postingsPerRecord)
        }
        if forgotten > 0 {
            self.shared.add(Int64(forgotten), to: self.metrics.topicsForgotten)
            self.logger.info("topics without devices forgotten", metadata: ["app": "\(app)", "count": "\(forgotten)"])
        }
        return count
    }

    /// Tells which suspect devices wait in the quarantine of their route.
    private struct QuarantineLook: Sendable {
        private let quarantine: TokenQuarantine
        private let routes: [String: RouteNumber]

        /// - Parameter routes: all that have a number; nil when they are not known.
        init(_ streams: SendStreams, _ routes: [NumberedRoute]?) {
            self.quarantine = streams.quarantine
            self.routes = Dictionary((routes ?? []).map { ($0.name, $0.number) }) { first, _ in first }
        }

        /// Returns false when the quarantine of a device's route is known not to have its token.
        func watch(_ device: StoredDevice) async -> Bool {
            guard let suspicion = device.record.suspicion,
                let route = self.routes["\(device.realm.route(of: device.app))"]
            else { return true }
            let token = QuarantinedToken(
                reference: device.reference,
                tokenDigest: DeviceToken.digest(device.record.token),
                since: suspicion.since,
                reason: suspicion.reason,
            )
            return (try? await self.quarantine.has(token, of: route)) ?? true
        }
    }

    private func record(_ report: UpkeepReport, _ app: AppID, _ partition: Int) {
        self.shared.add(Int64(report.devices), to: self.metrics.upkeepDevices)
        for (repair, count) in [
            (UpkeepRepair.record, report.ordinals), (.hint, report.hints), (.token, report.tokens),
            (.user, report.users), (.suspicion, report.unwatched), (.encryption, report.encrypted),
        ] where count > 0 {
            self.shared.add(Int64(count), to: self.metrics.upkeepRepairs[repair])
        }
        let place: Logger.Metadata = ["app": "\(app)", "partition": "\(partition)"]
        if report.ordinals + report.hints > 0 {
            let count = report.ordinals + report.hints
            self.logger.warning(
                "hints or postings of devices were wrong and were repaired",
                metadata: place + ["count": "\(count)"]
            )
        }
        let expired = DeviceChange(change: .expired, source: .janitor)
        for (provider, count) in report.staleByProvider {
            self.shared.add(Int64(count), to: self.metrics.changes[provider, expired])
        }
        if report.staleLeft > 0 {
            self.logger.warning(
                "many devices have been silent for too long: is the clock right? The others are left for the next check",
                metadata: place + ["removed": "\(report.stale)", "left": "\(report.staleLeft)"]
            )
        }
        for text in report.left {
            self.logger.error("the store contradicts itself", metadata: place + ["what": "\(text)"])
        }
    }
}

extension Logger.Metadata {
    fileprivate static func + (one: Self, other: Self) -> Self { one.merging(other) { _, last in last } }
}
