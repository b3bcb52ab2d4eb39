package import ApusRedis

/// Manages which consumer owns which entries of the streams: acknowledgement and leases.
package struct Entries: Sendable {
    let access: StreamAccess

    /// Acknowledges entries of one stream; the ids of those that still were this consumer's.
    ///
    /// - Parameter isRepeated: false when something that is not repeated after a failover came before it: an entry that comes back brings
    ///   that back, too.
    @discardableResult
    package func acknowledge(
        _ entries: [StreamEntry],
        by consumer: StreamConsumer,
        tag: HashTag,
        isRepeated: Bool = true,
        server: RedisServerIdentity? = nil,
    ) async throws -> [String] {
        guard let first = entries.first else { return [] }
        let stream = first.stream
        let call = AcknowledgeCall(keys: [stream], consumer: consumer, entries: entries.map(\.name))
        let answer = try await self.access.call(call, on: tag, about: first.name, server: server) {
            isRepeated && $0.count > 0 ? call : nil
        }
        let acknowledged = try answer.elements().map { try $0.text() }
        if !acknowledged.isEmpty { self.access.observer?.entriesAcknowledged(acknowledged.count, stream: stream) }
        return acknowledged
    }

    /// An entry that is kept or given back.
    package struct Owned: Hashable, Sendable {
        /// The stream of the entry.
        package var stream: String
        /// The id of the entry.
        package var id: String
        /// The maximum of deliveries that the entry may count afterwards; nil leaves its count alone.
        package var deliveriesMax: UInt32?

        /// Creates a reference to an entry.
        package init(stream: String, id: String, deliveriesMax: UInt32? = nil) {
            self.stream = stream
            self.id = id
            self.deliveriesMax = deliveriesMax
        }
    }

    /// Keeps entries for another lease and returns how many of them this consumer still owned.
    @discardableResult
    package func renew(_ entries: [Owned], by consumer: StreamConsumer, tag: HashTag) async throws -> Int {
        try await self.renew(entries, by: consumer, tag: tag, idleMilliseconds: 0)
    }

    /// Begins the handling of a poison entry, from which on this delivery counts.
    package func begin(_ entry: StreamEntry, by consumer: StreamConsumer, tag: HashTag) async throws {
        let owned = Owned(stream: entry.stream, id: entry.id, deliveriesMax: entry.deliveries)
        try await self.renew([owned], by: consumer, tag: tag, idleMilliseconds: 0, isExact: true)
    }

    /// Gives entries back, so that any other consumer takes them over at its next call.
    package func handBack(_ entries: [Owned], by consumer: StreamConsumer, tag: HashTag) async throws {
        try await self.renew(entries, by: consumer, tag: tag, idleMilliseconds: 3_600_000)
    }

    /// Gives back entries that this process has handled in part and survived: none of their deliveries counts.
    package func handBack(stream: String, entries: [String], by consumer: StreamConsumer, tag: HashTag) async throws {
        let entries = entries.map { Owned(stream: stream, id: $0, deliveriesMax: 0) }
        try await self.handBack(entries, by: consumer, tag: tag)
    }

    @discardableResult
    private func renew(
        _ entries: [Owned],
        by consumer: StreamConsumer,
        tag: HashTag,
        idleMilliseconds: Int64,
        isExact: Bool = false,
    ) async throws -> Int {
        var count = 0
        for first in stride(from: 0, to: entries.count, by: StreamLimits.renewEntriesMax) {
            let part = entries[first..<min(first + StreamLimits.renewEntriesMax, entries.count)]
            let byStream = Dictionary(grouping: part, by: \.stream)
            let call = RenewLeasesCall(
                keys: Array(byStream.keys),
                consumer: consumer,
                idleMilliseconds: idleMilliseconds,
                isExact: isExact,
                entries: byStream.values.map { $0.map(\.id) },
                deliveries: byStream.values.map { $0.map { $0.deliveriesMax.map { Int64($0) } ?? -1 } },
            )
            count += Int(try await self.access.call(call, on: tag, repeated: { _ in nil }).number())
        }
        return count
    }

    /// Removes the consumer from those streams in which it owns nothing, and returns their number.
    @discardableResult
    package func remove(_ consumer: StreamConsumer, from streams: [String], tag: HashTag) async throws -> Int {
        let call = RemoveConsumerCall(keys: streams, consumer: consumer)
        return Int(try await self.access.call(call, on: tag).number())
    }

    /// Returns how many entries a stream holds, read or not.
    package func count(of stream: String, tag: HashTag) async throws -> Int {
        Int(try await self.access.send(RedisCommand("XLEN", .text(stream)), on: tag).number())
    }

    /// Returns true while other consumers of the group own entries of a stream that come before one, from an id on ("-" is the first).
    package func areOthersPending(
        from first: String,
        before entry: StreamEntry,
        besides consumer: StreamConsumer,
    ) async throws(RedisError) -> Bool {
        let command = RedisCommand(
            "XPENDING",
            .text(entry.stream),
            .text(consumer.group),
            .text(first),
            .text("(\(entry.id)"),
            .integer(StreamLimits.earlierEntriesMax),
        )
        do throws(RedisError) {
            let pending = try await self.access.send(command, on: HashTag(ofKey: entry.stream))
            for other in try pending.elements() where try other.at(1).text() != consumer.name { return true }
            return false
        } catch {
            // A group that was made again since knows of no earlier entry.
            guard error.code == .noGroup else { throw error }
            return false
        }
    }

    /// Returns the consumers of a group that have not asked for anything for that time.
    package func silentConsumers(
        of stream: String,
        group: String,
        idleMilliseconds: Int64,
        tag: HashTag,
    ) async throws -> [StreamConsumer] {
        let reply = try await self.access.client.send(
            RedisCommand("XINFO", "CONSUMERS", .text(stream), .text(group)),
            on: tag
        )
        return try reply.root.elements().compactMap { consumer in
            let fields = Array(try consumer.elements())
            func field(_ name: String) -> RESPNode? {
                stride(from: 0, to: fields.count - 1, by: 2).first { fields[$0].string == name }.map { fields[$0 + 1] }
            }
            guard let idle = try field("idle")?.number(), idle > idleMilliseconds, let name = field("name") else {
                return nil
            }
            return StreamConsumer(group: group, name: try name.text())
        }
    }
}

