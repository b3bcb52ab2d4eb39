import ApusMessages
import ApusRedis
import ApusStreams
import Synchronization

/// Counts what consumers tell.
final class RecordingObserver: StreamObserver {
    struct Counts: Sendable {
        var read = 0
        var claimed = 0
        var vanished = 0
        var groupsLost = 0
        var replayed = 0
        var dropped = 0
        var unanswered = 0
    }

    private let state = Mutex(Counts())

    var counts: Counts { self.state.withLock { $0 } }

    func entriesRead(_ count: Int, stream: String) { self.state.withLock { $0.read += count } }
    func entryClaimed(stream: String) { self.state.withLock { $0.claimed += 1 } }
    func entriesAcknowledged(_ count: Int, stream: String) {}
    func deadLetterWritten(_ cause: DeadLetter.Cause, stream: String) {}
    func entriesVanished(_ count: Int, stream: String) { self.state.withLock { $0.vanished += count } }
    func groupLost() { self.state.withLock { $0.groupsLost += 1 } }
    func readsUnanswered(_ streams: Int, shard: HashTag) { self.state.withLock { $0.unanswered = streams } }
    func callsReplayed(_ count: Int) { self.state.withLock { $0.replayed += count } }
    func replayCallsDropped(_ count: Int) { self.state.withLock { $0.dropped += count } }
}
