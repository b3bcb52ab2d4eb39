package import ApusRedis
internal import Synchronization

/// Waits, between an effect in one slot and its acknowledgement in another, until a replica of the effect's server has it.
///
/// Masters roll back independently: an entry that was acknowledged on one master is never handled again, so an effect of it that
/// another master forgets in a failover is lost. Where both lie on one server there is nothing to wait for, because a replica applies the
/// writes of its master in their order; nor where the effect's server has no replica, unless one is demanded.
///
/// One `WAIT` for each server is under way at a time, behind a write of its own: whoever comes meanwhile shares the next one. So its
/// cost does not grow with the work.
package final class ReplicaBarrier: Sendable {
    /// The least time between the beginnings of two waits for one server.
    package static let pause = Duration.milliseconds(5)
    /// The time for which it is known whether a server has replicas.
    package static let replicaNewsLifetime = Duration.seconds(5)
    /// The maximum number of callers that wait for one server; more are refused with `full`.
    package static let waitingMax = 10_000
    /// The time for which a demanding barrier passes no effect without a replica after it last had one, on any server. It outlasts a failover
    /// and the repair of a machine; who has removed the replicas for good is refused for so long.
    package static let demandMax = Duration.seconds(3_600)

    /// The topology before some effects: they count as replicated only if no server was replaced since.
    package struct Ticket: Hashable, Sendable {
        let at: ContinuousClock.Instant
        /// The topology's count of changes.
        let changes: Int
    }

    /// Waits for the replicas of servers that had some effects.
    package typealias Wait = @Sendable () async throws(RedisError) -> Void

    private let client: RedisClient
    private let patience: Duration
    private let demandMax: Duration
    private let confirmations: ReplicaConfirmations
    /// The address of Redis, by which its replicas' confirmations are told from those of another one.
    private let address: String
    private let lines = Mutex<[RedisEndpoint: ReplicaBarrierLine]>([:])

    /// Creates a barrier that connects when it is first needed.
    ///
    /// - Parameters:
    ///   - patience: the time that a replica may take.
    ///   - demandMax: the time for which effects on a server without replicas do not pass after a replica was last seen; zero where they
    ///     always pass. A master drops a replica that is silent for long, and one that has just taken over has none.
    ///   - confirmations: what barriers of the process, also those before this one, know of replicas.
    package init(
        _ client: RedisClient,
        patience: Duration = StreamLimits.replicaPatience,
        demandMax: Duration = .zero,
        confirmations: ReplicaConfirmations = ReplicaConfirmations(),
    ) {
        self.client = client
        self.patience = patience
        self.demandMax = demandMax
        self.confirmations = confirmations
        self.address = "\(client.configuration)"
    }

    /// Returns the ticket for effects that begin now.
    package func ticket() -> Ticket { Ticket(at: .now, changes: self.client.topology.changes) }

    /// Learns which processes serve some slots: effects of a later ticket need not be repeated because they were not known.
    ///
    /// - Parameter home: the slot of the acknowledgement; nil when it is none of Redis'.
    package func prepare(
        for tags: some Sequence<HashTag>,
        acknowledgedAt home: HashTag? = nil,
    ) async throws(RedisError) {
        let homeServer = self.server(of: home)
        for (server, tag) in try self.client.topology.servers(of: tags) where server != homeServer {
            try await self.line(of: server).prepare(tag)
        }
    }

    /// Prepares for effects that begin now.
    ///
    /// - Parameters:
    ///   - tags: the slots of the effects.
    ///   - home: the slot of the acknowledgement.
    /// - Returns: the wait for their replicas, like ``wait(for:acknowledgedAt:since:)``. It fails with `serverChanged` also when a server
    ///   without replicas was restarted meanwhile: it may have forgotten the effects.
    package func begin(for tags: [HashTag], acknowledgedAt home: HashTag) async throws(RedisError) -> Wait {
        try await self.prepare(for: tags, acknowledgedAt: home)
        let ticket = self.ticket()
        let servers = try await self.client.serverIdentities(for: tags)
        return { () async throws(RedisError) in
            try await self.wait(for: tags, acknowledgedAt: home, since: ticket)
            guard try await self.client.serverIdentities(for: tags) == servers else {
                throw RedisError(.serverChanged, "Redis was replaced since the effects were written")
            }
        }
    }

    /// Waits for the replicas of the servers that have some slots.
    ///
    /// - Parameters:
    ///   - tags: the slots of the effects.
    ///   - home: the slot of the acknowledgement; nil when it is none of Redis'.
    ///   - ticket: that of the time before the effects.
    /// - Throws: `serverChanged` when a server was replaced since the ticket, or may have been; `noReplicas` when no replica
    ///   confirms in time. The effects must be repeated after either, and are not to be acknowledged.
    package func wait(
        for tags: some Sequence<HashTag>,
        acknowledgedAt home: HashTag?,
        since ticket: Ticket,
    ) async throws(RedisError) {
        let servers = try self.client.topology.servers(of: tags)
        try await self.wait(for: servers.mapValues { ReplicaMark($0) }, home, ticket)
    }

    /// Waits for the replicas of the server that has a publisher's stream, like ``wait(for:acknowledgedAt:since:)``.
    ///
    /// - Parameter stream: the stream, to which something was written.
    package func wait(
        forReplyIn stream: String,
        acknowledgedAt home: HashTag?,
        since ticket: Ticket,
    ) async throws(RedisError) {
        let servers = try self.client.topology.servers(of: [HashTag(ofKey: stream)])
        try await self.wait(for: servers.mapValues { _ in ReplicaMark(stream: stream) }, home, ticket)
    }

    private func wait(
        for all: [RedisEndpoint: ReplicaMark],
        _ home: HashTag?,
        _ ticket: Ticket,
    ) async throws(RedisError) {
        let homeServer = self.server(of: home)
        let servers = all.filter { $0.key != homeServer }
        guard !servers.isEmpty else { return }
        guard self.client.topology.changes == ticket.changes else {
            throw RedisError(.serverChanged, "slots have other servers since the effects were written")
        }
        guard servers.count > 1 else {
            for (server, mark) in servers { try await self.wait(for: server, mark, ticket) }
            return
        }
        do {
            try await withThrowingTaskGroup { group in
                for (server, mark) in servers {
                    group.addTask { try await self.wait(for: server, mark, ticket) }
                }
                try await group.waitForAll()
            }
        } catch {
            throw error as? RedisError ?? RedisError(.disconnected, "\(error)")
        }
    }

    private func wait(for server: RedisEndpoint, _ mark: ReplicaMark, _ ticket: Ticket) async throws(RedisError) {
        guard try await !self.line(of: server).wait(mark, since: ticket.at) else {
            return self.confirmations.note(at: self.address)
        }
        guard self.confirmations.haveCome(at: self.address, within: self.demandMax) else { return }
        throw RedisError(.noReplicas, "\(server) has no replica now")
    }

    /// Closes the connections to all servers.
    package func close() async {
        let lines = self.lines.withLock { lines in
            defer { lines = [:] }
            return lines.values
        }
        for line in lines { await line.close() }
    }

    private func server(of home: HashTag?) -> RedisEndpoint? {
        home.flatMap { self.client.topology.endpoint(forSlot: $0.slot) }
    }

    private func line(of server: RedisEndpoint) -> ReplicaBarrierLine {
        self.lines.withLock { lines in
            if let known = lines[server] { return known }
            let made = ReplicaBarrierLine(server, self.client, self.patience)
            lines[server] = made
            return made
        }
    }
}

