internal import ApusCore

/// Decides which origin makes room for a new one. Pure.
///
/// Hosts that anybody may name have a limit of their own, so that they cannot take the places of all others. An origin with requests keeps its
/// place.
struct OriginCapacity {
    /// The maximum number of origins.
    var originsMax = Limits.originsMax
    /// The maximum number of those whose hosts anybody may name.
    var unknownMax = Limits.unknownOriginsMax

    /// An origin that has a place.
    struct Candidate {
        var origin: Origin
        var trust: HostTrust
        /// True while requests wait or are in flight.
        var isBusy: Bool
        /// The time of the last request.
        var lastUse: UInt64
    }

    /// The decisions about a new origin.
    enum Decision: Hashable {
        /// There is room.
        case room
        /// The given origin makes room.
        case replace(Origin)
        /// All that could make room are busy.
        case full
    }

    /// Decides about a new origin among those that have a place.
    func decide(_ trust: HostTrust, among candidates: [Candidate]) -> Decision {
        let unknown = candidates.filter { $0.trust == .unknown }
        let isUnknownFull = trust == .unknown && unknown.count >= self.unknownMax
        guard isUnknownFull || candidates.count >= self.originsMax else { return .room }
        if let origin = Self.unusedForLongest(unknown) { return .replace(origin) }
        guard !isUnknownFull, let origin = Self.unusedForLongest(candidates) else { return .full }
        return .replace(origin)
    }

    private static func unusedForLongest(_ candidates: [Candidate]) -> Origin? {
        candidates.filter { !$0.isBusy }.min { $0.lastUse < $1.lastUse }?.origin
    }
}
