internal import ApusRedis

/// The calls that wrote something of late, oldest first; bounded by age and by bytes. Pure.
struct ReplayMemory {
    /// A call that was answered.
    struct Call {
        var command: RedisCommand
        /// The entry that it is about, which must be ours first; nil: it needs none.
        var entry: EntryName?
        /// Whether it appends entries, that calls after it may be about.
        var appends = false
        var at: ContinuousClock.Instant

        var byteCount: Int { self.command.byteCount + StreamLimits.replayCallOverheadBytes }
    }

    /// What it holds to at the next change.
    var bytesMax: Int
    private let age: Duration
    private var kept: [Call] = []
    /// Those before it are forgotten; the array is cut when they are the most of it.
    private var first = 0
    private(set) var byteCount = 0

    init(bytesMax: Int, age: Duration = StreamLimits.replayAge) {
        precondition(bytesMax >= 0 && age > .zero)
        self.bytesMax = bytesMax
        self.age = age
    }

    /// Oldest first.
    var calls: ArraySlice<Call> { self.kept[self.first...] }

    /// Keeps a call; how many were forgotten before their time, for want of room.
    mutating func keep(_ call: Call) -> Int {
        self.kept.append(call)
        self.byteCount += call.byteCount
        return self.forget(call.at)
    }

    /// Forgets what is too old; how much was forgotten before its time, because there is less room than before.
    @discardableResult
    mutating func expire(_ now: ContinuousClock.Instant) -> Int { self.forget(now) }

    private mutating func forget(_ now: ContinuousClock.Instant) -> Int {
        var dropped = 0
        while self.first < self.kept.count {
            let oldest = self.kept[self.first]
            let isOld = now - oldest.at > self.age
            guard isOld || self.byteCount > self.bytesMax else { break }
            self.byteCount -= oldest.byteCount
            self.first += 1
            dropped += isOld ? 0 : 1
        }
        if self.first * 2 > self.kept.count {
            self.kept.removeFirst(self.first)
            self.first = 0
        }
        return dropped
    }
}
