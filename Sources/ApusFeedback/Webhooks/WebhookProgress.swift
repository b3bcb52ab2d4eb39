internal import ApusCore
internal import ApusMetrics
internal import Synchronization

/// Records what the webhook takes of all shards of a process, and since when it does not take what a shard has in hand.
final class WebhookProgress: Sendable {
    private struct State {
        var takenCount = 0
        var failingSince: [Int: UnixMilliseconds] = [:]
    }

    private let metrics: FeedbackMetrics
    private let shared: SharedMetrics
    private let state = Mutex(State())

    init(_ metrics: FeedbackMetrics, shared: SharedMetrics) {
        self.metrics = metrics
        self.shared = shared
    }

    /// The number of requests that the receiver has accepted.
    var takenCount: Int { self.state.withLock { $0.takenCount } }

    /// Records that the receiver has accepted a request.
    func recordTaken() { self.state.withLock { $0.takenCount += 1 } }

    /// Returns whether receipts of another shard wait for another try.
    func isFailing(besides shard: Int) -> Bool { self.state.withLock { $0.failingSince.keys.contains { $0 != shard } } }

    /// Records since when the receiver has not taken receipts of a shard that were posted, and sets the gauge to the earliest of all shards.
    ///
    /// - Parameter time: the time of the first try; nil when none waits for another.
    func setFailing(since time: UnixMilliseconds?, shard: Int) {
        self.state.withLock { state in
            state.failingSince[shard] = time
            self.shared.set(self.metrics.webhookFailingSince, to: state.failingSince.values.min()?.value ?? 0)
        }
    }
}
