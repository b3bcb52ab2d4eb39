internal import ApusCore
internal import ApusMessages

/// A send, with what happened to it from outside.
final class SimulatedSend: @unchecked Sendable {
    enum Audience: Hashable, Sendable {
        case everyone
        case topic
        case users([String])
        case devices([String])
    }

    let id: String
    let audience: Audience
    let lane: Lane
    let isAtMostOnce: Bool
    /// The time at which its publication began.
    let begin: Int64
    /// The time at which it was first known to be published; nil when it is not.
    var published: Int64?
    /// True once the publisher has given up without an answer: it may be published or not.
    var isUncertain = false
    /// The time at which an operator was told that it is cancelled.
    var cancelled: Int64?
    /// True once somebody has asked to cancel it.
    var mayBeCancelled = false

    init(id: String, audience: Audience, lane: Lane, isAtMostOnce: Bool, begin: Int64) {
        self.id = id
        self.audience = audience
        self.lane = lane
        self.isAtMostOnce = isAtMostOnce
        self.begin = begin
    }

    var target: Target {
        switch self.audience {
        case .everyone: .everyone([])
        case .topic: .topic(Simulation.topic)
        case .users(let users): .users(users)
        case .devices(let ids): .devices(ids)
        }
    }

    /// Returns true when a device is meant.
    func reaches(_ id: String, _ state: DeviceState?) -> Bool {
        guard let state else { return false }
        return switch self.audience {
        case .everyone: true
        case .topic: state.isSubscribed
        case .users(let users): users.contains(state.user)
        case .devices(let ids): ids.contains(id)
        }
    }
}
