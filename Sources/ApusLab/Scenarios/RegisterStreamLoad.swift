internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusPublisher
internal import ApusRedis
internal import ApusStore
internal import ApusStreams

/// Registers devices as backends do: commands in the register stream, each answered by a receipt.
///
/// It begins with a constant rate and measures from the scheduled time to the readable receipt; then it writes as many
/// commands as possible, for the throughput.
struct RegisterStreamLoad: Sendable {
    /// The number of devices of the flood.
    static let floodDevices = 20_000
    /// The maximum number of concurrent writes of the flood.
    private static let writersMax = 64
    /// The longest time for all receipts to arrive.
    private static let patience = Duration.seconds(300)

    /// The result.
    struct Result: Sendable {
        /// The latencies from the scheduled time to the receipt.
        var latency = LatencySummary()
        /// The latencies from the scheduled time to the write.
        var lateness = LatencySummary()
        /// The devices per second, from the first write of the flood to its last receipt.
        var ratePerSecond = 0.0
        /// The number of devices that are not in the store, or of commands without a receipt.
        var lost = 0
    }

    let cluster: LocalCluster
    let publisher: Publisher

    /// Runs both parts, and compares with the store.
    ///
    /// - Parameter plan: the plan of the constant rate.
    func run(_ plan: LoadPlan) async throws -> Result {
        var result = Result()
        try await self.keepRate(plan, &result)
        try await self.flood(&result)
        let store = self.cluster.installation.store
        let check = try await StoreCheck.run(store, try AppID(LocalCluster.app), keepsDevices: true)
        guard check.problems.isEmpty else { throw LocalClusterError(check.problems.joined(separator: "; ")) }
        let ids = (0..<plan.count).map { "rate-\($0)" } + (0..<Self.floodDevices).map { "flood-\($0)" }
        result.lost += ids.count { check.devices[$0] == nil }
        return result
    }

    private func keepRate(_ plan: LoadPlan, _ result: inout Result) async throws {
        let clock = self.cluster.clock
        let collector = ReceiptCollector(self.publisher, name: "bench-rate", clock: clock)
        async let arrivals = self.arrivals(plan.count, collector)
        let written = try await OpenLoop(plan, clock: clock).run { index, due in
            let isWritten = await self.isWritten("rate-\(index)", index, replyTo: collector.stream)
            return (index: index, due: due, written: clock.nanosecondsSince1970(), isWritten: isWritten)
        }
        let arrived = try await arrivals
        result.lost += plan.count - arrived.count
        for one in written where plan.isMeasured(one.index) {
            result.lateness.record(nanoseconds: one.written - one.due)
            guard let at = arrived["rate-\(one.index)"] else { continue }
            result.latency.record(nanoseconds: at - one.due)
        }
    }

    private func flood(_ result: inout Result) async throws {
        let clock = self.cluster.clock
        let collector = ReceiptCollector(self.publisher, name: "bench-flood", clock: clock)
        async let arrivals = self.arrivals(Self.floodDevices, collector)
        let start = clock.nanosecondsSince1970()
        await withTaskGroup(of: Void.self) { group in
            for writer in 0..<Self.writersMax {
                group.addTask {
                    for index in stride(from: writer, to: Self.floodDevices, by: Self.writersMax) {
                        _ = await self.isWritten("flood-\(index)", 10_000_000 + index, replyTo: collector.stream)
                    }
                }
            }
        }
        let arrived = try await arrivals
        result.lost += Self.floodDevices - arrived.count
        let seconds = Double((arrived.values.max() ?? start) - start) / 1e9
        result.ratePerSecond = seconds > 0 ? Double(arrived.count) / seconds : 0
    }

    private func arrivals(_ count: Int, _ collector: ReceiptCollector) async throws -> [String: Int64] {
        let deadline = ContinuousClock.now + Self.patience
        return try await collector.collect(count) { ContinuousClock.now > deadline }
    }

    private func isWritten(_ id: String, _ index: Int, replyTo: String) async -> Bool {
        var generator = SeededGenerator(seed: UInt64(index))
        var registration = DeviceRegistration(device: id, provider: .apns, token: SampleToken.apple(&generator))
        registration.topics = [LoadEnvironment.topic]
        var command = RegistrationCommand(app: LocalCluster.app, action: .register(registration))
        command.id = id
        command.replyTo = replyTo
        let keys = self.cluster.installation.streams.home(app: LocalCluster.app, id)
        do {
            let bytes = try command.encode()
            let add = RedisCommand("XADD", .text(keys.register), "*", "m", .bytes(bytes))
            _ = try await self.cluster.client.send(add, on: keys.tag)
            return true
        } catch {
            // The command has no receipt and counts as lost.
            return false
        }
    }
}
