package import ApusCore
internal import ApusRedis

/// Describes what is known of a broadcast channel.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns
package enum KnownChannel: Hashable, Sendable {
    /// The channel exists. Whether it keeps its latest message was decided when it was created.
    case there(storesLatest: Bool)
    /// The channel was deleted, or unknown to the provider, at that time.
    case gone(since: UnixMilliseconds)

    /// The text that stands for it in Redis.
    package var text: String {
        switch self {
        case .there(let storesLatest): storesLatest ? "1" : "0"
        case .gone(let since): "\(Self.gonePrefix)\(since)"
        }
    }

    /// Reads the text from Redis; nil for any other text.
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

    /// Returns true while the knowledge counts: the provider may come to know a channel that it did not know.
    func counts(at now: UnixMilliseconds) -> Bool {
        guard case .gone(let since) = self else { return true }
        return now < since.advanced(byMilliseconds: StreamLimits.channelGoneMemoryMilliseconds)
    }

    /// Returns the channels for which the provider's list of all channels contradicts the record: those recorded as existing that are gone,
    /// and those recorded as gone that exist. They are to be forgotten rather than changed into their opposite, because the list may be
    /// older than the record.
    package static func outdated(_ known: [String: KnownChannel], by listed: Set<String>) -> [String] {
        known.compactMap { id, channel in
            let isThere = if case .there = channel { true } else { false }
            return isThere == listed.contains(id) ? nil : id
        }
    }

    private static let gonePrefix = "gone:"
}

/// Records the broadcast channels of a route: those that were created, read or deleted by us, and those that the provider did not know.
package struct Channels: Sendable {
    let access: StreamAccess

    /// Returns what is known of a channel; nil when that is nothing, or nothing that counts any more.
    package func find(_ id: String, of route: RouteNumber, now: UnixMilliseconds) async throws -> KnownChannel? {
        let keys = self.access.keys(ofRoute: route)
        let command = RedisCommand("HGET", .text(keys.channels(route)), .text(id))
        let answer = try await self.access.send(command, on: keys.tag)
        guard let known = KnownChannel(text: try answer.text()), known.counts(at: now) else { return nil }
        return known
    }

    /// Returns the record of every known channel: `StreamLimits.channelsMax` existing ones and `StreamLimits.channelsGoneMax` gone ones at
    /// most.
    package func all(of route: RouteNumber, now: UnixMilliseconds) async throws -> [String: KnownChannel] {
        let keys = self.access.keys(ofRoute: route)
        let command = RedisCommand("HGETALL", .text(keys.channels(route)))
        let answer = try await self.access.send(command, on: keys.tag)
        var channels: [String: KnownChannel] = [:]
        for (id, text) in try answer.pairs() {
            guard let known = KnownChannel(text: text), known.counts(at: now) else { continue }
            channels[id] = known
        }
        return channels
    }

    /// Records that a channel exists, and whether it keeps its latest message.
    ///
    /// - Returns: false when there is no room, so that nothing is known of the channel.
    @discardableResult
    package func record(channel id: String, storesLatest: Bool, of route: RouteNumber) async throws -> Bool {
        try await self.record(id, KnownChannel.there(storesLatest: storesLatest).text, route, now: nil)
    }

    /// Records that a channel is gone. When there are too many of them, or after their time, the oldest are forgotten.
    ///
    /// - Parameter now: the time, for tests; nil for Redis' own.
    package func record(goneChannel id: String, of route: RouteNumber, now: UnixMilliseconds? = nil) async throws {
        _ = try await self.record(id, "gone", route, now: now)
    }

    /// Forgets the records of channels.
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
        return try await self.access.call(call, on: keys.tag).number() == 1
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
