package import ApusMessages
package import ApusMetrics
package import ApusRedis
internal import ApusStreams
internal import Synchronization

/// Counts the events of a service's stream consumers.
package final class StreamCounts: StreamObserver {
    private let metrics: StreamMetrics
    private let shared: SharedMetrics
    private let vanished: Counter
    private let groupsLost: Counter
    private let replay: (repeated: Counter, dropped: Counter)?
    /// The number of streams by shard that are not read although there is room for their entries.
    private let unanswered = Mutex<[HashTag: Int]>([:])

    /// Creates an observer that counts in the given cells.
    ///
    /// - Parameters:
    ///   - metrics: the families that every service has.
    ///   - shared: the cells that count.
    ///   - vanished: the service's counter of entries that vanished before they were acknowledged.
    ///   - groupsLost: the service's counter of streams or groups that were recreated.
    ///   - replay: the service's counters of calls repeated after a failover, and of those that could not be kept for
    ///     it; nil when it has none.
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

    /// Counts entries that were read.
    package func entriesRead(_ count: Int, stream: String) {
        self.shared.add(Int64(count), to: self.metrics.entriesRead[Self.label(stream)])
    }

    /// Counts an entry that was claimed.
    package func entryClaimed(stream: String) {
        self.shared.add(to: self.metrics.entriesClaimed[Self.label(stream)])
    }

    /// Counts acknowledged entries.
    package func entriesAcknowledged(_ count: Int, stream: String) {
        self.shared.add(Int64(count), to: self.metrics.entriesAcknowledged[Self.label(stream)])
    }

    /// Counts a dead letter by its cause; one that could not be decoded also as malformed.
    package func deadLetterWritten(_ cause: DeadLetter.Cause, stream: String) {
        let label = StreamLabel(streamKey: stream)
        self.shared.add(to: self.metrics.deadLetters[label, DeadLetterLabel(cause)])
        if cause == .malformed { self.shared.add(to: self.metrics.entriesMalformed[label]) }
    }

    /// Counts entries that vanished.
    package func entriesVanished(_ count: Int, stream: String) {
        self.shared.add(Int64(count), to: self.vanished)
    }

    /// Counts a lost group.
    package func groupLost() { self.shared.add(to: self.groupsLost) }

    /// Records the number of unread streams of a shard, and sets the gauge to that of all shards; see ``unansweredReads``.
    package func readsUnanswered(_ streams: Int, shard: HashTag) {
        self.unanswered.withLock { unanswered in
            unanswered[shard] = streams == 0 ? nil : streams
            self.shared.set(self.metrics.readsStalled, to: Int64(unanswered.values.reduce(0, +)))
        }
    }

    /// The shards with streams that ``unansweredReads`` is about.
    package var shardsWithUnansweredReads: [HashTag] { self.unanswered.withLock { Array($0.keys) } }

    /// A sentence about streams that are not read although there is room for their entries; nil when there are none.
    package var unansweredReads: String? {
        let unanswered = self.unanswered.withLock { $0 }
        let streams = unanswered.values.reduce(0, +)
        guard streams > 0 else { return nil }
        let seconds = StreamLimits.readSilenceMax.components.seconds
        return "\(streams) streams of \(unanswered.count) shards were not read for \(seconds) s or longer"
    }

    /// Counts calls that were repeated after a failover.
    package func callsReplayed(_ count: Int) {
        if let replay { self.shared.add(Int64(count), to: replay.repeated) }
    }

    /// Counts calls that could not be kept for repetition.
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
