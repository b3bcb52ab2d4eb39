internal import ApusRedis

/// Decides when an entry whose handling failed begins again in the same process, as the same delivery. Pure.
///
/// Until Redis works again an entry begins again and again, because an outage says nothing against it. After a refusal for an unknown reason it
/// does so a few times, and is then left to its lease: its next delivery counts, and the last one buries it.
struct EntryRetry {
    /// The pause before the first try; each is twice as long as the last.
    static let pauseMin = Duration.milliseconds(100)
    /// The longest pause: within it an entry goes on once Redis works again.
    static let pauseMax = Duration.seconds(1)

    private var nextPause = Self.pauseMin
    private var refusals = 0

    /// Returns the pause before the entry begins again; nil when it does not.
    mutating func pause(after failure: Disposition, of entry: StreamEntry) -> Duration? {
        switch failure {
        case .retryNow, .retryLater: break
        case .giveBack:
            self.refusals += 1
            // A poison entry has its turn alone, and others wait for the end of it.
            guard self.refusals <= StreamLimits.refusalsPerDeliveryMax, !entry.isPoison else { return nil }
        case .bury, .stop: return nil
        }
        defer { self.nextPause = min(self.nextPause * 2, Self.pauseMax) }
        return self.nextPause
    }
}
