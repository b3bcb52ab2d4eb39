package import ApusRedis

// Takeover: entries whose owner is silent, whose read was not answered, or that a failover forgot, become this consumer's.

extension Entries {
    /// Names a stream to take entries over from, and the room for them.
    package struct ClaimRequest: Sendable {
        /// The stream.
        package var stream: String
        /// The maximum number of entries.
        package var count: Int
        /// The cursor to continue from; "0-0" begins.
        package var cursor: String

        /// Creates a request for one stream.
        package init(_ stream: String, count: Int = StreamLimits.claimBatchMax, cursor: String = "0-0") {
            self.stream = stream
            self.count = count
            self.cursor = cursor
        }
    }

    /// Holds the entries that were taken over from one stream.
    package struct Claim: Sendable {
        /// The cursor for the next request; nil when there is no such stream or group.
        package var cursor: String?
        /// The entries that the consumer owns after the call.
        package var entries: [StreamEntry]
        /// The ids of entries that were pending but do not exist any more. Their work is lost; it happens only when somebody trims the
        /// stream.
        package var vanished: [String]
    }

    /// Takes over entries whose owner has been silent for a lease. Returns one answer for each stream, in their order.
    package func claim(
        _ requests: [ClaimRequest],
        by consumer: StreamConsumer,
        tag: HashTag,
        leaseMilliseconds: Int64,
    ) async throws -> [Claim] {
        precondition(!requests.isEmpty && requests.count <= StreamLimits.streamsPerReadMax)
        let call = ClaimEntriesCall(
            keys: requests.map(\.stream),
            consumer: consumer,
            leaseMilliseconds: leaseMilliseconds,
            counts: requests.map { min($0.count, StreamLimits.claimBatchMax) },
            cursors: requests.map(\.cursor),
        )
        let answer = try await self.access.call(call, on: tag, repeated: { _ in nil })
        let answers = Array(try answer.elements())
        // An incomplete entry would be handled like a complete one, so this answer is read strictly.
        guard answers.count == requests.count else { throw answer.reply.unexpected("an answer for each stream") }
        return try zip(requests, answers).map { request, answer in
            let cursor = try answer.at(0).text()
            return Claim(
                cursor: cursor.isEmpty ? nil : cursor,
                entries: try Self.entries(answer.at(1), of: request.stream),
                vanished: try answer.at(2).elements().map { try $0.text() },
            )
        }
    }

    /// Returns how many of some entries still exist.
    package func existing(_ entries: [Owned], tag: HashTag) async throws -> Int {
        var count = 0
        for entry in entries {
            let command = RedisCommand("XRANGE", .text(entry.stream), .text(entry.id), .text(entry.id))
            count += Array(try await self.access.send(command, on: tag).elements()).count
        }
        return count
    }

    /// Returns how many entries were removed from a stream before the group has read them, each once: they count as read from then on. 0 when
    /// that is not known.
    ///
    /// It holds for a stream of which only the oldest entries are removed. What an answer tells that is lost is told to nobody.
    package func removedUnread(from stream: String, of group: String) async throws -> Int {
        let call = CountRemovedCall(keys: [stream], group: group)
        return Int(try await self.access.call(call, on: HashTag(ofKey: stream)).number())
    }

    /// Reads entries again that are the consumer's and not in its hand, as after a read whose answer was lost.
    ///
    /// - Parameter inHand: the ids of those in its hand, by stream; the streams are those that are looked at.
    package func reread(
        besides inHand: [String: [String]],
        by consumer: StreamConsumer,
        tag: HashTag,
    ) async throws -> [StreamEntry] {
        precondition(!inHand.isEmpty && inHand.count <= StreamLimits.streamsPerReadMax)
        let streams = Array(inHand.keys)
        let call = RereadEntriesCall(
            keys: streams,
            consumer: consumer,
            idleMilliseconds: StreamLimits.rereadIdleMilliseconds,
            count: StreamLimits.claimBatchMax,
            inHand: streams.map { inHand[$0] ?? [] },
        )
        let answer = try await self.access.call(call, on: tag, repeated: { _ in nil })
        let answers = Array(try answer.elements())
        guard answers.count == streams.count else { throw answer.reply.unexpected("an answer for each stream") }
        return try zip(streams, answers).flatMap { try Self.entries($1, of: $0) }
    }

