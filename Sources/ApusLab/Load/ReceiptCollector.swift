package import ApusCore
internal import ApusInstallation
internal import ApusMessages
package import ApusPublisher
internal import ApusRedis

/// Records the arrival of final receipts of many sends, in a reply stream of its own.
package struct ReceiptCollector: Sendable {
    private static let entriesPerRead = 1_000
    private static let blockMilliseconds: Int64 = 200

    /// The stream for `SendCommand.replyTo`.
    package let stream: String
    private let publisher: Publisher
    private let clock: any WallClock

    /// Creates a collector.
    ///
    /// - Parameter name: the name of this run, which must be unique.
    package init(_ publisher: Publisher, name: String, clock: any WallClock) {
        self.publisher = publisher
        self.stream = "apus:receipts:\(name)"
        self.clock = clock
    }

    /// Returns the time at which each send's final receipt was read, in nanoseconds since 1970.
    ///
    /// - Parameters:
    ///   - count: the number of receipts after which it ends.
    ///   - isOver: called now and then; returns true to end.
    package func collect(_ count: Int, isOver: @Sendable () -> Bool) async throws -> [String: Int64] {
        let tag = HashTag(ofKey: self.stream)
        let connection = self.publisher.installation.client.blockingConnection(for: tag)
        do {
            let arrivals = try await self.read(count, connection, isOver)
            await self.end(connection, tag)
            return arrivals
        } catch {
            await self.end(connection, tag)
            throw error
        }
    }

    /// Closes the connection and removes the stream. What is not removed, or comes later, is gone after three days without a receipt.
    private func end(_ connection: RedisBlockingConnection, _ tag: HashTag) async {
        await connection.close()
        _ = try? await self.publisher.installation.client.send(RedisCommand("DEL", .text(self.stream)), on: tag)
    }

    private func read(
        _ count: Int,
        _ connection: RedisBlockingConnection,
        _ isOver: @Sendable () -> Bool,
    ) async throws -> [String: Int64] {
        var arrivals: [String: Int64] = [:]
        var last = "0"
        while arrivals.count < count {
            try Task.checkCancellation()
            let command = RedisCommand(
                "XREAD",
                "COUNT",
                .integer(Self.entriesPerRead),
                "BLOCK",
                .integer(Self.blockMilliseconds),
                "STREAMS",
                .text(self.stream),
                .text(last),
            )
            let reply = try await connection.send(command, blocking: .milliseconds(Self.blockMilliseconds))
            let now = self.clock.nanosecondsSince1970()
            guard let entries = reply.root.element(0)?.element(1), entries.count > 0 else {
                if isOver() { break }
                continue
            }
            for entry in entries.children {
                last = entry.element(0)?.string ?? last
                guard let bytes = entry.element(1)?.element(1)?.bytes, let receipt = try? SendReceipt.decode(bytes),
                    [.final, .refused, .dryRun].contains(receipt.kind), arrivals[receipt.send] == nil
                else { continue }
                arrivals[receipt.send] = now
            }
        }
        return arrivals
    }
}
