internal import ApusCore
package import ApusMessages
package import ApusRedis

extension SendStreams {
    /// What became of a batch of outcomes.
    package enum Application: Hashable, Sendable {
        /// The ledger moved, the batch is acknowledged.
        case ok
        /// The ledger moved and the send is complete: write the final receipt, then acknowledge.
        case final(SendLedger)
        /// The ledger moved, the batch is acknowledged, and it is time to tell how far the send is.
        case progress(SendLedger)
        /// Another owns the batch.
        case lost
        /// There is no such send any more, or it was complete before; acknowledged.
        case gone
    }

    /// Moves the ledger of a send by one batch and acknowledges it: both or neither.
    ///
    /// - Parameter progress: when to tell of a send that is under way; nil: never.
    package func apply(
        _ batch: OutcomeBatch,
        entry: StreamEntry,
        by consumer: StreamConsumer,
        tag: HashTag,
        keepMilliseconds: Int64,
        progress: ProgressRules? = nil,
    ) async throws -> Application {
        var arguments: [RedisArgument] = [
            .text(consumer.group), .text(consumer.name), .text(entry.id),
            .text(batch.firstAt?.description ?? ""), .text(batch.lastAt?.description ?? ""),
            .integer(keepMilliseconds), .integer(Int64(batch.counts.count)),
        ]
        for count in batch.counts {
            arguments.append(.text(SendLedger.field(count)))
            arguments.append(.integer(Int64(count.count)))
        }
        if let progress {
            arguments += [.integer(progress.everyMilliseconds), .integer(progress.percent)]
        }
        let keys = StreamKeys(tag: tag)
        let reply = try await self.client.call(
            "apus1_apply",
            on: tag,
            keys: [entry.stream, keys.send(batch.send)],
            arguments: arguments,
        )
        switch reply.root[0].text {
        case "ok":
            self.observer?.entriesAcknowledged(1, stream: entry.stream)
            return .ok
        case "progress":
            self.observer?.entriesAcknowledged(1, stream: entry.stream)
            guard let ledger = SendLedger(fields: Self.pairs(reply.root[1])) else { return .ok }
            return .progress(ledger)
        case "lost": return .lost
        case "gone":
            self.observer?.entriesAcknowledged(1, stream: entry.stream)
            return .gone
        case "final":
            guard let ledger = SendLedger(fields: Self.pairs(reply.root[1])) else { return .gone }
            return .final(ledger)
        default: throw StreamError.unexpected(function: "apus1_apply", answer: reply.root[0].text)
        }
    }

    /// Writes a receipt: into the publisher's own stream if it named one, else into the shard's.
    package func write(_ receipt: SendReceipt, replyTo: String, tag: HashTag) async throws {
        let bytes = try receipt.encode()
        guard replyTo.isEmpty else {
            _ = try await self.client.call(
                "apus1_reply",
                on: HashTag(ofKey: replyTo),
                keys: [replyTo],
                arguments: [.integer(StreamLimits.replyEntriesMax), .bytes(bytes)],
            )
            return
        }
        _ = try await self.client.call(
            "apus1_receipt",
            on: tag,
            keys: [StreamKeys(tag: tag).receipts],
            arguments: [.bytes(bytes)],
        )
    }

    /// Writes a receipt into the shard's own stream and acknowledges the entry that it ends, together. False: the entry is another's, or
    /// was ended before.
    package func write(
        _ receipt: SendReceipt,
        ending entry: StreamEntry,
        by consumer: StreamConsumer,
        tag: HashTag,
    ) async throws -> Bool {
        let reply = try await self.client.call(
            "apus1_receipt",
            on: tag,
            keys: [StreamKeys(tag: tag).receipts, entry.stream],
            arguments: [
                .bytes(try receipt.encode()), .text(consumer.group), .text(consumer.name), .text(entry.id),
            ],
        )
        guard reply.root.integer == 1 else { return false }
        self.observer?.entriesAcknowledged(1, stream: entry.stream)
        return true
    }
}

/// When a send under way is told of: so long after the last time, and only if so much was done since. So a slow send is not told of
/// again and again without news, and a fast one of a million recipients not a thousand times.
package struct ProgressRules: Hashable, Sendable {
    /// Milliseconds between two tellings, at least.
    package var everyMilliseconds: Int64
    /// Percent of the recipients found so far that must have ended since the last one.
    package var percent: Int

    /// Rules.
    package init(everyMilliseconds: Int64, percent: Int) {
        precondition(everyMilliseconds >= 0 && (1...100).contains(percent))
        self.everyMilliseconds = everyMilliseconds
        self.percent = percent
    }
}
