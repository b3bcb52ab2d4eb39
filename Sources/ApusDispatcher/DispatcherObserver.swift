internal import ApusCore
internal import ApusMetrics
internal import ApusStreams

/// Counts what happens to the streams of a shard.
struct DispatcherObserver: StreamObserver {
    let keys: StreamKeys
    let instruments: DispatcherInstruments

    func entriesRead(_ count: Int, stream: String) {
        self.instruments.shared.add(Int64(count), to: self.instruments.common.streams.entriesRead[self.label(stream)])
    }

    func entryClaimed(stream: String) {
        self.instruments.shared.add(to: self.instruments.common.streams.entriesClaimed[self.label(stream)])
    }

    func entriesVanished(_ count: Int, stream: String) {
        self.instruments.shared.add(Int64(count), to: self.instruments.metrics.entriesVanished)
    }

    func groupLost() {
        self.instruments.shared.add(to: self.instruments.metrics.groupsLost)
    }

    private func label(_ stream: String) -> GroupedStream {
        switch stream {
        case self.keys.mailbox(.express): GroupedStream(.inExpress)
        case self.keys.mailbox(.bulk): GroupedStream(.inBulk)
        case self.keys.plan: GroupedStream(.plan)
        default: GroupedStream(.work)
        }
    }
}
