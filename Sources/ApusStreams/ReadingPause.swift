internal import ApusRedis

/// Delays the reads of a shard whose server was replaced, until other processes had time to write there again what it has forgotten, or
/// until it is proven that it has forgotten nothing.
struct ReadingPause: Sendable {
    /// A server as it was when it got the shard.
    struct Server: Hashable, Sendable {
        /// Its address.
        var endpoint: RedisEndpoint
        /// Its state, as a master.
        var state: ReplicationState
    }

    /// The first pause between two questions whether nothing is forgotten; each of the next is twice as long, up to the last.
    static let questionPauseMin = Duration.milliseconds(25)
    /// See `questionPauseMin`.
    static let questionPauseMax = Duration.milliseconds(400)

    /// The end of the pause.
    let until: ContinuousClock.Instant
    /// The replaced server and the one in its place; nil when nothing can be proven.
    private let takeover: (former: Server, successor: Server)?
    /// The end of an earlier pause, which a proof of this takeover says nothing about; nil for none.
    private let earlier: ContinuousClock.Instant?

    /// Creates a pause.
    ///
    /// - Parameters:
    ///   - former: the replaced server; nil where it is not known.
    ///   - successor: the one in its place; nil where it is not known.
    ///   - earlier: the pause that had not ended by then.
    init(until: ContinuousClock.Instant, former: Server?, successor: Server?, earlier: ReadingPause?) {
        self.until = until
        self.earlier = earlier?.until
        // A server that answers at the same address has been restarted, and shows nothing of what went before.
        if let former, let successor, former.endpoint != successor.endpoint {
            self.takeover = (former, successor)
        } else {
            self.takeover = nil
        }
    }

    /// Waits until reads may go on.
    func wait(_ client: RedisClient) async {
        var pause = Self.questionPauseMin
        while let takeover, ContinuousClock.now < self.until {
            if await Self.isProven(takeover, client) {
                if let earlier { try? await Task.sleep(until: earlier, clock: .continuous) }
                return
            }
            let next = min(self.until, .now + pause)
            guard (try? await Task.sleep(until: next, clock: .continuous)) != nil else { return }
            pause = min(Self.questionPauseMax, pause * 2)
        }
        try? await Task.sleep(until: self.until, clock: .continuous)
    }

    /// Asks both servers whether everything that the former one has answered is with its successor.
    private static func isProven(_ takeover: (former: Server, successor: Server), _ client: RedisClient) async -> Bool {
        let (former, successor) = takeover
        guard let later = await client.replicationState(of: former.endpoint), !later.isMaster,
            let now = await client.replicationState(of: successor.endpoint), now.identity == successor.state.identity
        else { return false }
        return former.state.isContinued(as: later, by: now)
    }
}
