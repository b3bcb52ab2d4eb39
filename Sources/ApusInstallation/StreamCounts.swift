package import ApusMessages
package import ApusMetrics
internal import ApusStreams

/// Counts what a service's consumers do with its streams.
package struct StreamCounts: StreamObserver {
    private let metrics: StreamMetrics
    private let shared: SharedMetrics
    private let vanished: Counter
    private let groupsLost: Counter
    private let replay: (repeated: Counter, dropped: Counter)?

    /// Counts in those cells.
    ///
    /// - Parameters:
    ///   - metrics: the families that every service has.
    ///   - shared: where all of it is counted.
    ///   - vanished: the service's counter of entries that vanished before they were acknowledged.
    ///   - groupsLost: the service's counter of streams or groups made again.
    ///   - replay: the service's counters of calls repeated after a failover, and of those it could not keep for that; nil: it keeps none.
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
