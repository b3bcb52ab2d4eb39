package import ApusRedis
package import Logging
internal import Synchronization

/// What this process has written into one shard of late, to be written again when the server comes back without it.
///
/// A server that restarts or hands over to its replica may have lost the last writes: units that were finished come back, and would be
/// sent again. So the calls of the last minute are kept; when another server answers than before, what is in hand is claimed again,
/// the calls are repeated in their order, and only then does anything else go on. Every call says itself whether it was there before,
/// so a replay that was not needed changes nothing.
package final class ReplayLog: Sendable {
    private struct State {
        var server: RedisServerIdentity?
        var memory: ReplayMemory
        var inHand: @Sendable () -> [EntryName] = { [] }
        var isReplaying = false
        var waiters: [CheckedContinuation<Void, Never>] = []
        var readingFrom: ContinuousClock.Instant?
    }

    package let tag: HashTag
    private let client: RedisClient
    private let consumer: StreamConsumer
    private let observer: any StreamObserver
    private let logger: Logger
    private let state: Mutex<State>

    /// How long to wait before a replay that failed is tried again.
    private static let pause = Duration.milliseconds(100)

    /// The log of one shard; empty.
    package init(
        tag: HashTag,
        client: RedisClient,
        consumer: StreamConsumer,
        observer: any StreamObserver,
        logger: Logger,
        bytesMax: Int = StreamLimits.replayBytesMax,
    ) {
        self.tag = tag
        self.client = client
        self.consumer = consumer
        self.observer = observer
        self.logger = logger
        self.state = Mutex(State(memory: ReplayMemory(bytesMax: bytesMax)))
    }

    /// Asked at a replay for what is in hand.
    func attach(_ inHand: @escaping @Sendable () -> [EntryName]) {
        self.state.withLock { $0.inHand = inHand }
    }

    // MARK: Calls

    /// Calls a function of the shard, after any replay, and only on the server that knows what this process wrote before.
    ///
    /// - Parameters:
    ///   - client: whose connections carry it.
    ///   - entry: the entry that must be this process's for it; nil: none.
    ///   - again: from the answer, the arguments of the call that is to be repeated; nil: nothing was written that could be missed.
    func call(
        _ function: String,
        keys: [String],
        arguments: [RedisArgument],
        over client: RedisClient,
        of entry: EntryName?,
        again: (RESPNode) -> [RedisArgument]?,
    ) async throws(RedisError) -> RESPReply {
        let command = RedisCommand.call(function, keys: keys, arguments: arguments)
        while true {
            let server = try await self.server()
            do throws(RedisError) {
                let reply = try await client.send(
                    command,
                    on: self.tag,
                    options: .init(isIdempotent: true, server: server),
                )
                if let arguments = again(reply.root) {
                    self.keep(.call(function, keys: keys, arguments: arguments), entry)
                }
                return reply
            } catch  where error.code == .serverChanged {
                await self.replay(after: server)
            }
        }
    }

    private func keep(_ command: RedisCommand, _ entry: EntryName?) {
        let call = ReplayMemory.Call(command: command, entry: entry, at: .now)
        let dropped = self.state.withLock { $0.memory.keep(call) }
        if dropped > 0 { self.observer.replayCallsDropped(dropped) }
    }

    /// The server that calls are meant for; waits while one is being told what it may have lost.
    func server() async throws(RedisError) -> RedisServerIdentity {
        await self.waitForReplay()
        if let known = self.state.withLock({ $0.server }) { return known }
        let found = try await self.client.serverIdentity(for: self.tag)
        return self.state.withLock { state in
            if state.server == nil { state.server = found }
            return state.server ?? found
        }
    }

    /// The same for those who read: they also wait until other processes had time to replay.
    func serverForReading() async throws(RedisError) -> RedisServerIdentity {
        let server = try await self.server()
        if let from = self.state.withLock({ $0.readingFrom }) { try? await Task.sleep(until: from, clock: .continuous) }
        return server
    }

    private func waitForReplay() async {
        while self.state.withLock({ $0.isReplaying }) {
            await withCheckedContinuation { continuation in
                let isOver = self.state.withLock { state in
                    guard state.isReplaying else { return true }
                    state.waiters.append(continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
        }
    }

    // MARK: Replay

    /// Another server than that one answers: tells it what it may have lost. Returns when that is done, whoever does it.
    func replay(after server: RedisServerIdentity) async {
        let isMine = self.state.withLock { state in
            guard !state.isReplaying, state.server == server else { return false }
            state.isReplaying = true
            return true
        }
        guard isMine else { return await self.waitForReplay() }
        while true {
            do throws(RedisError) {
                let found = try await self.client.serverIdentity(for: self.tag)
                // The same again: the caller's connection leads elsewhere, until it notices.
                if found == server { try? await Task.sleep(for: Self.pause) } else { try await self.replay(to: found) }
                return self.end(found, isChanged: found != server)
            } catch {
                guard error.code != .closed else { return self.end(server, isChanged: false) }
                self.logger.warning("replay interrupted", metadata: ["shard": "\(self.tag)", "error": "\(error)"])
                try? await Task.sleep(for: Self.pause)
            }
        }
    }

    private func end(_ server: RedisServerIdentity, isChanged: Bool) {
        let waiters = self.state.withLock { state in
            state.server = server
            state.isReplaying = false
            if isChanged { state.readingFrom = .now + StreamLimits.replayReadingPause }
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    private func replay(to server: RedisServerIdentity) async throws(RedisError) {
        let (calls, inHand) = self.state.withLock { (Array($0.memory.calls), $0.inHand) }
        let entries = Set(calls.compactMap(\.entry)).union(inHand())
        var ours = try await self.reclaim(entries, on: server)
        for call in calls {
            // What it is about may have come back with one of the calls before it. If not, it is gone for good: finished.
            if let entry = call.entry, !ours.contains(entry) {
                guard try await !self.reclaim([entry], on: server).isEmpty else { continue }
                ours.insert(entry)
            }
            try await self.attempt(call.command, on: server)
        }
        _ = try await self.reclaim(Set(inHand()).subtracting(ours), on: server)
        self.observer.callsReplayed(calls.count)
        self.logger.notice(
            "redis is another server or was restarted; told it again what was written of late",
            metadata: ["shard": "\(self.tag)", "calls": "\(calls.count)", "entries": "\(ours.count)"],
        )
    }

    /// Makes entries ours again; those that are there.
    private func reclaim(
        _ entries: Set<EntryName>,
        on server: RedisServerIdentity
    ) async throws(RedisError) -> Set<EntryName> {
        var ours: Set<EntryName> = []
        for (stream, names) in Dictionary(grouping: entries, by: \.stream) {
            for first in stride(from: 0, to: names.count, by: StreamLimits.renewEntriesMax) {
                let part = names[first..<min(first + StreamLimits.renewEntriesMax, names.count)]
                let reader: [RedisArgument] = [.text(self.consumer.group), .text(self.consumer.name)]
                let command = RedisCommand.call(
                    "apus1_reclaim",
                    keys: [stream],
                    arguments: reader + part.map { .text($0.id) },
                )
                guard let reply = try await self.attempt(command, on: server) else { continue }
                ours.formUnion(reply.root.children.map { EntryName(stream: stream, id: $0.text) })
            }
        }
        return ours
    }

    /// Sends a command; nil: the server refused it, as when a stream is gone with all that it held.
    @discardableResult
    private func attempt(
        _ command: RedisCommand,
        on server: RedisServerIdentity,
    ) async throws(RedisError) -> RESPReply? {
        do throws(RedisError) {
            return try await self.client.send(
                command,
                on: self.tag,
                options: .init(isIdempotent: true, server: server),
            )
        } catch {
            switch error.code {
            case .noGroup, .wrongType, .server: return nil
            default: throw error
            }
        }
    }
}
