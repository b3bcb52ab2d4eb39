package import ApusRedis
package import Logging
internal import Synchronization

/// Keeps what this process has written into one shard of late, to write it again when the server comes back without it.
///
/// A server that restarts or hands over to its replica may have lost the last writes: units that were finished come back, and would be
/// sent again. So the calls of the last minute are kept; when another server answers than before, what is in hand is claimed again,
/// the calls are repeated in their order, and only then does anything else go on. Every call says itself whether it was there before,
/// so a replay that was not needed changes nothing. What is about an entry that is not there waits until other processes had time to
/// bring it back, and is tried once more before anything is read.
package final class ReplayLog: Sendable {
    private struct State {
        var server: RedisServerIdentity?
        var memory: ReplayMemory
        var inHand: @Sendable () -> [EntryName] = { [] }
        /// In hand here, but the server has what another wrote of them.
        var foreign: Set<EntryName> = []
        /// Calls of which the entry was not there.
        var waiting: [ReplayMemory.Call] = []
        var isReplaying = false
        var waiters: [CheckedContinuation<Void, Never>] = []
        var readingFrom: ContinuousClock.Instant?
    }

    package let tag: HashTag
    private let client: RedisClient
    private let consumer: StreamConsumer
    private let leaseMilliseconds: Int64
    private let budget: ReplayBudget
    private let observer: any StreamObserver
    private let logger: Logger
    private let state: Mutex<State>

    /// How long to wait before a replay that failed is tried again.
    private static let pause = Duration.milliseconds(100)

    /// Calls that are repeated at once, each of another entry.
    private static let repeatsAtOnceMax = 64

    /// The log of one shard; empty.
    ///
    /// - Parameters:
    ///   - leaseMilliseconds: who was heard of within that time is alive, and keeps what it has.
    ///   - budget: the one of the process.
    package init(
        tag: HashTag,
        client: RedisClient,
        consumer: StreamConsumer,
        leaseMilliseconds: Int64,
        budget: ReplayBudget,
        observer: any StreamObserver,
        logger: Logger,
    ) {
        self.tag = tag
        self.client = client
        self.consumer = consumer
        self.leaseMilliseconds = leaseMilliseconds
        self.budget = budget
        self.observer = observer
        self.logger = logger
        self.state = Mutex(State(memory: ReplayMemory(bytesMax: budget.guaranteed)))
    }

    /// Sets what a replay asks for the entries in hand.
    func attach(_ inHand: @escaping @Sendable () -> [EntryName]) {
        self.state.withLock { $0.inHand = inHand }
    }

    /// An entry is not in hand any more: when it comes again, that is a new turn.
    func ended(_ entry: EntryName) {
        self.state.withLock { _ = $0.foreign.remove(entry) }
    }

    // MARK: Calls

    /// Calls a function of the shard, after any replay, and only on the server that knows what this process wrote before.
    ///
    /// - Parameters:
    ///   - client: whose connections carry it.
    ///   - entry: the entry that the caller must own; nil: none.
    ///   - mayWait: it may leave a little later, with the next one.
    ///   - repeated: returns from the answer the call to repeat after a failover; nil: nothing was written that could be missed.
    func call(
        _ call: some FunctionCall,
        over client: RedisClient,
        about entry: EntryName?,
        mayWait: Bool,
        repeated: (RESPNode) -> (any FunctionCall)?,
    ) async throws(RedisError) -> RESPReply {
        while true {
            let server = try await self.server()
            // An owner that has written other reports than the server knows is nobody to it, or would write over another's.
            let isForeign = entry.map { self.isForeign($0) } ?? false
            do throws(RedisError) {
                let reply = try await client.send(
                    isForeign ? Self.disowned(call).command : call.command,
                    on: self.tag,
                    options: .init(isIdempotent: true, server: server, mayWait: mayWait),
                )
                if let repeated = repeated(reply.root) {
                    let call = ReplayMemory.Call(
                        command: repeated.command,
                        entry: entry,
                        restoresEntries: repeated is any RestoringCall,
                        at: .now,
                    )
                    self.remember { $0.keep(call) }
                } else {
                    self.remember { $0.expire(.now) }
                }
                return reply
            } catch  where error.code == .serverChanged {
                await self.replay(after: server)
            }
        }
    }

    /// The same call of a consumer that owns nothing.
    private static func disowned(_ call: any FunctionCall) -> any FunctionCall {
        guard var call = call as? any OwnerCall else { return call }
        call.consumer = StreamConsumer(group: call.consumer.group, name: "")
        return call
    }

    /// Keeps a call that another process has made, to be repeated after a failover.
    func remember(_ call: some FunctionCall) {
        self.remember { $0.keep(ReplayMemory.Call(command: call.command, entry: nil, at: .now)) }
    }

    /// Changes the memory within what the process has room for; the change says how much was forgotten before its time.
    private func remember(_ change: (inout ReplayMemory) -> Int) {
        let dropped = self.state.withLock { state in
            let before = state.memory.byteCount
            state.memory.bytesMax = self.budget.room(beside: before)
            let dropped = change(&state.memory)
            self.budget.changed(from: before, to: state.memory.byteCount)
            return dropped
        }
        if dropped > 0 { self.observer.replayCallsDropped(dropped) }
    }

    private func isForeign(_ entry: EntryName) -> Bool { self.state.withLock { $0.foreign.contains(entry) } }

    /// The server that calls are meant for; waits while a replay writes to one what it may have lost.
    func server() async throws(RedisError) -> RedisServerIdentity {
        await self.waitForReplay()
        if let known = self.state.withLock({ $0.server }) { return known }
        let found = try await self.client.serverIdentity(for: self.tag)
        return self.state.withLock { state in
            if state.server == nil { state.server = found }
            return state.server ?? found
        }
    }

    /// The same for those who read: they also wait until other processes had time to replay, and for what had to wait for those.
    func serverForReading() async throws(RedisError) -> RedisServerIdentity {
        let server = try await self.server()
        if let from = self.state.withLock({ $0.readingFrom }) { try? await Task.sleep(until: from, clock: .continuous) }
        try await self.replayWaiting(to: server)
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

    /// Another server than that one answers: writes to it what it may have lost. Returns when that is done, by this call or another.
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
        let (waiting, foreign) = try await self.repeat(calls, &ours, on: server)
        _ = try await self.reclaim(Set(inHand()).subtracting(ours), on: server)
        let foreignInHand = foreign.intersection(inHand())
        self.state.withLock { state in
            state.waiting = waiting
            state.foreign = foreignInHand
        }
        self.observer.callsReplayed(calls.count - waiting.count)
        self.logger.notice(
            "redis is another server or was restarted; wrote to it again what was written of late",
            metadata: [
                "shard": "\(self.tag)", "calls": "\(calls.count)", "entries": "\(ours.count)",
                "waiting": "\(waiting.count)", "foreign": "\(foreign.count)",
            ],
        )
    }

    /// Another process may have brought back meanwhile what these calls are about. If not, it is gone for good: finished.
    private func replayWaiting(to server: RedisServerIdentity) async throws(RedisError) {
        let (calls, inHand) = self.state.withLock { state -> ([ReplayMemory.Call], @Sendable () -> [EntryName]) in
            guard !state.isReplaying, state.server == server, !state.waiting.isEmpty else { return ([], state.inHand) }
            state.isReplaying = true
            return (state.waiting, state.inHand)
        }
        guard !calls.isEmpty else { return await self.waitForReplay() }
        do throws(RedisError) {
            var ours = try await self.reclaim(Set(calls.compactMap(\.entry)), on: server)
            let (left, foreign) = try await self.repeat(calls, &ours, on: server)
            let foreignInHand = foreign.intersection(inHand())
            self.state.withLock { state in
                state.waiting = []
                state.foreign.formUnion(foreignInHand)
            }
            self.observer.callsReplayed(calls.count - left.count)
        } catch {
            self.end(server, isChanged: false)
            throw error
        }
        self.end(server, isChanged: false)
    }

    /// Repeats calls in their order; those of several entries, one each, at once.
    ///
    /// - Returns: those of which the entry is not there, or another's; entries of which the server has what another wrote.
    private func `repeat`(
        _ calls: [ReplayMemory.Call],
        _ ours: inout Set<EntryName>,
        on server: RedisServerIdentity,
    ) async throws(RedisError) -> (waiting: [ReplayMemory.Call], foreign: Set<EntryName>) {
        var waiting: [ReplayMemory.Call] = []
        var foreign: Set<EntryName> = []
        /// Not there, unless a call brings them back.
        var missing = Set(calls.compactMap(\.entry)).subtracting(ours)
        /// Not repeated yet.
        var together: [EntryName: RedisCommand] = [:]
        for call in calls {
            let mustWait = call.entry.map { together[$0] != nil || call.restoresEntries } ?? true
            if mustWait || together.count == Self.repeatsAtOnceMax {
                foreign.formUnion(try await self.refused(together, on: server))
                together = [:]
            }
            if let entry = call.entry {
                if foreign.contains(entry) { continue }
                if !ours.contains(entry) {
                    if missing.contains(entry) {
                        waiting.append(call)
                        continue
                    }
                    guard try await !self.reclaim([entry], on: server).isEmpty else {
                        missing.insert(entry)
                        waiting.append(call)
                        continue
                    }
                    ours.insert(entry)
                }
                if !call.restoresEntries {
                    together[entry] = call.command
                    continue
                }
            }
            let reply = try await self.attempt(call.command, on: server)
            if call.restoresEntries { missing = [] }
            if let entry = call.entry, reply?.root.element(0)?.text == "lost" { foreign.insert(entry) }
        }
        foreign.formUnion(try await self.refused(together, on: server))
        return (waiting, foreign)
    }

    /// Sends commands at once, one of each entry; those entries of which the server has what another wrote.
    private func refused(
        _ commands: [EntryName: RedisCommand],
        on server: RedisServerIdentity,
    ) async throws(RedisError) -> Set<EntryName> {
        let answers = await withTaskGroup(of: (EntryName, Result<Bool, RedisError>).self) { group in
            for (entry, command) in commands {
                group.addTask {
                    do throws(RedisError) {
                        let reply = try await self.attempt(command, on: server)
                        return (entry, .success(reply?.root.element(0)?.text == "lost"))
                    } catch {
                        return (entry, .failure(error))
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        var refused: Set<EntryName> = []
        for (entry, answer) in answers { refused.formUnion(try answer.get() ? [entry] : []) }
        return refused
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
                let call = ReclaimEntriesCall(
                    keys: [stream],
                    consumer: self.consumer,
                    leaseMilliseconds: self.leaseMilliseconds,
                    entries: part.map(\.id),
                )
                guard let reply = try await self.attempt(call.command, on: server) else { continue }
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

/// The calls that wrote something of late, oldest first; bounded by age and by bytes. Pure.
struct ReplayMemory {
    /// A call that was answered.
    struct Call {
        var command: RedisCommand
        /// The entry that it is about, which must be ours first; nil: it needs none.
        var entry: EntryName?
        /// Whether it brings back entries, that calls after it may be about.
        var restoresEntries = false
        var at: ContinuousClock.Instant

        var byteCount: Int { self.command.byteCount + StreamLimits.replayCallOverheadBytes }
    }

    /// The limit that it keeps at its next change.
    var bytesMax: Int
    private let age: Duration
    private var kept: [Call] = []
    /// Calls before this place are forgotten; the array is cut when they are the most of it.
    private var first = 0
    private(set) var byteCount = 0

    init(bytesMax: Int, age: Duration = StreamLimits.replayAge) {
        precondition(bytesMax >= 0 && age > .zero)
        self.bytesMax = bytesMax
        self.age = age
    }

    /// Oldest first.
    var calls: ArraySlice<Call> { self.kept[self.first...] }

    /// Keeps a call; how many were forgotten before their time, for want of room.
    mutating func keep(_ call: Call) -> Int {
        self.kept.append(call)
        self.byteCount += call.byteCount
        return self.forget(call.at)
    }

    /// Forgets what is too old; how much was forgotten before its time, because there is less room than before.
    @discardableResult
    mutating func expire(_ now: ContinuousClock.Instant) -> Int { self.forget(now) }

    private mutating func forget(_ now: ContinuousClock.Instant) -> Int {
        var dropped = 0
        while self.first < self.kept.count {
            let oldest = self.kept[self.first]
            let isOld = now - oldest.at > self.age
            guard isOld || self.byteCount > self.bytesMax else { break }
            self.byteCount -= oldest.byteCount
            self.first += 1
            dropped += isOld ? 0 : 1
        }
        if self.first * 2 > self.kept.count {
            self.kept.removeFirst(self.first)
            self.first = 0
        }
        return dropped
    }
}

/// Limits what the shards of a process remember together for a replay: half of it is theirs in equal parts, half is for shards that need more,
/// because one campaign lives in one shard.
///
/// Shards that grow at the same moment may exceed it by a call each.
package final class ReplayBudget: Sendable {
    /// Bytes that each shard may keep whatever the others do.
    let guaranteed: Int
    private let sharedMax: Int
    /// Bytes beyond what is guaranteed, of all shards.
    private let shared = Atomic(0)

    /// A budget of so many bytes for so many shards.
    package init(bytesMax: Int = StreamLimits.replayBytesMax, shards: Int) {
        precondition(bytesMax >= 0 && shards > 0)
        self.guaranteed = bytesMax / 2 / shards
        self.sharedMax = bytesMax / 2
    }

    /// Bytes that a shard which has so many may have.
    func room(beside own: Int) -> Int {
        let others = self.shared.load(ordering: .relaxed) - max(0, own - self.guaranteed)
        return self.guaranteed + max(0, self.sharedMax - others)
    }

    /// A shard has changed what it keeps.
    func changed(from before: Int, to after: Int) {
        let grown = max(0, after - self.guaranteed) - max(0, before - self.guaranteed)
        if grown != 0 { self.shared.add(grown, ordering: .relaxed) }
    }
}
