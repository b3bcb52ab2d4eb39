package import ApusRedis

/// Who owns which entries: take-over, leases, hand-back.
extension SendStreams {
    /// Where a take-over looks, and for how much there is room.
    package struct ClaimRequest: Sendable {
        /// The stream.
        package var stream: String
        /// Entries at most.
        package var count: Int
        /// Where to go on; "0-0": from the beginning.
        package var cursor: String

        /// A look at a stream.
        package init(_ stream: String, count: Int = StreamLimits.claimBatchMax, cursor: String = "0-0") {
            self.stream = stream
            self.count = count
            self.cursor = cursor
        }
    }

    /// What a take-over brought from one stream.
    package struct Claim: Sendable {
        /// Where the next one goes on; nil: there is no such stream or group.
        package var cursor: String?
        /// What is ours now.
        package var entries: [StreamEntry]
        /// Entries that were pending but no longer exist: lost, which never happens unless somebody trimmed the stream.
        package var vanished: [String]
    }

    /// Takes over entries whose owner has been silent for a lease; one answer per stream, in their order.
    package func claim(
        _ requests: [ClaimRequest],
        by consumer: StreamConsumer,
        tag: HashTag,
        leaseMilliseconds: Int64,
    ) async throws -> [Claim] {
        precondition(!requests.isEmpty && requests.count <= StreamLimits.streamsPerReadMax)
        var arguments: [RedisArgument] = [
            .text(consumer.group), .text(consumer.name), .integer(leaseMilliseconds),
        ]
        for request in requests {
            arguments.append(.integer(Int64(min(request.count, StreamLimits.claimBatchMax))))
            arguments.append(.text(request.cursor))
        }
        let reply = try await self.call(
            "apus1_claim",
            on: tag,
            keys: requests.map(\.stream),
            arguments: arguments,
        )
        return zip(requests, reply.root.children).map { request, answer in
            Claim(
                cursor: answer[0].text.isEmpty ? nil : answer[0].text,
                entries: answer[1].children.map { entry in
                    StreamEntry(
                        stream: request.stream,
                        id: entry[0].text,
                        message: entry[1].blob,
                        deliveries: UInt32(clamping: entry[2].number),
                        journal: UnitJournal(encoded: entry[3].blob),
                    )
                },
                vanished: answer[2].children.map(\.text),
            )
        }
    }

    /// An entry that is kept or given back.
    package struct Holding: Hashable, Sendable {
        /// Its stream.
        package var stream: String
        /// Its id.
        package var id: String
        /// Deliveries that it may count from now on, at most; nil: as many as it does.
        package var deliveriesMax: UInt32?

        /// An entry.
        package init(stream: String, id: String, deliveriesMax: UInt32? = nil) {
            self.stream = stream
            self.id = id
            self.deliveriesMax = deliveriesMax
        }
    }

    /// Keeps entries for another lease; the number that still were this consumer's.
    @discardableResult
    package func renew(_ holdings: [Holding], by consumer: StreamConsumer, tag: HashTag) async throws -> Int {
        try await self.renew(holdings, by: consumer, tag: tag, idleMilliseconds: 0)
    }

    /// A suspect begins: from now on this delivery counts.
    package func begin(_ entry: StreamEntry, by consumer: StreamConsumer, tag: HashTag) async throws {
        let holding = Holding(stream: entry.stream, id: entry.id, deliveriesMax: entry.deliveries)
        try await self.renew([holding], by: consumer, tag: tag, idleMilliseconds: 0, isExact: true)
    }

    /// Gives entries back, so that any other takes them at its next look.
    package func handBack(_ holdings: [Holding], by consumer: StreamConsumer, tag: HashTag) async throws {
        try await self.renew(holdings, by: consumer, tag: tag, idleMilliseconds: 3_600_000)
    }

    /// Gives back entries that this process was at work on and survived: none of their deliveries counts.
    package func handBack(stream: String, entries: [String], by consumer: StreamConsumer, tag: HashTag) async throws {
        let holdings = entries.map { Holding(stream: stream, id: $0, deliveriesMax: 0) }
        try await self.handBack(holdings, by: consumer, tag: tag)
    }

    @discardableResult
    private func renew(
        _ holdings: [Holding],
        by consumer: StreamConsumer,
        tag: HashTag,
        idleMilliseconds: Int64,
        isExact: Bool = false,
    ) async throws -> Int {
        var count = 0
        for first in stride(from: 0, to: holdings.count, by: StreamLimits.renewEntriesMax) {
            let part = holdings[first..<min(first + StreamLimits.renewEntriesMax, holdings.count)]
            let byStream = Dictionary(grouping: part, by: \.stream)
            var arguments: [RedisArgument] = [
                .text(consumer.group), .text(consumer.name), .integer(idleMilliseconds), .text(isExact ? "1" : "0"),
            ]
            for holdings in byStream.values {
                arguments.append(.integer(Int64(holdings.count)))
                for holding in holdings {
                    arguments.append(.text(holding.id))
                    arguments.append(.integer(holding.deliveriesMax.map { Int64($0) } ?? -1))
                }
            }
            let reply = try await self.call(
                "apus1_renew",
                on: tag,
                keys: Array(byStream.keys),
                arguments: arguments,
            )
            count += Int(reply.root.number)
        }
        return count
    }

    /// Takes the consumer off the stream if it owns nothing there.
    @discardableResult
    package func retire(stream: String, consumer: StreamConsumer, tag: HashTag) async throws -> Bool {
        let reply = try await self.client.call(
            "apus1_retire",
            on: tag,
            keys: [stream],
            arguments: [.text(consumer.group), .text(consumer.name)],
        )
        return reply.root.number == 1
    }

    /// Consumers of a group that have not asked for anything for so long.
    package func silentConsumers(
        of stream: String,
        group: String,
        idleMilliseconds: Int64,
        tag: HashTag,
    ) async throws -> [StreamConsumer] {
        let reply = try await self.client.send(
            RedisCommand("XINFO", "CONSUMERS", .text(stream), .text(group)),
            on: tag
        )
        return reply.root.children.compactMap { consumer in
            let fields = Array(consumer.children)
            func field(_ name: String) -> RESPNode? {
                stride(from: 0, to: fields.count - 1, by: 2).first { fields[$0].text == name }.map { fields[$0 + 1] }
            }
            guard let idle = field("idle"), idle.number > idleMilliseconds, let name = field("name") else { return nil }
            return StreamConsumer(group: group, name: name.text)
        }
    }
}
