package import Logging
package import NIOCore
internal import Synchronization

/// Keeps the address of a master as its Sentinels name it, and confirms it before each connection.
///
/// It begins with the first look-up, and has one connection of its own to each Sentinel. A change of the master counts as a
/// failover, even a planned one: the new master may lack the last writes.
package final class SentinelTopology: RedisTopology {
    /// The pause between two looks of a caller that waits for the master.
    private static let lookPause = Duration.milliseconds(10)

    private struct State {
        var poll: SentinelPoll
        /// The connections that wait for a round; there is one attempt at a time for each connection of the process.
        var waiting: [(round: Int, promise: EventLoopPromise<RedisEndpoint>)] = []
        var timer: Scheduled<Void>?
        /// The replicas that the last list of servers left out.
        var failedServers: [RedisEndpoint] = []
        var isClosed = false
    }

    private let sentinel: RedisConfiguration.Sentinel
    private let sentinels: [RedisEndpoint]
    private let state: Mutex<State>
    private let client: RedisClient
    private let eventLoop: any EventLoop
    private let logger: Logger
    private let hasBegun = Atomic(false)

    /// Creates a topology that has asked nobody yet.
    ///
    /// - Throws: `tls` when the trusted certificates cannot be read.
    package init(
        _ configuration: RedisConfiguration,
        _ sentinel: RedisConfiguration.Sentinel,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
    ) throws(RedisError) {
        self.sentinel = sentinel
        self.sentinels = configuration.seeds
        let poll = SentinelPoll(sentinels: configuration.seeds, name: sentinel.masterName, now: .now())
        self.state = Mutex(State(poll: poll))
        self.eventLoop = eventLoopGroup.next()
        self.logger = logger
        var own = configuration
        own.deployment = .server
        own.username = sentinel.username
        own.password = sentinel.password
        self.client = try RedisClient(
            configuration: own,
            topology: SingleServerTopology(configuration.endpoint),
            eventLoopGroup: self.eventLoop,
            // An error of a round says which Sentinels are away.
            logger: Logger(label: "apus.redis.sentinel") { _ in SwiftLogNoOpLogHandler() },
        )
    }

    /// The time after which a command looks up again who the master is.
    package var connectionPatience: Duration? { .milliseconds(250) }

    /// The reason why the last round of questions named no master.
    package var lastError: RedisError? { self.state.withLock { $0.poll.error } }

    /// Returns the master; nil while it is unknown.
    package func endpoint(forSlot slot: Int) -> RedisEndpoint? {
        self.begin()
        return self.state.withLock { $0.poll.master }
    }

    /// Returns nil: a change is never known to be a planned one.
    package func holder(ofSlot slot: Int) -> SlotHolder? { nil }

    /// The number of times that another master was named than before.
    package var changes: Int { self.state.withLock { $0.poll.changes } }

    /// Returns false: there are no slots elsewhere.
    package func moved(slot: Int, to endpoint: RedisEndpoint, by source: RedisEndpoint) -> Bool { false }

    /// Takes a failure of a server.
    package func failed(_ endpoint: RedisEndpoint?) {
        self.change { $0.poll.failed(now: .now(), draw: Double.random(in: 0..<1)) }
    }

    /// True: an old master that comes back calls itself master for seconds.
    package var confirmsMasters: Bool { true }

    /// Asks the Sentinels, in a round that begins from now on.
    package func confirmMaster(_ endpoint: RedisEndpoint, on eventLoop: any EventLoop) -> EventLoopFuture<Void> {
        let promise = eventLoop.makePromise(of: RedisEndpoint.self)
        self.begin()
        let isClosed = self.change { state in
            if !state.isClosed { state.waiting.append((state.poll.request(now: .now()), promise)) }
            return state.isClosed
        }
        if isClosed { promise.fail(RedisError(.closed, "the client is closed")) }
        return promise.futureResult.flatMapThrowing { agreed in
            guard agreed == endpoint else {
                throw RedisError(.notConnected, "the Sentinels name \(agreed) as the master, not \(endpoint) any more")
            }
        }
    }

    /// Returns the master, once a majority of the Sentinels has named it.
    package func masters(within patience: Duration) async throws(RedisError) -> [RedisEndpoint] {
        self.begin()
        let deadline = ContinuousClock.now + max(patience, .seconds(2))
        while true {
            let (master, error, isClosed) = self.state.withLock { ($0.poll.master, $0.poll.error, $0.isClosed) }
            if let master { return [master] }
            // A wrong name or password does not pass by waiting.
            let isFinal = error.map { $0.code == .configuration || $0.isCredentials } ?? false
            guard !isFinal, !isClosed, ContinuousClock.now < deadline else {
                throw error ?? RedisError(.notConnected, "no Sentinel has answered yet")
            }
            do { try await Task.sleep(for: Self.lookPause) } catch {
                throw RedisError(.closed, "cancelled while waiting for the Sentinels")
            }
        }
    }

    /// Returns the master and the replicas of it that a Sentinel reaches.
    package func servers(within patience: Duration) async throws(RedisError) -> [RedisEndpoint] {
        let masters = try await self.masters(within: patience)
        for report in await self.reports() {
            guard let view = try? report.result.get() else { continue }
            self.state.withLock { $0.failedServers = view.failedReplicas.filter { !masters.contains($0) } }
            return masters + view.replicas.filter { !masters.contains($0) }
        }
        return masters
    }

    /// The replicas that the Sentinel which was asked for the last list of servers does not reach.
    package var failedServers: [RedisEndpoint] { self.state.withLock(\.failedServers) }

    /// Asks nothing more, and closes the connections.
    package func close() async {
        let waiting = self.state.withLock { state in
            state.isClosed = true
            state.timer?.cancel()
            defer { state.waiting = [] }
            return state.waiting
        }
        for (_, promise) in waiting { promise.fail(RedisError(.closed, "the client is closed")) }
        await self.client.close()
    }

    // MARK: Rounds

    private func begin() {
        guard !self.hasBegun.load(ordering: .relaxed), !self.hasBegun.exchange(true, ordering: .relaxed) else { return }
        self.pump()
    }

    @discardableResult
    private func change<Result: Sendable>(_ body: (inout sending State) -> sending Result) -> Result {
        let (result, before, after) = self.state.withLock { state in
            let before = state.poll.dueAt
            return (body(&state), before, state.poll.dueAt)
        }
        if after < before { self.pump() }
        return result
    }

    /// Asks what is due, and comes back when something is.
    private func pump() {
        self.eventLoop.execute {
            let draw = Double.random(in: 0..<1)
            let (outcome, round, questions) = self.state.withLock { state in
                state.isClosed ? (nil, 0, []) : state.poll.hitDeadline(now: .now(), draw: draw)
            }
            if let outcome { self.ended(outcome) }
            for sentinel in questions { self.ask(sentinel, in: round) }
            self.state.withLock { state in
                guard !state.isClosed else { return }
                state.timer?.cancel()
                state.timer = self.eventLoop.scheduleTask(deadline: state.poll.dueAt) { self.pump() }
            }
        }
    }

    private func ask(_ sentinel: RedisEndpoint, in round: Int) {
        let question = RedisCommand("SENTINEL", "GET-MASTER-ADDR-BY-NAME", .text(self.sentinel.masterName))
        self.client.send(question, to: sentinel, options: Self.once, eventLoop: self.eventLoop)
            .flatMapThrowing { try Self.vote($0) }
            .whenComplete { result in
                let vote: SentinelPoll.Vote
                switch result {
                case .success(let given): vote = given
                case .failure(let error): vote = .failed(Self.explained(RedisError(error)))
                }
                let (outcome, before) = self.state.withLock { state in
                    let (draw, before) = (Double.random(in: 0..<1), state.poll.master)
                    return (state.poll.voted(vote, by: sentinel, in: round, now: .now(), draw: draw), before)
                }
                guard let outcome else { return }
                if case .success(let master) = outcome.result, let before, master != before {
                    let metadata: Logger.Metadata = ["master": "\(master)", "before": "\(before)"]
                    self.logger.notice("the sentinels name another redis master", metadata: metadata)
                }
                self.ended(outcome)
                self.pump()
            }
    }

    /// Tells those who wait for a round.
    private func ended(_ outcome: SentinelPoll.Outcome) {
        let waiting = self.state.withLock { state in
            defer { state.waiting.removeAll { $0.round <= outcome.round } }
            return state.waiting.filter { $0.round <= outcome.round }
        }
        for (_, promise) in waiting { promise.completeWith(outcome.result.mapError { $0 }) }
    }

    private static var once: RedisClient.Options {
        RedisClient.Options(patience: .zero, timeout: Duration(SentinelPoll.answerMax))
    }

    /// Parses the answer to `SENTINEL GET-MASTER-ADDR-BY-NAME`: a host and a port, or nothing.
    private static func vote(_ reply: RESPReply) throws(RedisError) -> SentinelPoll.Vote {
        guard !reply.root.isNull else { return .unknownName }
        guard let host = reply.root.element(0)?.string, !host.isEmpty,
            let port = reply.root.element(1)?.string.flatMap({ Int($0) }), (1...65_535).contains(port)
        else { throw reply.unexpected("a host and a port") }
        return .master(.host(host, port: port))
    }

    private static func explained(_ error: RedisError) -> RedisError {
        guard error.code == .server, error.message.contains("unknown command") else { return error }
        return RedisError(.configuration, "it is no Sentinel but a Redis server: name the Sentinels, with their ports")
    }

    // MARK: Reports

    /// A Sentinel's view of the master.
    package struct Report: Sendable {
        /// The Sentinel.
        package var sentinel: RedisEndpoint
        /// Its view, or the reason why it gives none.
        package var result: Result<View, RedisError>
    }

    /// Holds all that a Sentinel knows of a master.
    package struct View: Hashable, Sendable {
        /// The master's address; nil when the Sentinel has no master of that name.
        package var master: RedisEndpoint?
        /// The replicas that the Sentinel reaches.
        package var replicas: [RedisEndpoint] = []
        /// The replicas that it does not reach.
        package var failedReplicas: [RedisEndpoint] = []
        /// The number of other Sentinels that it knows.
        package var otherSentinels = 0
        /// The number of Sentinels that must call the master down before a failover.
        package var quorum = 0
        /// The time in milliseconds without an answer after which it calls the master down.
        var downAfterMilliseconds = 0
        /// The names of all its masters, when it has none of that name.
        package var names: [String] = []
    }

    /// Asks every Sentinel what it knows.
    package func reports() async -> [Report] {
        await withTaskGroup(of: Report.self) { group in
            for sentinel in self.sentinels {
                group.addTask {
                    do throws(RedisError) {
                        return Report(sentinel: sentinel, result: .success(try await self.view(of: sentinel)))
                    } catch {
                        return Report(sentinel: sentinel, result: .failure(Self.explained(error)))
                    }
                }
            }
            var reports: [RedisEndpoint: Report] = [:]
            for await report in group { reports[report.sentinel] = report }
            return self.sentinels.compactMap { reports[$0] }
        }
    }

    private func view(of sentinel: RedisEndpoint) async throws(RedisError) -> View {
        let name = RedisArgument.text(self.sentinel.masterName)
        let masters = try await self.client.send(RedisCommand("SENTINEL", "MASTERS"), to: sentinel, options: Self.once)
        let all = masters.root.children.map(Self.fields)
        guard let known = all.first(where: { $0["name"] == self.sentinel.masterName }) else {
            return View(names: all.compactMap { $0["name"] }.sorted())
        }
        let replicas = try await self.client.send(
            RedisCommand("SENTINEL", "REPLICAS", name),
            to: sentinel,
            options: Self.once
        )
        var living: [RedisEndpoint] = []
        var failed: [RedisEndpoint] = []
        for fields in replicas.root.children.map(Self.fields) {
            guard let replica = Self.endpoint(fields) else { continue }
            let flags = fields["flags"]?.split(separator: ",") ?? []
            let isReached = !flags.contains { ["s_down", "o_down", "disconnected"].contains($0) }
            if isReached { living.append(replica) } else { failed.append(replica) }
        }
        return View(
            master: Self.endpoint(known),
            replicas: living.sorted { "\($0)" < "\($1)" },
            failedReplicas: failed.sorted { "\($0)" < "\($1)" },
            otherSentinels: known["num-other-sentinels"].flatMap { Int($0) } ?? 0,
            quorum: known["quorum"].flatMap { Int($0) } ?? 0,
            downAfterMilliseconds: known["down-after-milliseconds"].flatMap { Int($0) } ?? 0,
        )
    }

    private static func endpoint(_ fields: [String: String]) -> RedisEndpoint? {
        guard let host = fields["ip"], let port = fields["port"].flatMap({ Int($0) }) else { return nil }
        return .host(host, port: port)
    }

    /// Parses an array of names and values.
    private static func fields(_ node: RESPNode) -> [String: String] {
        var fields: [String: String] = [:]
        for index in stride(from: 0, to: node.count - 1, by: 2) {
            if let name = node[index].string { fields[name] = node[index + 1].string }
        }
        return fields
    }
}
