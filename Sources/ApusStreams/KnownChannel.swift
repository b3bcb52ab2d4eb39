package import ApusCore

/// What is known of a broadcast channel of Apple's.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns
package enum KnownChannel: Hashable, Sendable {
    /// It is there; whether it keeps its latest message was fixed when it was made.
    case there(storesLatest: Bool)
    /// It was deleted, or Apple did not know it, at that time.
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

    /// Whether it still counts at that time: a channel that Apple did not know may be known to it later.
    func counts(at now: UnixMilliseconds) -> Bool {
        guard case .gone(let since) = self else { return true }
        return now < since.advanced(byMilliseconds: StreamLimits.channelGoneMemoryMilliseconds)
    }

    /// Of what is known, what Apple's list of all channels shows to be out of date: channels that are there no more, and channels that are
    /// gone and are there. They are to be forgotten rather than turned into their opposite: the list may be older than what is known.
    package static func outdated(_ known: [String: KnownChannel], by listed: Set<String>) -> [String] {
        known.compactMap { id, channel in
            let isThere = if case .there = channel { true } else { false }
            return isThere == listed.contains(id) ? nil : id
        }
    }

    private static let gonePrefix = "gone:"
}