/// Holds the time at which a replica has last confirmed something, for barriers that share it: one time for each Redis, by its address.
package final class ReplicaConfirmations: Sendable {
    private let last = Mutex<[String: ContinuousClock.Instant]>([:])

    /// Creates a memory in which there is none yet.
    package init() {}

    fileprivate func note(at address: String) { self.last.withLock { $0[address] = .now } }

    fileprivate func haveCome(at address: String, within duration: Duration) -> Bool {
        self.last.withLock { last in last[address].map { ContinuousClock.now - $0 < duration } ?? false }
    }
}

/// A slot of a server, with the key that is written there before `WAIT`.
private struct ReplicaMark: Hashable, Sendable {
    let tag: HashTag
    let key: String

    /// Creates the mark of a shard or a device partition.
    init(_ tag: HashTag) {
        self.tag = tag
        self.key = StreamKeys(tag: tag).claims
    }

    /// Creates the mark of a publisher's stream: the stream itself, so that no key is left when nobody writes to it any more, and that whoever
    /// may write to it may mark it.
    init(stream: String) {
        self.tag = HashTag(ofKey: stream)
        self.key = stream
    }
}

/// Gathers those who wait for the replicas of one server.
private actor ReplicaBarrierLine {
    private struct Waiting {
        let mark: ReplicaMark
        let since: ContinuousClock.Instant
        let continuation: CheckedContinuation<Bool, any Error>
    }

    private let server: RedisEndpoint
    private let client: RedisClient
    private let patience: Duration
    private var waiting: [Waiting] = []
    private var isBusy = false
    private var beganAt: ContinuousClock.Instant?
    private var connection: (RedisBlockingConnection, tag: HashTag)?
    /// The process at the server's address, and since when it is known.
    private var identity: (RedisServerIdentity, since: ContinuousClock.Instant)?
    private var news: (hasReplica: Bool, at: ContinuousClock.Instant)?

    init(_ server: RedisEndpoint, _ client: RedisClient, _ patience: Duration) {
        self.server = server
        self.client = client
        self.patience = patience
    }

    /// Waits for a replica. Returns false when there is none.
    func wait(_ mark: ReplicaMark, since: ContinuousClock.Instant) async throws(RedisError) -> Bool {
        if let news = self.news, !news.hasReplica, .now - news.at < ReplicaBarrier.replicaNewsLifetime { return false }
        guard self.waiting.count < ReplicaBarrier.waitingMax else {
            throw RedisError(.full, "\(ReplicaBarrier.waitingMax) effects wait for a replica of \(self.server)")
        }
        do {
            return try await withCheckedThrowingContinuation { continuation in
                self.waiting.append(Waiting(mark: mark, since: since, continuation: continuation))
                guard !self.isBusy else { return }
                self.isBusy = true
                Task { await self.drain() }
            }
        } catch {
            throw error as? RedisError ?? RedisError(.disconnected, "\(error)")
        }
    }

    func prepare(_ tag: HashTag) async throws(RedisError) {
        if try await self.hasReplica(tag) { _ = try await self.identified(tag) }
    }

    func close() async {
        let connection = self.connection
        self.connection = nil
        await connection?.0.close()
    }

    private func drain() async {
        while !self.waiting.isEmpty {
            if let beganAt = self.beganAt {
                try? await Task.sleep(until: beganAt + ReplicaBarrier.pause, clock: .continuous)
            }
            self.beganAt = .now
            let round = self.waiting
            self.waiting = []
            do throws(RedisError) {
                let since = try await self.confirm(round[0].mark)
                for waiting in round {
                    guard let since, since > waiting.since else {
                        waiting.continuation.resume(returning: since != nil)
                        continue
                    }
                    let text = "\(self.server) was not known yet when the effects were written there"
                    waiting.continuation.resume(throwing: RedisError(.serverChanged, text))
                }
            } catch {
                for waiting in round { waiting.continuation.resume(throwing: error) }
            }
        }
        self.isBusy = false
    }

    /// Waits until a replica has everything that was written before.
    ///
    /// - Returns: the time since when the server is known to be the same; nil when it has no replica.
    private func confirm(_ mark: ReplicaMark) async throws(RedisError) -> ContinuousClock.Instant? {
        guard try await self.hasReplica(mark.tag) else { return nil }
        let (identity, since) = try await self.identified(mark.tag)
        let connection = await self.connection(for: mark.tag)
        let call = MarkWriteCall(keys: [mark.key])
        let count: Int
        do throws(RedisError) {
            count = try await connection.sendWaiting(call.command, patience: self.patience, server: identity)
        } catch {
            if error.code == .serverChanged { self.identity = nil }
            throw error
        }
        guard count > 0 else {
            // It may have none any more.
            self.news = nil
            let milliseconds = self.patience / .milliseconds(1)
            throw RedisError(.noReplicas, "no replica of \(self.server) has confirmed within \(Int(milliseconds)) ms")
        }
        return since
    }

    private func hasReplica(_ tag: HashTag) async throws(RedisError) -> Bool {
        if let news = self.news, .now - news.at < ReplicaBarrier.replicaNewsLifetime { return news.hasReplica }
        var hasReplica = false
        do throws(RedisError) {
            let options = RedisClient.Options.idempotent
            let reply = try await self.client.send(RedisCommand("INFO", "replication"), on: tag, options: options)
            hasReplica = reply.namesOnlineReplica
        } catch {
            // A user who may not ask is treated as if there were none.
            guard error.code == .noPermission else { throw error }
        }
        self.news = (hasReplica, .now)
        return hasReplica
    }

    private func identified(
        _ tag: HashTag
    ) async throws(RedisError) -> (RedisServerIdentity, ContinuousClock.Instant) {
        if let known = self.identity { return known }
        let found = (try await self.client.serverIdentity(for: tag), ContinuousClock.now)
        self.identity = found
        return found
    }

    /// Returns the connection, which belongs to a slot: another one when that slot is elsewhere by now.
    private func connection(for tag: HashTag) async -> RedisBlockingConnection {
        if let (connection, own) = self.connection {
            if own == tag || self.client.topology.endpoint(forSlot: own.slot) == self.server { return connection }
            await connection.close()
        }
        let made = self.client.blockingConnection(for: tag)
        self.connection = (made, tag)
        return made
    }
}
