package import ApusRedis
internal import NIOCore

/// Publishes over a connection of its own and checks on it how safe the publications are: `WAIT` concerns the writes of
/// its own connection and blocks everything behind it. Publications that arrive during a check share the next one.
package actor AcknowledgedWriter {
    /// The maximum number of waiting publications; more are refused.
    package static let waitingMax = 10_000
    /// The maximum number of publications that share one check.
    static let batchMax = 512
    /// The time for which knowledge about replicas is used.
    package static let replicaNewsLifetime = Duration.seconds(5)
    /// The time for which a replica is demanded after one was last seen. It outlasts a failover and the repair of a machine; who has
    /// removed the replicas for good gets publications without proof for so long.
    package static let replicaDemandMax = Duration.seconds(3_600)

    /// The result of a publication.
    package struct Answer: Sendable {
        /// The reply to the call.
        package var reply: RESPReply
        /// True when the requested safety is proven.
        package var isAcknowledged: Bool
    }

    private struct Waiting {
        let tag: HashTag
        let command: RedisCommand
        let level: Acknowledgement
        let continuation: CheckedContinuation<Answer, any Error>
    }

    /// The state of one server.
    private struct Server {
        var waiting: [Waiting] = []
        var isBusy = false
        var replicaNews: (hasReplica: Bool, at: ContinuousClock.Instant)?
        /// The known answer whether the connection's server has `WAITAOF`.
        var diskWait: (isKnown: Bool, connection: ObjectIdentifier)?
    }

    private let client: RedisClient
    private let eventLoop: any EventLoop
    /// The longest time that a replica or the disk may take.
    private let patience: Duration
    private let waitingMax: Int
    private let replicaNewsLifetime: Duration
    private let replicaDemandMax: Duration
    /// The time at which a replica was last seen for a slot; there are as many as queue shards.
    private var replicaSeen: [Int: ContinuousClock.Instant] = [:]
    private var servers: [RedisEndpoint: Server] = [:]

    /// - Parameters:
    ///   - client: a client that nothing else uses.
    ///   - replicaNewsLifetime: the time for which knowledge about replicas is used.
    ///   - replicaDemandMax: the time for which a replica is demanded after one was last seen.
    package init(
        _ client: RedisClient,
        patience: Duration,
        waitingMax: Int = waitingMax,
        replicaNewsLifetime: Duration = replicaNewsLifetime,
        replicaDemandMax: Duration = replicaDemandMax,
    ) {
        self.replicaNewsLifetime = replicaNewsLifetime
        self.replicaDemandMax = replicaDemandMax
        self.client = client
        self.eventLoop = client.eventLoopGroup.any()
        self.patience = patience
        self.waitingMax = waitingMax
    }

    /// Closes its connections.
    package func close() async { await self.client.close() }

    /// Returns the level that is used when the caller names none: a replica if the server of the tag has one, or had one within
    /// ``replicaDemandMax``. A master that has just taken over has none: what it alone has may be lost with it, which its publisher
    /// must be able to see.
    ///
    /// It is memory also where the user lacks the permission for `INFO`.
    package func defaultLevel(_ tag: HashTag, within patience: Duration) async throws -> Acknowledgement {
        let (now, endpoint) = (ContinuousClock.now, try self.endpoint(of: tag))
        if let news = self.servers[endpoint]?.replicaNews, now - news.at < self.replicaNewsLifetime {
            return self.level(tag, hasReplica: news.hasReplica, now)
        }
        var hasReplica = false
        do throws(RedisError) {
            let options = RedisClient.Options(isIdempotent: true, patience: patience)
            let reply = try await self.client.send(RedisCommand("INFO", "replication"), on: tag, options: options)
            hasReplica = AcknowledgementProof.hasReplica(reply)
        } catch {
            guard error.code == .noPermission else { throw error }
        }
        self.servers[endpoint, default: Server()].replicaNews = (hasReplica, now)
        return self.level(tag, hasReplica: hasReplica, now)
    }

    /// Returns true when the server of a tag has a replica, or does not say.
    package func hasReplica(_ tag: HashTag) async -> Bool {
        let reply = try? await self.client.send(RedisCommand("INFO", "replication"), on: tag, options: .idempotent)
        return reply.map(AcknowledgementProof.hasReplica) ?? true
    }

    private func level(_ tag: HashTag, hasReplica: Bool, _ now: ContinuousClock.Instant) -> Acknowledgement {
        if hasReplica {
            self.replicaSeen[tag.slot] = now
            return .replica
        }
        guard let seen = self.replicaSeen[tag.slot], now - seen < self.replicaDemandMax else { return .memory }
        return .replica
    }

    /// Publishes once, on the server of a tag.
    ///
    /// - Throws: `RedisError`; `full` when too many wait. The code says whether the command was executed.
    package func publish(_ command: RedisCommand, on tag: HashTag, _ level: Acknowledgement) async throws -> Answer {
        let endpoint = try self.endpoint(of: tag)
        guard self.servers[endpoint, default: Server()].waiting.count < self.waitingMax else {
            throw RedisError(.full, "\(self.waitingMax) publications wait for their acknowledgement")
        }
        return try await withCheckedThrowingContinuation { continuation in
            self.append(Waiting(tag: tag, command: command, level: level, continuation: continuation), endpoint)
        }
    }

    private func append(_ waiting: Waiting, _ endpoint: RedisEndpoint) {
        self.servers[endpoint, default: Server()].waiting.append(waiting)
        guard self.servers[endpoint]?.isBusy == false else { return }
        self.servers[endpoint]?.isBusy = true
        Task { await self.drain(endpoint) }
    }

    /// Returns the server of a tag, by which publications are gathered: `WAIT` speaks of one server.
    private func endpoint(of tag: HashTag) throws(RedisError) -> RedisEndpoint {
        guard let endpoint = self.client.topology.endpoint(forSlot: tag.slot) else {
            throw self.client.topology.unknownServer(ofSlot: tag.slot)
        }
        return endpoint
    }

    /// Tells the topology of replies after which the slots may be elsewhere.
    private func note(_ replies: [Result<RESPReply, any Error>], _ endpoint: RedisEndpoint) {
        let topology = self.client.topology
        for case .failure(let error as RedisError) in replies {
            if let redirection = RedisRedirection(error, by: endpoint) {
                _ = topology.moved(slot: redirection.slot, to: redirection.endpoint, by: endpoint)
            } else if error.suggestsAnotherServer {
                topology.failed(endpoint)
            }
        }
    }

    private func drain(_ endpoint: RedisEndpoint) async {
        while let batch = self.takeBatch(endpoint), let first = batch.first {
            do {
                let answers = try await self.publish(batch.map(\.command), first.level, endpoint, first.tag)
                for (waiting, answer) in zip(batch, answers) { waiting.continuation.resume(with: answer) }
            } catch {
                for waiting in batch { waiting.continuation.resume(throwing: error) }
            }
        }
        self.servers[endpoint]?.isBusy = false
    }

    /// Divides what waits for a server into what stays there and what has another one by now, asking once for each: others may learn of a move
    /// meanwhile, and nothing may then be in neither part, or in both. It is pure.
    ///
    /// - Parameter server: returns the server of an element; nil when it is not known, and the element stays.
    package static func divide<Element>(
        _ elements: [Element],
        at endpoint: RedisEndpoint,
        by server: (Element) -> RedisEndpoint?,
    ) -> (staying: [Element], moved: [(Element, RedisEndpoint)]) {
        var (staying, moved): ([Element], [(Element, RedisEndpoint)]) = ([], [])
        for element in elements {
            let target = server(element) ?? endpoint
            if target == endpoint { staying.append(element) } else { moved.append((element, target)) }
        }
        return (staying, moved)
    }

    /// Returns the next publications that request the same level. Those whose slot has moved meanwhile wait for their new server.
    private func takeBatch(_ endpoint: RedisEndpoint) -> [Waiting]? {
        let topology = self.client.topology
        let (staying, moved) = Self.divide(self.servers[endpoint]?.waiting ?? [], at: endpoint) { waiting in
            topology.endpoint(forSlot: waiting.tag.slot)
        }
        if !moved.isEmpty { self.servers[endpoint]?.waiting = staying }
        for (waiting, target) in moved { self.append(waiting, target) }
        guard let waiting = self.servers[endpoint]?.waiting, let level = waiting.first?.level else { return nil }
        let batch = Array(waiting.prefix(Self.batchMax).prefix { $0.level == level })
        self.servers[endpoint]?.waiting.removeFirst(batch.count)
        return batch
    }

    private func publish(
        _ commands: [RedisCommand],
        _ level: Acknowledgement,
        _ endpoint: RedisEndpoint,
        _ tag: HashTag,
    ) async throws -> [Result<Answer, any Error>] {
        let connection = try await self.client.connection(for: tag, on: self.eventLoop).get()
        let proof = try await self.proof(of: level, connection, endpoint)
        let timeout = TimeAmount(self.patience + self.client.configuration.requestTimeout)
        // One turn of the loop sends all of it in one write.
        let (replies, proven) = try await self.eventLoop.flatSubmit {
            let replies = commands.map { connection.send($0, timeout: timeout) }
            let given = proof.command.map { command in
                connection.send(command, timeout: timeout).map { proof.isGiven(by: $0) }
            }
            return EventLoopFuture.whenAllComplete(replies, on: connection.eventLoop)
                .and(EventLoopFuture.whenAllComplete(given.map { [$0] } ?? [], on: connection.eventLoop))
        }.get()
        if replies.contains(where: { Self.isDemoted($0) }) { connection.close() }
        self.note(replies, endpoint)
        return replies.map { Self.answer($0, proven.first) }
    }

    private static func answer(
        _ reply: Result<RESPReply, any Error>,
        _ proven: Result<Bool, any Error>?,
    ) -> Result<Answer, any Error> {
        do {
            // A connection that ended before the check's answer may have ended with its server.
            return .success(Answer(reply: try reply.get(), isAcknowledged: try proven?.get() ?? true))
        } catch {
            return .failure(error)
        }
    }

    private static func isDemoted(_ reply: Result<RESPReply, any Error>) -> Bool {
        guard case .failure(let error as RedisError) = reply else { return false }
        return error.code == .readOnly || error.code == .masterDown
    }

    private func proof(
        of level: Acknowledgement,
        _ connection: RedisConnection,
        _ endpoint: RedisEndpoint,
    ) async throws -> AcknowledgementProof {
        let milliseconds = max(1, Int64(self.patience / .milliseconds(1)))
        switch level {
        case .memory: return .none
        case .replica: return .replica(milliseconds: milliseconds)
        case .fsync: break
        }
        let isKnown: Bool
        if let diskWait = self.servers[endpoint]?.diskWait, diskWait.connection == ObjectIdentifier(connection) {
            isKnown = diskWait.isKnown
        } else {
            let reply = try await connection.send(RedisCommand("COMMAND", "INFO", "waitaof")).get()
            isKnown = AcknowledgementProof.knowsDiskWait(reply)
            self.servers[endpoint]?.diskWait = (isKnown, ObjectIdentifier(connection))
        }
        if isKnown { return .disk(milliseconds: milliseconds) }
        // The settings are checked each time, because an operator may change them meanwhile.
        do {
            let settings = try await connection.send(RedisCommand("CONFIG", "GET", "append*")).get()
            guard AcknowledgementProof.answersFromDisk(settings) else {
                throw Self.noDisk("its settings say otherwise")
            }
        } catch let error as RedisError where error.code == .noPermission || error.code == .server {
            // A managed Redis has no such command.
            throw Self.noDisk("its settings cannot be read by CONFIG GET: \(error.message)")
        }
        return .none
    }

    private static func noDisk(_ reason: String) -> PublisherError {
        PublisherError(
            .acknowledgementUnavailable,
            "this Redis cannot promise fsync: \(reason). Set `appendonly yes` and `appendfsync always`, or use Redis 7.2, "
                + "which has WAITAOF. Nothing was published",
        )
    }
}
