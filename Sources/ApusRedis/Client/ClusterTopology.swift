package import Logging
package import NIOCore
internal import Synchronization

/// Keeps the map of a Redis Cluster: asks its nodes when a question is due, and tells all clients of the process.
///
/// It begins with the first look-up, and has one connection of its own to each node that it asks.
package final class ClusterTopology: RedisTopology {
    /// The pause between two looks of a caller that waits for the map.
    private static let lookPause = Duration.milliseconds(10)

    private let map: Mutex<ClusterMap>
    private let breaker = Mutex(ServerCircuitBreaker())
    private let client: RedisClient
    private let eventLoop: any EventLoop
    private let logger: Logger
    private let error = Mutex<RedisError?>(nil)
    private let timer = Mutex<Scheduled<Void>?>(nil)
    private let hasBegun = Atomic(false)
    private let isClosed = Atomic(false)

    /// Creates a topology that has asked nobody yet.
    ///
    /// - Throws: `tls` when the trusted certificates cannot be read.
    package init(
        _ configuration: RedisConfiguration,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
    ) throws(RedisError) {
        self.map = Mutex(ClusterMap(seeds: configuration.seeds, now: .now()))
        self.eventLoop = eventLoopGroup.next()
        self.logger = logger
        self.client = try RedisClient(
            configuration: configuration,
            topology: SingleServerTopology(configuration.endpoint),
            eventLoopGroup: self.eventLoop,
            // The clients that use the map say which servers are away.
            logger: Logger(label: "apus.redis.cluster") { _ in SwiftLogNoOpLogHandler() },
        )
    }

    /// The time after which a command looks up again who has its slot.
    package var connectionPatience: Duration? { .milliseconds(250) }

    /// The error of the last question, if it had no answer.
    package var lastError: RedisError? { self.error.withLock { $0 } }

    /// Returns the server of a slot; nil while it is unknown.
    package func endpoint(forSlot slot: Int) -> RedisEndpoint? {
        self.begin()
        return self.map.withLock { $0.endpoint(forSlot: slot) }
    }

    /// Returns who holds a slot.
    package func holder(ofSlot slot: Int) -> SlotHolder? { self.map.withLock { $0.holder(ofSlot: slot) } }

    /// The number of slots that have got another server since the map was made.
    package var changes: Int { self.map.withLock { $0.changes } }

    /// Takes a `MOVED`.
    package func moved(slot: Int, to endpoint: RedisEndpoint, by source: RedisEndpoint) -> Bool {
        self.change { $0.moved(slot: slot, to: endpoint, by: source, now: .now(), draw: Double.random(in: 0..<1)) }
    }

    /// Takes a failure of a server.
    package func failed(_ endpoint: RedisEndpoint?) {
        self.change { $0.failed(endpoint, now: .now(), draw: Double.random(in: 0..<1)) }
    }

    /// Returns the masters that hold slots, once every slot has one.
    package func masters(within patience: Duration) async throws(RedisError) -> [RedisEndpoint] {
        try await self.complete(within: patience)
        return self.map.withLock { $0.masters }
    }

    /// Returns the masters that hold slots, once every slot has one, or some have had none for the given time: nobody has got the slots of
    /// a node that was reset or forgotten, and the cluster may serve the others (`cluster-require-full-coverage no`).
    package func knownMasters(within patience: Duration) async throws(RedisError) -> [RedisEndpoint] {
        try await self.complete(within: patience, orMost: true)
        return self.map.withLock { $0.masters }
    }

    /// Returns all servers, once every slot has a master.
    package func servers(within patience: Duration) async throws(RedisError) -> [RedisEndpoint] {
        try await self.complete(within: patience)
        return self.map.withLock { $0.servers }
    }

    /// Takes that a client has made a connection to a server, or could not.
    package func connectionAttempted(to endpoint: RedisEndpoint, isMade: Bool) {
        self.breaker.withLock { breaker in
            if isMade { breaker.reached(endpoint) } else { breaker.failed(endpoint, now: .now()) }
        }
    }

    /// Returns true when no client of the process has made a connection to a server for long.
    package func isLost(_ endpoint: RedisEndpoint) -> Bool {
        self.breaker.withLock { $0.hasFailures && $0.isOpen(endpoint, now: .now()) }
    }

    /// Returns true when a command for a server may be tried.
    package func admitsCommand(for endpoint: RedisEndpoint) -> Bool {
        self.breaker.withLock { $0.admits(endpoint, now: .now()) }
    }

    /// Returns true when a server holds slots.
    package func holdsSlots(_ endpoint: RedisEndpoint) -> Bool { self.map.withLock { $0.holders.contains(endpoint) } }

    /// The servers that are marked as failed and hold no slot.
    package var failedServers: [RedisEndpoint] { self.map.withLock { $0.failedServers } }

    /// Asks nothing more, and closes the connections.
    package func close() async {
        self.isClosed.store(true, ordering: .relaxed)
        self.timer.withLock { $0?.cancel() }
        await self.client.close()
    }

    /// The least time for which a caller waits until every slot has a server.
    private static let completePatienceMin = Duration.seconds(2)

    /// Waits until every slot has a server.
    ///
    /// - Parameter orMost: true to wait no longer when some slots have had no server for that time.
    private func complete(within patience: Duration, orMost: Bool = false) async throws(RedisError) {
        self.begin()
        let patience = max(patience, Self.completePatienceMin)
        let deadline = ContinuousClock.now + patience
        while !self.map.withLock({ $0.isComplete }) {
            let isSettled = self.map.withLock { $0.isIncomplete(for: TimeAmount(patience), now: .now()) }
            if orMost, isSettled { return }
            guard ContinuousClock.now < deadline, !self.isClosed.load(ordering: .relaxed) else {
                if orMost, self.map.withLock({ $0.isIncomplete(for: .zero, now: .now()) }) { return }
                throw self.lastError ?? RedisError(.clusterDown, "not every slot of the cluster has a server")
            }
            do { try await Task.sleep(for: Self.lookPause) } catch {
                throw RedisError(.closed, "cancelled while waiting for the map of the cluster")
            }
        }
    }

    // MARK: Questions

    private func begin() {
        guard !self.hasBegun.load(ordering: .relaxed), !self.hasBegun.exchange(true, ordering: .relaxed) else { return }
        self.pump()
    }

    @discardableResult
    private func change<Result: Sendable>(_ body: (inout sending ClusterMap) -> sending Result) -> Result {
        let (result, before, after) = self.map.withLock { map in
            let before = map.dueAt
            return (body(&map), before, map.dueAt)
        }
        if after < before { self.pump() }
        return result
    }

    /// Asks what is due, and comes back when the next question is.
    private func pump() {
        self.eventLoop.execute {
            guard !self.isClosed.load(ordering: .relaxed) else { return }
            let (questions, due) = self.map.withLock { map in
                (map.takeQuestions(now: .now(), draw: Double.random(in: 0..<1)), map.dueAt)
            }
            for endpoint in questions { self.ask(endpoint) }
            self.timer.withLock { timer in
                timer?.cancel()
                timer = self.eventLoop.scheduleTask(deadline: due) { self.pump() }
            }
        }
    }

    private func ask(_ endpoint: RedisEndpoint) {
        let options = RedisClient.Options(patience: .zero, timeout: Duration(ClusterMap.answerMax))
        self.client.send(RedisCommand("CLUSTER", "NODES"), to: endpoint, options: options, eventLoop: self.eventLoop)
            .flatMapThrowing { try ClusterNodes($0.root.text(), from: endpoint) }
            .whenComplete { result in
                let draw = Double.random(in: 0..<1)
                switch result {
                case .success(let answer):
                    self.error.withLock { $0 = nil }
                    let changes = self.map.withLock { map in
                        let before = map.changes
                        map.answered(answer, by: endpoint, now: .now(), draw: draw)
                        return map.changes - before
                    }
                    if changes > 0 {
                        let metadata: Logger.Metadata = ["slots": "\(changes)", "told_by": "\(endpoint)"]
                        self.logger.notice("slots of the redis cluster have other servers", metadata: metadata)
                    }
                case .failure(let error):
                    self.error.withLock { $0 = Self.explained(RedisError(error), endpoint) }
                    self.map.withLock { $0.unanswered(by: endpoint, now: .now(), draw: draw) }
                }
                self.pump()
            }
    }

    private static func explained(_ error: RedisError, _ endpoint: RedisEndpoint) -> RedisError {
        guard error.code == .server, error.message.contains("cluster support disabled") else { return error }
        let cure = "address it with redis:// or rediss:// instead of redis+cluster:// or rediss+cluster://"
        return RedisError(.configuration, "\(endpoint) is no node of a Redis Cluster: \(cure)")
    }
}
