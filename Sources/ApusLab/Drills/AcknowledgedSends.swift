internal import ApusCore
internal import ApusMessages
internal import ApusPublisher
internal import ApusSimulator

/// Publishes single express sends, by turns acknowledged by a replica and by a master's memory alone, and counts which of them are lost.
struct AcknowledgedSends: Sendable {
    /// The time between two sends.
    private static let interval = Duration.milliseconds(50)
    /// The time that one publication may take.
    private static let patience = Duration.seconds(2)

    /// The sends that were published.
    struct Published: Sendable {
        /// The ids of those that a replica had when the publisher was told so.
        var replica: [String] = []
        /// The ids of those that a master alone had acknowledged.
        var memory: [String] = []
        /// The number of those that were to be at a replica, and of which that was not confirmed.
        var unproven = 0
        /// The number of those that nobody acknowledged.
        var refused = 0
    }

    private let cluster: LocalCluster
    private let devices: [SampleDevice]
    private let publisher: Publisher

    /// Connects a publisher.
    init(_ cluster: LocalCluster, _ devices: [SampleDevice]) async throws {
        precondition(!devices.isEmpty)
        self.cluster = cluster
        self.devices = devices
        self.publisher = try await Publisher(redis: cluster.redisURL)
    }

    /// Closes the publisher's connections.
    func close() async { await self.publisher.close() }

    /// Publishes sends, two at a time, until `body` has ended.
    ///
    /// - Parameter name: the beginning of their ids.
    func publish(_ name: String, during body: () async throws -> Void) async throws -> Published {
        let publishing = Task {
            var published = Published()
            var number = 0
            while !Task.isCancelled {
                number += 1
                // In a task of its own, the last pair is published, too.
                let (from, before) = (number, published)
                published = await Task { await self.pair(name, from, before) }.value
                try? await Task.sleep(for: Self.interval)
            }
            return published
        }
        do {
            try await body()
        } catch {
            publishing.cancel()
            throw error
        }
        publishing.cancel()
        return await publishing.value
    }

    /// Publishes a number of sends of each level, all at once.
    func publish(_ name: String, count: Int) async -> Published {
        await withTaskGroup(of: Published.self) { group in
            for number in 1...count { group.addTask { await self.pair(name, number, Published()) } }
            return await group.reduce(into: Published()) { all, one in
                all.replica += one.replica
                all.memory += one.memory
                all.unproven += one.unproven
                all.refused += one.refused
            }
        }
    }

    private func pair(_ name: String, _ number: Int, _ before: Published) async -> Published {
        var published = before
        for (level, mark) in [(Acknowledgement.replica, "r"), (.memory, "m")] {
            let device = self.devices[number % self.devices.count]
            let command = self.cluster.command(.devices([device.id]), id: "\(name)-\(mark)-\(number)")
            do throws(PublisherError) {
                let publication = try await self.publisher.publish(
                    command,
                    lane: .express,
                    acknowledgement: level,
                    within: Self.patience,
                )
                if level == .memory {
                    published.memory.append(command.id)
                } else if publication.isAcknowledged {
                    published.replica.append(command.id)
                } else {
                    published.unproven += 1
                }
            } catch {
                published.refused += 1
            }
        }
        return published
    }

    /// Adds to a report how many of the acknowledged sends were lost, once nothing is left to do, and a complaint about those that a replica
    /// had.
    func report(_ published: Published, in report: inout DrillReport) {
        let accepted = self.cluster.simulator.ledger.snapshot.firstAcceptances
        let lost = published.replica.count { accepted[$0] == nil }
        report.require(lost == 0, "\(lost) of \(published.replica.count) sends that a replica had were lost")
        report.figures["acknowledged_replica"] = .integer(published.replica.count)
        report.figures["acknowledged_replica_lost"] = .integer(lost)
        report.figures["acknowledged_memory"] = .integer(published.memory.count)
        report.figures["acknowledged_memory_lost"] = .integer(published.memory.count { accepted[$0] == nil })
        report.figures["unproven"] = .integer(published.unproven)
        report.figures["refused"] = .integer(published.refused)
    }
}
