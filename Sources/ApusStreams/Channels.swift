package import ApusCore
internal import ApusRedis

/// What is known of a broadcast channel.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns
package enum KnownChannel: Hashable, Sendable {
    /// It is there; whether it keeps its latest message was fixed when it was made.
    case there(storesLatest: Bool)
    /// It was deleted, or the provider did not know it, at that time.
    case gone(since: UnixMilliseconds)

    /// As it stands in Redis.
    package var text: String {
        switch self {
        case .there(let storesLatest): storesLatest ? "1" : "0"
        case .gone(let since): "\(Self.gonePrefix)\(since)"
        }
    }

    /// As it stood in Redis; nil for anything else.
    package init?(text: String) {
        switch text {
        case "0": self = .there(storesLatest: false)
        case "1": self = .there(storesLatest: true)
        default:
            guard text.hasPrefix(Self.gonePrefix), let since = Int64(text.dropFirst(Self.gonePrefix.count)) else {
                return nil
            }
            self = .gone(since: UnixMilliseconds(since))
        }
    }

    /// Whether it still counts at that time: a channel that the provider did not know may be known to it later.
    func counts(at now: UnixMilliseconds) -> Bool {
        guard case .gone(let since) = self else { return true }
        return now < since.advanced(byMilliseconds: StreamLimits.channelGoneMemoryMilliseconds)
    }

    /// Returns the channels of which the provider's list of all channels contradicts what is known: those that are there no more, and those that
    /// are gone and are there. They are to be forgotten rather than turned into their opposite: the list may be older than what is known.
    package static func outdated(_ known: [String: KnownChannel], by listed: Set<String>) -> [String] {
        known.compactMap { id, channel in
            let isThere = if case .there = channel { true } else { false }
            return isThere == listed.contains(id) ? nil : id
        }
    }

    private static let gonePrefix = "gone:"
}

/// What is known of the broadcast channels of a route: those that were made, shown or deleted here, and those that the provider did not know.
package struct Channels: Sendable {
    let access: StreamAccess

    /// Returns what is known of a channel; nil: nothing, or nothing that still counts.
    package func find(_ id: String, of route: RouteNumber, now: UnixMilliseconds) async throws -> KnownChannel? {
        let keys = self.access.keys(ofRoute: route)
        let command = RedisCommand("HGET", .text(keys.channels(route)), .text(id))
        let answer = try await self.access.send(command, on: keys.tag)
        guard let known = KnownChannel(text: answer.text), known.counts(at: now) else { return nil }
        return known
    }

    /// Returns all that is known of channels: `StreamLimits.channelsMax` that are there and `StreamLimits.channelsGoneMax` that are gone at most.
    package func all(of route: RouteNumber, now: UnixMilliseconds) async throws -> [String: KnownChannel] {
        let keys = self.access.keys(ofRoute: route)
        let command = RedisCommand("HGETALL", .text(keys.channels(route)))
        let answer = try await self.access.send(command, on: keys.tag)
        var channels: [String: KnownChannel] = [:]
        for (id, text) in answer.pairs {
            guard let known = KnownChannel(text: text), known.counts(at: now) else { continue }
            channels[id] = known
        }
        return channels
    }

    /// Records that a channel is there, and what it keeps.
    ///
    /// - Returns: false: there is no room, nothing is known of it.
    @discardableResult
    package func record(channel id: String, storesLatest: Bool, of route: RouteNumber) async throws -> Bool {
        try await self.record(id, KnownChannel.there(storesLatest: storesLatest).text, route, now: nil)
    }

    /// Records that a channel is gone. Of too many, or of those that have been gone for too long, the first are forgotten.
    ///
    /// - Parameter now: the time, for tests; nil: Redis' own.
    package func record(goneChannel id: String, of route: RouteNumber, now: UnixMilliseconds? = nil) async throws {
        _ = try await self.record(id, "gone", route, now: now)
    }

    /// Forgets what is known of channels.
    package func forget(channels ids: [String], of route: RouteNumber) async throws {
        let keys = self.access.keys(ofRoute: route)
        var rest = ids[...]
        while !rest.isEmpty {
            let some = rest.prefix(StreamLimits.channelsPerCallMax)
            rest = rest.dropFirst(some.count)
            let call = ForgetChannelsCall(keys: [keys.channels(route)], channels: Array(some))
            _ = try await self.access.call(call, on: keys.tag)
        }
    }

    private func record(
        _ id: String,
        _ state: String,
        _ route: RouteNumber,
        now: UnixMilliseconds?,
    ) async throws -> Bool {
        let keys = self.access.keys(ofRoute: route)
        let call = RecordChannelCall(keys: [keys.channels(route)], channel: id, state: state, now: now?.value)
        return try await self.access.call(call, on: keys.tag).number == 1
    }
}

struct RecordChannelCall: FunctionCall {
    static let function = "apus2_record_channel"
    var keys: [String]
    var channel: String
    var state: String
    var now: Int64?

    func set(_ fields: inout CallFields) {
        fields.set("channel", self.channel)
        fields.set("state", self.state)
        fields.set("at_ms", optional: self.now)
    }
}

struct ForgetChannelsCall: FunctionCall {
    static let function = "apus2_forget_channels"
    var keys: [String]
    var channels: [String]

    func set(_ fields: inout CallFields) {
        fields.set("channels", self.channels)
    }
}
