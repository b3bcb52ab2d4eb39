package import ApusCore
package import ApusMessages
package import ApusPublisher

/// Publishes sends at a constant rate, in an open loop.
package struct OpenLoopPublisher: Sendable {
    /// The result of one publication.
    package struct Publication: Hashable, Sendable {
        /// The send's id.
        package var send: String
        /// The position in the plan.
        package var index: Int
        /// The scheduled time in nanoseconds since 1970.
        package var dueNanoseconds: Int64
        /// The time at which the publisher began to write the send; equal to `due` when it failed.
        package var publishedNanoseconds: Int64
        /// The time at which the send was written into the mailbox, as far as the publisher knows.
        package var acknowledgedNanoseconds: Int64
        /// The reason of a failure; nil for success.
        package var problem: String?

        /// Creates a publication.
        package init(
            send: String,
            index: Int,
            dueNanoseconds: Int64,
            publishedNanoseconds: Int64,
            acknowledgedNanoseconds: Int64,
            problem: String? = nil,
        ) {
            self.send = send
            self.index = index
            self.dueNanoseconds = dueNanoseconds
            self.publishedNanoseconds = publishedNanoseconds
            self.acknowledgedNanoseconds = acknowledgedNanoseconds
            self.problem = problem
        }
    }

    private let plan: LoadPlan
    private let publisher: Publisher
    private let lane: Lane
    private let clock: any WallClock
    private let command: @Sendable (Int) -> SendCommand

    /// Creates a publisher.
    ///
    /// - Parameter command: returns the send of each position; its id identifies it.
    package init(
        _ plan: LoadPlan,
        publisher: Publisher,
        lane: Lane,
        clock: any WallClock,
        command: @escaping @Sendable (Int) -> SendCommand,
    ) {
        self.plan = plan
        self.publisher = publisher
        self.lane = lane
        self.clock = clock
        self.command = command
    }

    /// Publishes all sends of the plan, and waits until each was acknowledged.
    ///
    /// - Parameters:
    ///   - start: the scheduled time of the first send, in nanoseconds since 1970; nil for now.
    ///   - progress: called now and then with the number of started sends.
    /// - Returns: the results in the order of the plan.
    package func run(from start: Int64? = nil, progress: (Int) -> Void = { _ in }) async throws -> [Publication] {
        let publications = try await OpenLoop(self.plan, clock: self.clock)
            .run(from: start, progress: progress) { index, due in await self.publish(index, due: due) }
        return publications.sorted { $0.index < $1.index }
    }

    private func publish(_ index: Int, due: Int64) async -> Publication {
        let command = self.command(index)
        var problem: String?
        var published = due
        do throws(PublisherError) {
            published = try await self.publisher.publish(command, lane: self.lane).publishedAtNanoseconds
        } catch {
            problem = error.description
        }
        return Publication(
            send: command.id,
            index: index,
            dueNanoseconds: due,
            publishedNanoseconds: published,
            acknowledgedNanoseconds: self.clock.nanosecondsSince1970(),
            problem: problem,
        )
    }
}
