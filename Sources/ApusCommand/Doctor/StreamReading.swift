internal import ApusCore
internal import ApusRedis
package import ApusStreams
package import ApusTerminal

/// A summary of how one stream of a shard is being read.
package struct StreamReading: Hashable, Sendable {
    /// Its name without the shard's tag.
    package var name: String
    /// The service that reads it.
    package var service: String
    /// The age of its oldest unread entry; nil: nothing is unread.
    package var unreadMilliseconds: Int64?
    /// The age of its oldest entry that was read and is not finished; nil: there is none.
    package var pendingMilliseconds: Int64?
    /// The time since a consumer of it was last active; nil: it has no consumer.
    package var readMillisecondsAgo: Int64?

    /// Creates a summary.
    package init(
        _ name: String,
        service: String,
        unreadMilliseconds: Int64? = nil,
        pendingMilliseconds: Int64? = nil,
        readMillisecondsAgo: Int64? = nil,
    ) {
        self.name = name
        self.service = service
        self.unreadMilliseconds = unreadMilliseconds
        self.pendingMilliseconds = pendingMilliseconds
        self.readMillisecondsAgo = readMillisecondsAgo
    }

    /// Looks at the streams that services read without ever holding them back: mailboxes, registrations, outcomes, events.
    ///
    /// - Parameter reach: the parts of the installation to look at.
    package static func all(in streams: SendStreams, within reach: Reachability) async throws -> [StreamReading] {
        let publishers = try await reach.has(.publishers) ? streams.publishers.all() : []
        var readings: [StreamReading] = []
        for shard in reach.shards {
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
        var oldestPending: String?
        if state?["pending"]?.integer ?? 0 > 0 {
            let command = RedisCommand("XPENDING", .text(key), .text(group))
            oldestPending = try await client.send(command, on: tag).root.element(1)?.string
        }
        func written(_ id: String?) -> Int64? { id.flatMap { Int64($0.prefix { $0 != "-" }) } }
        let (firstUnread, firstPending) = (written(unread.element(0)?.element(0)?.string), written(oldestPending))
        if firstUnread != nil || firstPending != nil {
            let time = try await client.send(RedisCommand("TIME"), on: tag).root
            let now = (time.element(0)?.string.flatMap { Int64($0) } ?? 0) * 1_000
            reading.unreadMilliseconds = firstUnread.map { max(0, now - $0) }
            reading.pendingMilliseconds = firstPending.map { max(0, now - $0) }
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
    /// Tells of the parts of an installation that do not answer; nothing when all do. Pure.
    package static func silence(_ reach: Reachability) -> [Finding] {
        let cure = "apus cluster status names the servers that are away, and slots without a server"
        return reach.sentences.map { Finding(.fail, .cluster, $0, cure: cure) }
    }

    /// Tells of entries that were given up; nothing when there are none. Pure.
    package static func deadLetters(_ count: Int64) -> [Finding] {
        guard count > 0 else { return [] }
        let cure = "apus dead list says why; apus dead replay sends them once more, and apus dead purge removes them"
        let detail = "\(NumberText.grouped(count)) wait for a decision"
        return [Finding(.warn, .streams, "dead letters", detail, cure: cure)]
    }

    /// Tells of retries and scheduled sends that should have been moved to their streams; nothing when there are none. Pure.
    package static func overdue(_ rows: [StreamBacklog.Row]) -> [Finding] {
        let late = rows.filter { $0.name == StreamBacklog.due }.compactMap(\.oldestMilliseconds).max() ?? 0
        guard late > Self.readMillisecondsMax else { return [] }
        let detail = "retries or scheduled sends are late by \(NumberText.age(milliseconds: late))"
        let cure = "See that dispatcher runs, and that its streams have room: apus lag"
        return [
            Finding(late > Self.pendingMillisecondsMax ? .fail : .warn, .streams, StreamBacklog.due, detail, cure: cure)
        ]
    }

    /// Tells of sends that an operator has paused and that hold entries; nothing when there are none. Pure.
    package static func held(_ rows: [StreamBacklog.Row]) -> [Finding] {
        let held = rows.filter { $0.sends ?? 0 > 0 }
        guard !held.isEmpty else { return [] }
        let count = held.reduce(0) { $0 + ($1.sends ?? 0) }
        let sends = NumberText.counted(count, "paused send holds", "paused sends hold")
        let detail = "\(sends) \(NumberText.counted(held.reduce(0) { $0 + $1.backlog }, "entry", "entries"))"
        let cure = "apus sends --state paused lists them; apus resume SEND"
        return [Finding(.warn, .streams, "paused", detail, cure: cure)]
    }

    /// The age from which an unread entry is worth a finding.
    private static let readMillisecondsMax = StreamLimits.readSilenceMax.components.seconds * 1_000
    /// The age from which an entry that was read and not finished is worth one: that of the alert ApusPendingStuck.
    private static let pendingMillisecondsMax: Int64 = 900_000

    /// Diagnoses how streams are read: a line for each kind of which entries wait for too long, and one for each of which some were read and
    /// are not finished for too long. Pure.
    package static func streams(_ readings: [StreamReading]) -> [Finding] {
        let findings = Self.unread(readings) + Self.pending(readings)
        guard findings.isEmpty else { return findings }
        let detail = "no entry waits unread for longer than ten seconds, or unfinished for fifteen minutes"
        return [Finding(.ok, .streams, detail)]
    }

    private static func pending(_ readings: [StreamReading]) -> [Finding] {
        let late = readings.filter { $0.pendingMilliseconds ?? 0 > Self.pendingMillisecondsMax }
        return Dictionary(grouping: late, by: \.name).sorted { $0.key < $1.key }.map { name, late in
            let age = NumberText.age(milliseconds: late.compactMap(\.pendingMilliseconds).max() ?? 0)
            let of = readings.count { $0.name == name }
            let detail = "read and not finished for up to \(age) in \(late.count) of \(of) shards"
            let isRead = late.allSatisfy { $0.readMillisecondsAgo.map { $0 <= Self.readMillisecondsMax } ?? false }
            let cure =
                "See that \(late[0].service) runs, and what its log says: who had read them may be gone, or fail at them"
            return Finding(isRead ? .warn : .fail, .streams, name, detail, cure: cure)
        }
    }

    private static func unread(_ readings: [StreamReading]) -> [Finding] {
        let limit = Self.readMillisecondsMax
        let late = readings.filter { $0.unreadMilliseconds ?? 0 > limit }
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