    /// Takes an entry that is the consumer's once more, as it is by now, with a new lease; nil when it is another's, or no more. No delivery is
    /// added; the result has at least two, because it is no first one.
    package func takeAgain(
        _ entry: StreamEntry,
        by consumer: StreamConsumer,
        tag: HashTag,
    ) async throws -> StreamEntry? {
        let call = TakeAgainCall(
            keys: [entry.stream],
            consumer: consumer,
            entry: entry.id,
            deliveries: entry.deliveries,
            digest: entry.name.digestText,
        )
        let answer = try await self.access.call(call, on: tag, repeated: { _ in nil })
        let answers = Array(try answer.elements())
        // An entry that is taken for another's would wait for its lease, so this answer is read strictly.
        guard answers.count == 1, !answers[0].isNull else { throw answer.reply.unexpected("a list of entries") }
        return try Self.entries(answers[0], of: entry.stream).first
    }

    private static func entries(_ answer: RESPNode, of stream: String) throws(RedisError) -> [StreamEntry] {
        var entries: [StreamEntry] = []
        for entry in try answer.elements() {
            entries.append(
                StreamEntry(
                    stream: stream,
                    id: try entry.at(0).text(),
                    message: try entry.at(1).blob(),
                    deliveries: UInt32(clamping: try entry.at(2).number()),
                    journal: UnitJournal(encoded: try entry.at(3).blob()),
                )
            )
        }
        return entries
    }
}

struct ClaimEntriesCall: FunctionCall {
    static let function = "apus2_claim_entries"
    var keys: [String]
    var consumer: StreamConsumer
    var leaseMilliseconds: Int64
    var counts: [Int]
    var cursors: [String]

    func set(_ fields: inout CallFields) {
        fields.set(self.consumer)
        fields.set("lease_ms", self.leaseMilliseconds)
        fields.set("counts", self.counts)
        fields.set("cursors", self.cursors)
    }
}

struct CountRemovedCall: FunctionCall {
    static let function = "apus2_count_removed"
    var keys: [String]
    var group: String

    func set(_ fields: inout CallFields) {
        fields.set("group", self.group)
    }
}

struct RereadEntriesCall: FunctionCall {
    static let function = "apus2_reread_entries"
    var keys: [String]
    var consumer: StreamConsumer
    var idleMilliseconds: Int64
    var count: Int
    var inHand: [[String]]

    func set(_ fields: inout CallFields) {
        fields.set(self.consumer)
        fields.set("idle_ms", self.idleMilliseconds)
        fields.set("count", self.count)
        fields.set("in_hand", self.inHand)
    }
}

struct TakeAgainCall: FunctionCall {
    static let function = "apus2_take_again"
    var keys: [String]
    var consumer: StreamConsumer
    var entry: String
    var deliveries: UInt32
    var digest: String

    func set(_ fields: inout CallFields) {
        fields.set(self.consumer)
        fields.set("entry", self.entry)
        fields.set("deliveries", Int64(self.deliveries))
        fields.set("digest", self.digest)
    }
}

struct ReclaimEntriesCall: FunctionCall {
    static let function = "apus2_reclaim_entries"
    var keys: [String]
    var consumer: StreamConsumer
    var leaseMilliseconds: Int64
    /// The entries, all of the stream and each of another id.
    var entries: [EntryName]

    func set(_ fields: inout CallFields) {
        fields.set(self.consumer)
        fields.set("lease_ms", self.leaseMilliseconds)
        fields.set("entries", self.entries.map(\.id))
        fields.set("digests", self.entries.map(\.digestText), default: [])
    }
}
