internal import ApusRedis

/// Decides when an entry whose handling failed begins again in the same process, as the same delivery. Pure.
///
/// It begins again when its own server has answered. So where an outage goes on, it concerns another server, which may be away for long: after a
/// few tries the entry leaves its place to others, and comes back after a lease. That delivery does not count. A refusal for an unknown reason may pass as well,
/// but after some tries the delivery counts, and the last one buries the entry.
struct EntryRetry {
    /// The pause before the first try; each is twice as long as the last.
    static let pauseMin = Duration.milliseconds(100)
    /// The longest pause: within it an entry goes on once its server works again.
    static let pauseMax = Duration.seconds(1)

    private var nextPause = Self.pauseMin
    private var tries = 0

    /// Returns the pause before the entry begins again; nil when it does not.
    mutating func pause(after failure: Disposition, of entry: StreamEntry) -> Duration? {
        let triesMax: Int
        switch failure {
        case .retryNow, .retryLater: triesMax = StreamLimits.outagesPerDeliveryMax
        // A poison entry has its turn alone, and others wait for the end of it.
        case .giveBack: triesMax = entry.isPoison ? 0 : StreamLimits.refusalsPerDeliveryMax
        case .bury, .stop: triesMax = 0
        }
        guard self.tries < triesMax else { return nil }
        self.tries += 1
        defer { self.nextPause = min(self.nextPause * 2, Self.pauseMax) }
        return self.nextPause
    }
}
