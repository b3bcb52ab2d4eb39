package import ApusCore
internal import ApusRedis

/// What is known of the broadcast channels of a route: those that were made, shown or deleted here, and those that Apple did not know.
extension SendStreams {
    /// What is known of a channel; nil: nothing, or nothing that still counts.
    package func channel(_ id: String, of route: RouteNumber, now: UnixMilliseconds) async throws -> KnownChannel? {
        let keys = self.keys(ofRoute: route)
        let command = RedisCommand("HGET", .text(keys.channels(route)), .text(id))
        let answer = try await self.client.send(command, on: keys.tag, options: .idempotent).root
        guard let known = KnownChannel(text: answer.text), known.counts(at: now) else { return nil }
        return known
    }

    /// All that is known of channels: `StreamLimits.channelsMax` that are there and `StreamLimits.channelsGoneMax` that are gone at most.
    package func channels(of route: RouteNumber, now: UnixMilliseconds) async throws -> [String: KnownChannel] {
        let keys = self.keys(ofRoute: route)
        let command = RedisCommand("HGETALL", .text(keys.channels(route)))
        let answer = try await self.client.send(command, on: keys.tag, options: .idempotent).root
        var channels: [String: KnownChannel] = [:]
        for (id, text) in Self.pairs(answer) {
            guard let known = KnownChannel(text: text), known.counts(at: now) else { continue }
            channels[id] = known
        }
        return channels
    }

    /// Notes that a channel is there, and what it keeps.
    ///
    /// - Returns: false: there is no room, nothing is known of it.
    @discardableResult
    package func note(channel id: String, storesLatest: Bool, of route: RouteNumber) async throws -> Bool {
        try await self.note(id, KnownChannel.there(storesLatest: storesLatest).text, route, now: nil)
    }

    /// Notes that a channel is gone. Of too many, or of what was so for too long, the first are forgotten.
    ///
    /// - Parameter now: the time, for tests; nil: Redis' own.
    package func note(goneChannel id: String, of route: RouteNumber, now: UnixMilliseconds? = nil) async throws {
        _ = try await self.note(id, "gone", route, now: now)
    }

    /// Forgets what is known of channels.
    package func forget(channels ids: [String], of route: RouteNumber) async throws {
        let keys = self.keys(ofRoute: route)
        var rest = ids[...]
        while !rest.isEmpty {
            let some = rest.prefix(StreamLimits.channelsPerCallMax)
            rest = rest.dropFirst(some.count)
            _ = try await self.client.call(
                "apus1_channel_forget",
                on: keys.tag,
                keys: [keys.channels(route)],
                arguments: some.map { .text($0) },
            )
        }
    }

    private func note(
        _ id: String,
        _ word: String,
        _ route: RouteNumber,
        now: UnixMilliseconds?,
    ) async throws -> Bool {
        let keys = self.keys(ofRoute: route)
        let reply = try await self.client.call(
            "apus1_channel_note",
            on: keys.tag,
            keys: [keys.channels(route)],
            arguments: [.text(id), .text(word), .text(now.map { "\($0)" } ?? "")],
        )
        return reply.root.number == 1
    }
}
