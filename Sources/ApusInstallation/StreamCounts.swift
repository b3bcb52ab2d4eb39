package import ApusMessages
package import ApusMetrics
package import ApusRedis
internal import ApusStreams
internal import Synchronization

/// Counts what a service's consumers do with its streams.
package final class StreamCounts: StreamObserver {
    private let metrics: StreamMetrics
    private let shared: SharedMetrics
    private let vanished: Counter
    private let groupsLost: Counter
    private let replay: (repeated: Counter, dropped: Counter)?
    /// By shard, how many streams are not read although there is room for what they hold.
    private let unanswered = Mutex<[HashTag: Int]>([:])

    /// Counts in those cells.
    ///
    /// - Parameters:
    ///   - metrics: the families that every service has.
    ///   - shared: where all of it is counted.
    ///   - vanished: the service's counter of entries that vanished before they were acknowledged.
    ///   - groupsLost: the service's counter of streams or groups made again.
    ///   - replay: the service's counters of calls repeated after a failover, and of those it could not keep for that; nil when it keeps none.
    package init(
        _ metrics: StreamMetrics,
        shared: SharedMetrics,
        vanished: Counter,
        groupsLost: Counter,
        replay: (repeated: Counter, dropped: Counter)? = nil,
    ) {
        self.replay = replay
        self.metrics = metrics
        self.shared = shared
        self.vanished = vanished
        self.groupsLost = groupsLost
    }

    /// Counts them.
    package func entriesRead(_ count: Int, stream: String) {
        self.shared.add(Int64(count), to: self.metrics.entriesRead[Self.label(stream)])
    }

    /// Counts it.
    package func entryClaimed(stream: String) {
        self.shared.add(to: self.metrics.entriesClaimed[Self.label(stream)])
    }

    /// Counts them.
    package func entriesAcknowledged(_ count: Int, stream: String) {
        self.shared.add(Int64(count), to: self.metrics.entriesAcknowledged[Self.label(stream)])
    }

    /// Counts it by its cause; one that could not be decoded also as malformed.
    package func deadLetterWritten(_ cause: DeadLetter.Cause, stream: String) {
        let label = StreamLabel(streamKey: stream)
        self.shared.add(to: self.metrics.deadLetters[label, DeadLetterLabel(cause)])
        if cause == .malformed { self.shared.add(to: self.metrics.entriesMalformed[label]) }
    }

    /// Counts them.
    package func entriesVanished(_ count: Int, stream: String) {
        self.shared.add(Int64(count), to: self.vanished)
    }

    /// Counts it.
    package func groupLost() { self.shared.add(to: self.groupsLost) }

    /// Keeps how many there are, and sets the gauge to those of all shards; see ``unansweredReads``.
    package func readsUnanswered(_ streams: Int, shard: HashTag) {
        self.unanswered.withLock { unanswered in
            unanswered[shard] = streams == 0 ? nil : streams
            self.shared.set(self.metrics.readsStalled, to: Int64(unanswered.values.reduce(0, +)))
        }
    }

    /// The number of streams that are not read although there is room for what they hold, in words; nil for none.
    package var unansweredReads: String? {
        let unanswered = self.unanswered.withLock { $0 }
        let streams = unanswered.values.reduce(0, +)
        guard streams > 0 else { return nil }
        let seconds = StreamLimits.readSilenceMax.components.seconds
        return "\(streams) streams of \(unanswered.count) shards were not read for \(seconds) s or longer"
    }

    /// Counts them.
    package func callsReplayed(_ count: Int) {
        if let replay { self.shared.add(Int64(count), to: replay.repeated) }
    }

    /// Counts them.
    package func replayCallsDropped(_ count: Int) {
        if let replay { self.shared.add(Int64(count), to: replay.dropped) }
    }

    private static func label(_ stream: String) -> GroupedStream { GroupedStream(StreamLabel(streamKey: stream)) }
}

extension DeadLetterLabel {
    init(_ cause: DeadLetter.Cause) {
        self =
            switch cause {
            case .malformed: .malformed
            case .invalid: .invalid
            case .poison: .poison
            case .conflict: .conflict
            }
    }
}
