internal import ApusCore
internal import ApusRedis
package import ApusStreams
internal import ApusTerminal

/// A summary of how one stream of a shard is being read.
package struct StreamReading: Hashable, Sendable {
    /// Its name without the shard's tag.
    package var name: String
    /// The service that reads it.
    package var service: String
    /// The age of its oldest unread entry; nil: nothing is unread.
    package var unreadMilliseconds: Int64?
    /// The time since a consumer of it was last active; nil: it has no consumer.
    package var readMillisecondsAgo: Int64?

    /// Creates a summary.
    package init(
        _ name: String,
        service: String,
        unreadMilliseconds: Int64? = nil,
        readMillisecondsAgo: Int64? = nil,
    ) {
        self.name = name
        self.service = service
        self.unreadMilliseconds = unreadMilliseconds
        self.readMillisecondsAgo = readMillisecondsAgo
    }

    /// Looks at the streams of all shards that services read without ever holding them back: mailboxes, registrations, outcomes, events.
    package static func all(in streams: SendStreams) async throws -> [StreamReading] {
        let publishers = try await streams.publishers.all()
        var readings: [StreamReading] = []
        for shard in 0..<streams.keyspace.queueShards {
            let keys = streams.keys(shard: shard)
            let asked =
                Lane.allCases.flatMap { keys.mailboxes($0, publishers) }.map { ($0, StreamGroup.dispatcher) }
                + [
                    (keys.register, StreamGroup.registration), (keys.outcomes, StreamGroup.feedback),
                    (keys.events, StreamGroup.feedback),
                ]
            for (key, group) in asked {
                readings.append(try await Self.look(at: key, group, streams.client, keys.tag))
            }
        }
        return readings
    }

    private static func look(
        at key: String,
        _ group: String,
        _ client: RedisClient,
        _ tag: HashTag,
    ) async throws -> StreamReading {
        var reading = StreamReading(String(key.dropFirst(tag.description.utf8.count)), service: group)
        guard try await client.send(RedisCommand("EXISTS", .text(key)), on: tag).root.integer == 1 else {
            return reading
        }
        let groups = try await client.send(RedisCommand("XINFO", "GROUPS", .text(key)), on: tag).root
        let state = groups.children.map(Self.fields).first { $0["name"]?.string == group }
        let after = state?["last-delivered-id"]?.string.map { "(\($0)" } ?? "-"
        let unread = try await client.send(
            RedisCommand("XRANGE", .text(key), .text(after), "+", "COUNT", 1),
            on: tag
        ).root
        if let id = unread.element(0)?.element(0)?.string, let written = Int64(id.prefix { $0 != "-" }) {
            let time = try await client.send(RedisCommand("TIME"), on: tag).root
            let now = (time.element(0)?.string.flatMap { Int64($0) } ?? 0) * 1_000
            reading.unreadMilliseconds = max(0, now - written)
        }
        guard state != nil else { return reading }
        let consumers = try await client.send(
            RedisCommand("XINFO", "CONSUMERS", .text(key), .text(group)),
            on: tag
        ).root
        // Redis 7.2 tells since when nothing was read; before that, since when nothing was asked.
        let times = consumers.children.map(Self.fields).compactMap { ($0["inactive"] ?? $0["idle"])?.integer }
        reading.readMillisecondsAgo = times.filter { $0 >= 0 }.min()
        return reading
    }

    private static func fields(_ node: RESPNode) -> [String: RESPNode] {
        let parts = Array(node.children)
        var fields: [String: RESPNode] = [:]
        for index in stride(from: 0, to: parts.count - 1, by: 2) {
            if let name = parts[index].string { fields[name] = parts[index + 1] }
        }
        return fields
    }
}

extension Diagnosis {
    /// Tells of entries that were given up; nothing when there are none. Pure.
    package static func deadLetters(_ count: Int64) -> [Finding] {
        guard count > 0 else { return [] }
        let cure = "apus dead list says why; apus dead replay sends them once more, and apus dead purge removes them"
        let detail = "\(NumberText.grouped(count)) wait for a decision"
        return [Finding(.warn, .streams, "dead letters", detail, cure: cure)]
    }

    /// Diagnoses how streams are read: one line for each kind of which entries wait for too long. Pure.
    package static func streams(_ readings: [StreamReading]) -> [Finding] {
        let limit = StreamLimits.readSilenceMax.components.seconds * 1_000
        let late = readings.filter { $0.unreadMilliseconds ?? 0 > limit }
        guard !late.isEmpty else {
            return [Finding(.ok, .streams, "no entry waits unread for longer than ten seconds")]
        }
        return Dictionary(grouping: late, by: \.name).sorted { $0.key < $1.key }.map { name, late in
            let age = NumberText.age(milliseconds: late.compactMap(\.unreadMilliseconds).max() ?? 0)
            let of = readings.count { $0.name == name }
            let waiting = "unread for up to \(age) in \(late.count) of \(of) shards"
            let service = late[0].service
            guard let unread = late.first(where: { $0.readMillisecondsAgo.map { $0 > limit } ?? true }) else {
                let cure = "More comes in than goes out, or something holds it back: apus lag"
                return Finding(.warn, .streams, name, waiting, cure: cure)
            }
            let since = unread.readMillisecondsAgo.map {
                "nobody has read there for \(NumberText.age(milliseconds: $0))"
            }
            return Finding(
                .fail,
                .streams,
                name,
                "\(waiting), and \(since ?? "nobody reads there")",
                cure: "See that \(service) runs: its log and the check streams of its /readyz say why it does not read"
            )
        }
    }
}