struct AcknowledgeCall: OwnerCall {
    static let function = "apus2_acknowledge"
    var keys: [String]
    var consumer: StreamConsumer
    /// The entries, all of the stream.
    var entries: [EntryName]

    func set(_ fields: inout CallFields) {
        fields.set(self.consumer)
        fields.set("entries", self.entries.map(\.id))
        fields.set("digests", self.entries.map(\.digestText), default: [])
    }
}

struct RenewLeasesCall: FunctionCall {
    static let function = "apus2_renew_leases"
    var keys: [String]
    var consumer: StreamConsumer
    var idleMilliseconds: Int64
    var isExact: Bool
    var entries: [[String]]
    var deliveries: [[Int64]]

    func set(_ fields: inout CallFields) {
        fields.set(self.consumer)
        fields.set("idle_ms", self.idleMilliseconds, default: 0)
        fields.set("is_exact", self.isExact, default: false)
        fields.set("entries", self.entries)
        fields.set("deliveries", self.deliveries)
    }
}

struct RemoveConsumerCall: FunctionCall {
    static let function = "apus2_remove_consumer"
    var keys: [String]
    var consumer: StreamConsumer

    func set(_ fields: inout CallFields) {
        fields.set(self.consumer)
    }
}

struct CreateGroupsCall: FunctionCall {
    static let function = "apus2_create_groups"
    var keys: [String]
    var group: String

    func set(_ fields: inout CallFields) {
        fields.set("group", self.group)
    }
}
