internal import ApusCore
package import ApusMessages
package import ApusRedis
internal import ApusTLS

/// What apps reported of notifications, counted once each beside the send's ledger. Direct sends have no ledger, but this.
extension SendStreams {
    /// What became of an event.
    package enum EventResult: String, Hashable, Sendable {
        /// It counts.
        case counted
        /// The device reported that id before.
        case known
        /// So many ids of the send were remembered that this one could not be: not counted.
        case full
        /// Another owns the entry.
        case lost
    }

    /// Counts an event, once for each device and id, and acknowledges its entry: both or neither.
    package func count(
        _ event: ClientEvent,
        entry: StreamEntry,
        by consumer: StreamConsumer,
        tag: HashTag,
    ) async throws -> EventResult {
        let digest = SHA256.hash(Array(event.device.utf8), [0], Array(event.id.utf8))
        let number = digest.prefix(8).reduce(0) { $0 << 8 | UInt64($1) } >> 1
        let bucket = digest.dropFirst(8).prefix(2).reduce(0) { $0 << 8 | Int($1) } % StreamLimits.eventIDBuckets
        let reply = try await self.client.call(
            "apus1_tally",
            on: tag,
            keys: [entry.stream, StreamKeys(tag: tag).tally(app: event.app, event.send)],
            arguments: [
                .text(consumer.group), .text(consumer.name), .text(entry.id), .text(EventTally.field(event)),
                .text(String(number)), .integer(bucket), .integer(StreamLimits.eventIDsPerBucketMax),
                .integer(Int(StreamLimits.eventMemory / .milliseconds(1))),
            ],
        )
        guard let result = EventResult(rawValue: reply.root[0].text) else {
            throw StreamError.unexpected(function: "apus1_tally", answer: reply.root[0].text)
        }
        if result != .lost { self.observer?.entriesAcknowledged(1, stream: entry.stream) }
        return result
    }

    /// What was reported of a send so far.
    package func tally(app: String, send: String) async throws -> EventTally {
        let keys = self.home(app: app, send)
        let command = RedisCommand("HGETALL", .text(keys.tally(app: app, send)))
        let reply = try await self.client.send(command, on: keys.tag, options: .idempotent)
        return EventTally(fields: Self.pairs(reply.root))
    }
}
