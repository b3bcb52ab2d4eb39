internal import ApusStreams
internal import Synchronization

/// Keeps the order of the commands in a register stream that several processes read: neighbouring entries go to different ones.
///
/// A process handles one entry of the stream at a time. What else it owns it has given up, and that comes back after a lease, so it is not waited
/// for. What another process does not end in time is waited for once: commands of servers that are there do not stand behind each one that needs
/// a server which is away.
final class CommandOrder: Sendable {
    /// The maximum time that a command waits for those before it.
    static let waitMax = Duration.seconds(1)
    /// The pause before the second look at them; each is twice as long as the last, up to the longest.
    private static let pauseMin = Duration.milliseconds(1)
    private static let pauseMax = Duration.milliseconds(16)

    private let entries: Entries
    private let consumer: StreamConsumer
    private let waitMax: Duration
    /// The id of the last new entry that has waited: those before it are not waited for any more.
    private let last = Mutex("-")

    /// Creates the order of one stream's commands for a consumer.
    init(_ entries: Entries, _ consumer: StreamConsumer, waitMax: Duration = CommandOrder.waitMax) {
        self.entries = entries
        self.consumer = consumer
        self.waitMax = waitMax
    }

    /// Waits until no other process has an entry in hand that comes before this one, or the time is over.
    func waitForEarlier(than entry: StreamEntry) async throws {
        let first = self.last.withLock { $0 }
        let end = ContinuousClock.now + self.waitMax
        var pause = Self.pauseMin
        while try await self.entries.areOthersPending(from: first, before: entry, besides: self.consumer),
            ContinuousClock.now < end
        {
            try await Task.sleep(for: pause)
            pause = min(pause * 2, Self.pauseMax)
        }
        // Behind an entry that comes back stand all those that were waited for already.
        if entry.deliveries == 1 { self.last.withLock { $0 = entry.id } }
    }
}
