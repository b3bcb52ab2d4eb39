internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusSimulator
internal import ApusStreams
internal import ApusTestKit

/// Publishes single express sends at a constant rate, of which none needs a certain Redis master, and measures how long each takes.
///
/// A send needs the master of its home shard, of its device's partition, and of its route's rate limit.
struct SteadySends: Sendable {
    /// The time between two sends.
    private static let interval = Duration.milliseconds(10)

    private let cluster: LocalCluster
    /// The devices that are sent to, in turn.
    private let devices: [SampleDevice]
    private let avoided: Set<HashTag>

    /// Finds the devices that can be sent to without that master; nil: all of them.
    init(_ cluster: LocalCluster, _ devices: [SampleDevice], avoiding victim: RedisServer? = nil) async throws {
        let keyspace = cluster.installation.keyspace
        let tags =
            (0..<keyspace.queueShards).map { keyspace.tag(shard: $0) }
            + (0..<keyspace.devicePartitions).map { keyspace.tag(partition: $0) }
        let endpoint = victim.map { RedisCluster.endpoint($0) }
        let avoided = Set(
            tags.filter { endpoint != nil && cluster.client.topology.endpoint(forSlot: $0.slot) == endpoint }
        )
        let streams = cluster.installation.streams
        let limited = try await streams.routes.all().filter { avoided.contains(streams.keys(ofRoute: $0.number).tag) }
        let providers = Set(limited.compactMap { Route($0.name)?.provider })
        self.cluster = cluster
        self.avoided = avoided
        self.devices = devices.filter { device in
            let partition = keyspace.partition(app: LocalCluster.app, id: device.id)
            return !providers.contains(device.provider) && !avoided.contains(keyspace.tag(partition: partition))
        }
        guard !self.devices.isEmpty else { throw LocalClusterError("every device needs that master") }
    }

    /// Publishes sends until `body` has ended.
    ///
    /// - Parameter name: the beginning of their ids.
    /// - Returns: the time at which each was published, by its id, in nanoseconds since 1970.
    func publish(_ name: String, during body: () async throws -> Void) async throws -> [String: Int64] {
        let publishing = Task { try await self.publish(name) }
        do {
            try await body()
        } catch {
            publishing.cancel()
            throw error
        }
        publishing.cancel()
        return try await publishing.value
    }

    private func publish(_ name: String) async throws -> [String: Int64] {
        var published: [String: Int64] = [:]
        var number = 0
        while !Task.isCancelled {
            number += 1
            let (id, device) = ("\(name)-\(number)", self.devices[number % self.devices.count])
            guard !self.avoided.contains(self.cluster.installation.streams.home(app: LocalCluster.app, id).tag) else {
                continue
            }
            published[id] = self.cluster.clock.nanosecondsSince1970()
            // In a task of its own, the last one is published, too.
            try await Task { try await self.cluster.send(.devices([device.id]), id: id, lane: .express) }.value
            try? await Task.sleep(for: Self.interval)
        }
        return published
    }

    /// Adds to a report how long each queue shard was away at most: the longest time of a send whose home it is, in milliseconds.
    func reportShards(_ name: String, _ published: [String: Int64], in report: inout DrillReport) {
        let accepted = self.cluster.simulator.ledger.snapshot.firstAcceptances
        var longest: [String: Int] = [:]
        for (id, time) in published {
            guard let acceptedAt = accepted[id] else { continue }
            let shard = "\(self.cluster.installation.streams.home(app: LocalCluster.app, id).tag)"
            longest[shard] = max(longest[shard] ?? 0, Int((acceptedAt - time) / 1_000_000))
        }
        var gaps = JSONObject()
        for (shard, milliseconds) in longest.sorted(by: { $0.key < $1.key }) { gaps[shard] = .integer(milliseconds) }
        report.figures["\(name)_longest_ms_by_shard"] = .object(gaps)
    }

    /// Adds to a report how long sends took until they were accepted, and a complaint about those that were not.
    func report(_ name: String, _ published: [String: Int64], in report: inout DrillReport) {
        let accepted = self.cluster.simulator.ledger.snapshot.firstAcceptances
        var latencies = LatencySummary()
        var missing = 0
        for (id, time) in published {
            if let acceptedAt = accepted[id] { latencies.record(nanoseconds: acceptedAt - time) } else { missing += 1 }
        }
        report.require(missing == 0, "\(missing) of \(published.count) single sends were not accepted")
        report.figures["singles_\(name)"] = .integer(published.count)
        for (label, percentile) in [("p50", 50.0), ("p99", 99.0), ("max", 100.0)] {
            guard let milliseconds = latencies.milliseconds(percentile: percentile) else { continue }
            report.figures["singles_\(name)_\(label)_us"] = .integer(Int(milliseconds * 1_000))
        }
    }
}
