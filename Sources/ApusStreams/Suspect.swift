package import ApusCore
package import ApusMessages

/// A token of a device that a provider called bad, of another app or of another project: it may be, or we may be set up wrongly.
package struct Suspect: Hashable, Sendable {
    /// The device.
    package let reference: DeviceReference
    /// Of the token that was sent to.
    package let tokenDigest: UInt64
    /// When the request started.
    package let since: UnixMilliseconds
    /// Our word.
    package let reason: Reason

    /// A suspect.
    package init(reference: DeviceReference, tokenDigest: UInt64, since: UnixMilliseconds, reason: Reason) {
        self.reference = reference
        self.tokenDigest = tokenDigest
        self.since = since
        self.reason = reason
    }

    /// What a provider said of a device's token; nil for an address that a publisher keeps itself.
    package init?(_ verdict: TokenVerdict) {
        guard case .device(let reference) = verdict.place else { return nil }
        self.init(
            reference: reference,
            tokenDigest: verdict.tokenDigest,
            since: verdict.asOf,
            reason: verdict.reason,
        )
    }

    /// Whether Apple takes the token in its other environment.
    package var isOfOtherEnvironment: Bool { self.reason == .wrongEnvironment }

    /// As it stands in Redis.
    package var text: String {
        let place = "\(self.reference.partition):\(self.reference.ordinal):\(self.reference.generation)"
        return "\(place):\(String(self.tokenDigest, radix: 16)):\(self.since):\(self.reason.rawValue)"
    }

    /// Reads what `text` wrote; nil for anything else.
    package init?(text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 6, let partition = UInt32(parts[0]), let ordinal = UInt32(parts[1]),
            let generation = UInt32(parts[2]), let tokenDigest = UInt64(parts[3], radix: 16),
            let since = Int64(parts[4]), let reason = UInt8(parts[5]).flatMap({ Reason(rawValue: $0) })
        else { return nil }
        self.init(
            reference: DeviceReference(partition: partition, ordinal: ordinal, generation: generation),
            tokenDigest: tokenDigest,
            since: UnixMilliseconds(since),
            reason: reason,
        )
    }
}

/// When the suspects of a route are so many that the mistake must be ours: in a burst, while a suspect waits, or within a day.
///
/// While suspects are more than ``percentMax`` of the day's answers nobody is deleted, however few they are.
package struct GuardRules: Hashable, Sendable {
    /// Milliseconds in which a burst stands out. The whole wait is looked at as well.
    package var windowMilliseconds: Int64
    /// Milliseconds that a suspect waits before it is deleted.
    package var delayMilliseconds: Int64
    /// Suspects in a window below which the guard does not stop the route.
    package var suspectsMin: Int
    /// Percent of the answers about tokens that suspects may be.
    package var percentMax: Int

    /// Rules.
    package init(windowMilliseconds: Int64, delayMilliseconds: Int64, suspectsMin: Int, percentMax: Int) {
        precondition(windowMilliseconds > 0 && delayMilliseconds > 0)
        precondition(suspectsMin > 0 && (0...100).contains(percentMax))
        self.windowMilliseconds = windowMilliseconds
        self.delayMilliseconds = delayMilliseconds
        self.suspectsMin = suspectsMin
        self.percentMax = percentMax
    }
}
