package import ApusSimulator

/// Compares the planned load with the acceptances, send by send and device by device.
package struct LoadLedger: Sendable {
    /// One send of the load.
    package struct Send: Hashable, Sendable {
        /// The scheduled time in nanoseconds since 1970.
        package var due: Int64
        /// The positions of the audience's devices.
        package var audience: Range<Int>
        /// True when its latencies count.
        package var isMeasured: Bool

        /// Creates a send.
        package init(due: Int64, audience: Range<Int>, isMeasured: Bool) {
            self.due = due
            self.audience = audience
            self.isMeasured = isMeasured
        }
    }

    /// The number of planned notifications.
    package private(set) var planned = 0
    /// The number of those that a provider accepted.
    package private(set) var accepted = 0
    /// The number of acceptances beyond the first one of a device and send.
    package private(set) var repeated = 0
    /// The number of acceptances outside of the audience.
    package private(set) var strangers = 0
    /// The number of planned notifications of measured sends.
    package private(set) var measured = 0
    /// The latencies from the scheduled time to the acceptance, of measured sends.
    package private(set) var latency = LatencySummary()
    /// The first and the last acceptance of measured sends, in nanoseconds since 1970; nil without any.
    package private(set) var span: ClosedRange<Int64>?

    /// The number of planned notifications that were never accepted.
    package var lost: Int { self.planned - self.accepted }

    private let sends: [Send]
    private let positions: [TokenDigest: Int]
    /// A bit for each member of each send's audience.
    private var seen: [[UInt64]]

    /// Creates a ledger without acceptances.
    ///
    /// - Parameters:
    ///   - devices: the digests of their tokens, all different.
    package init(_ sends: [Send], devices: some Sequence<TokenDigest>) {
        self.sends = sends
        var positions: [TokenDigest: Int] = [:]
        for (position, digest) in devices.enumerated() { positions[digest] = position }
        self.positions = positions
        self.seen = sends.map { [UInt64](repeating: 0, count: ($0.audience.count + 63) / 64) }
        self.planned = sends.reduce(0) { $0 + $1.audience.count }
        self.measured = sends.reduce(0) { $0 + ($1.isMeasured ? $1.audience.count : 0) }
    }

    /// Records an acceptance.
    package mutating func note(_ index: Int, _ token: TokenDigest, at time: Int64) {
        let send = self.sends[index]
        guard let position = self.positions[token], send.audience.contains(position) else {
            self.strangers += 1
            return
        }
        let (word, bit) = (position - send.audience.lowerBound).quotientAndRemainder(dividingBy: 64)
        guard self.seen[index][word] & (1 << UInt64(bit)) == 0 else {
            self.repeated += 1
            return
        }
        self.seen[index][word] |= 1 << UInt64(bit)
        self.accepted += 1
        guard send.isMeasured else { return }
        self.latency.record(nanoseconds: time - send.due)
        self.span = min(self.span?.lowerBound ?? time, time)...max(self.span?.upperBound ?? time, time)
    }
}
