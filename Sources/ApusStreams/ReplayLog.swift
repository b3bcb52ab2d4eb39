package import ApusRedis
package import Logging
internal import Synchronization

/// Keeps what this process has recently written into one shard, to write it again when the server comes back without it.
///
/// A server that restarts or hands over to its replica may have lost the last writes: finished units come back and would be sent again. So
/// the calls of the last minute are kept. When another server answers, the entries in hand are claimed again, the calls are repeated in
/// their order, and only then does anything else continue. Every call detects by itself whether it ran before, so an unnecessary replay
/// changes nothing. A call about a missing entry waits until other processes had time to bring the entry back, and is tried once more
/// before anything is read. The end of a direct send is written even if the server has forgotten that it was published: its publisher, who
/// asks again, is told that it is known. One that has failed instead is written into its mailbox again.
package final class ReplayLog: Sendable {
    private struct State {
        var server: RedisServerIdentity?
        /// The holder of the shard's slot when `server` was found.
        var holder: SlotHolder?
        /// The address and the history of `server`; nil where they are not known.
        var origin: ReadingPause.Server?
        var memory: ReplayMemory
        /// The server that calls and reads go to at once, because nothing has to come before them; nil while something has.
        var readyServer: RedisServerIdentity? {
            self.isReplaying || self.readingPause != nil || !self.waiting.isEmpty ? nil : self.server
        }
        var inHand: @Sendable () -> [EntryName] = { [] }
        /// The entries in hand here of which the server has the reports of another process.
        var foreign: Set<EntryName> = []
        /// The entries in hand here that the server did not give back at the last replay: it has forgotten them, another process has them,
        /// or it has given their id to another entry. Another process may bring them back.
        var unowned: Set<EntryName> = []
        /// The entries of which a server has forgotten the publication, too: it is restored for who publishes again, and they end without
        /// being there.
        var lost: Set<EntryName> = []
        /// The calls whose entry was missing.
        var waiting: [ReplayMemory.Call] = []
        var isReplaying = false
        /// The number of replays that have begun.
        var replays: UInt64 = 0
        var waiters: [CheckedContinuation<Void, Never>] = []
        /// The pause of reads after a takeover, with its number among all pauses.
        var readingPause: (pause: ReadingPause, number: UInt64)?

        /// Returns true when calls about an entry may change nothing of what the server has under its id.
        func isForeign(_ entry: EntryName) -> Bool { self.foreign.contains(entry) || self.unowned.contains(entry) }
    }

    package let tag: HashTag
    private let client: RedisClient
    private let consumer: StreamConsumer
    private let leaseMilliseconds: Int64
    private let budget: ReplayBudget
    private let observer: any StreamObserver
    private let logger: Logger
    private let readingPause: Duration
    private let state: Mutex<State>

    /// The time before a failed replay is tried again.
    static let pause = Duration.milliseconds(100)
    /// The longest, where it grows.
    static let pauseMax = Duration.seconds(1)

    /// The maximum of calls that are repeated together, each of another entry.
    private static let repeatsAtOnceMax = 64

    /// Creates an empty log of one shard.
    ///
    /// - Parameters:
    ///   - leaseMilliseconds: a process that asked for something within that time is alive, and keeps what it has.
    ///   - budget: the budget of the process.
    ///   - readingPause: the time that nothing is read from a new server that may have forgotten something.
    package init(
        tag: HashTag,
        client: RedisClient,
        consumer: StreamConsumer,
        leaseMilliseconds: Int64,
        budget: ReplayBudget,
        observer: any StreamObserver,
        logger: Logger,
        readingPause: Duration = StreamLimits.replayReadingPause,
    ) {
        self.tag = tag
        self.client = client
        self.consumer = consumer
        self.leaseMilliseconds = leaseMilliseconds
        self.budget = budget
        self.observer = observer
        self.logger = logger
        self.readingPause = readingPause
        self.state = Mutex(State(memory: ReplayMemory(bytesMax: budget.guaranteed)))
    }

    /// Sets what a replay asks for the entries in hand.
    func attach(_ inHand: @escaping @Sendable () -> [EntryName]) {
        self.state.withLock { $0.inHand = inHand }
    }

    /// Records that an entry is not in hand any more: when it comes again, that is a new turn.
    func ended(_ entry: EntryName) {
        self.state.withLock { state in
            state.foreign.remove(entry)
            state.unowned.remove(entry)
        }
    }

    /// Records that the handling of an entry is given up, which comes back only if its server has it. Where the server has forgotten it and knows
    /// its publication, the command is written again; where it has not, it must know neither after a failover, or nobody could send the
    /// command again.
    func gaveUp(_ entry: StreamEntry) async throws(RedisError) {
        guard self.isLost(entry.name) else { return self.forgetAdmission(of: entry.name) }
        guard let admission = self.admission(of: entry.name) else { return }
        let call = RestoreCommandCall(
            keys: [entry.stream],
            key: admission.key,
            origin: entry.origin,
            command: entry.message
        )
        let reply = try await self.call(call, over: self.client, about: nil, mayWait: false) {
            $0.string?.isEmpty == false ? call : nil
        }
        self.state.withLock { _ = $0.lost.remove(entry.name) }
        // The key may have become another's.
        guard let new = reply.root.string, !new.isEmpty else { return }
        self.logger.notice(
            "wrote a command again that its server has forgotten",
            metadata: ["entry": "\(entry.origin)", "new": "\(new)"]
        )
    }

    /// Returns the call that an entry was admitted by, of any shard's mailbox; nil when there is none.
    func admission(of entry: EntryName) -> AdmitSendCall? { self.state.withLock { $0.memory.admission(of: entry) } }

    /// Forgets that an entry was admitted: a replay does not make its key known again.
    func forgetAdmission(of entry: EntryName) {
        self.remember { memory in
            memory.forgetAdmission(of: entry)
            return 0
        }
    }

    // MARK: Calls

    /// Calls a function of the shard, after any replay, and only on the server that knows what this process wrote before.
    ///
    /// - Parameters:
    ///   - client: the client whose connections carry the call.
    ///   - entry: the entry that the caller must own; nil for none.
    ///   - mayWait: true when the call may leave a little later, together with the next one.
    ///   - repeated: returns from the answer the call to repeat after a failover; nil when nothing was written that could be missed.
    func call(
        _ call: some FunctionCall,
        over client: RedisClient,
        about entry: EntryName?,
        mayWait: Bool,
        repeated: (RESPNode) -> (any FunctionCall)?,
    ) async throws(RedisError) -> RESPReply {
        try await self.onServer { server, replays throws(RedisError) in
            if let entry { try await self.reclaimUnowned(entry, on: server) }
            let command = entry.map { self.adapted(call, about: $0).command } ?? call.command
            let reply = try await client.send(
                command,
                on: self.tag,
                options: .init(isIdempotent: true, server: server, mayWait: mayWait),
            )
            let call = repeated(reply.root).map {
                ReplayMemory.Call($0, entry: entry, byteCount: command.byteCount, at: .now)
            }
            try self.remember(writtenTo: server, after: replays) { memory in
                call.map { memory.keep($0) } ?? memory.expire(.now)
            }
            return reply
        }
    }

    /// Calls a function about several entries, each of which has a call of its own to be repeated.
    ///
    /// - Parameters:
    ///   - call: the call, whose function does for each entry what that entry's own call does.
    ///   - entries: the entries, which the caller must own.
    ///   - repeated: returns from the answer the call of each entry to repeat after a failover; nil when nothing was written that could be
    ///     missed.
    /// - Returns: the reply; nil when nothing was called, because another process has reported about one of the entries, or the server has
    ///   forgotten one.
    func call(
        _ call: some FunctionCall,
        over client: RedisClient,
        about entries: [EntryName],
        mayWait: Bool,
        repeated: (RESPNode) -> [(any FunctionCall)?],
    ) async throws(RedisError) -> RESPReply? {
        var mustPart = false
        let reply = try await self.onServer { server, replays throws(RedisError) in
            mustPart = self.state.withLock { state in
                entries.contains { state.isForeign($0) || state.lost.contains($0) }
            }
            guard !mustPart else { return .null }
            let command = call.command
            let reply = try await client.send(
                command,
                on: self.tag,
                options: .init(isIdempotent: true, server: server, mayWait: mayWait),
            )
            let byteCount = command.byteCount / max(1, entries.count)
            let calls = zip(entries, repeated(reply.root)).compactMap { entry, call in
                call.map { ReplayMemory.Call($0, entry: entry, byteCount: byteCount, at: .now) }
            }
            try self.remember(writtenTo: server, after: replays) { memory in
                calls.reduce(memory.expire(.now)) { $0 + memory.keep($1) }
            }
            return reply
        }
        return mustPart ? nil : reply
    }

    /// Reads from the server that knows what this process wrote, after any replay: another might lack what was written last.
    func read(_ command: RedisCommand, over client: RedisClient) async throws(RedisError) -> RESPReply {
        try await self.onServer { server, replays throws(RedisError) in
            let reply = try await client.send(command, on: self.tag, options: .init(isIdempotent: true, server: server))
            try self.remember(writtenTo: server, after: replays) { $0.expire(.now) }
            return reply
        }
    }

    /// Performs a call on the server of the shard; when another has taken over, it replays there and performs the call again.
    ///
    /// - Parameter call: performs the call on a server, after so many replays have begun.
    private func onServer(
        _ call: (_ server: RedisServerIdentity, _ replays: UInt64) async throws(RedisError) -> RESPReply
    ) async throws(RedisError) -> RESPReply {
        while true {
            let server = try await self.server()
            let replays = self.state.withLock { $0.replays }
            do throws(RedisError) {
                return try await call(server, replays)
            } catch  where error.code == .serverChanged {
                // Of a replay that has begun since, the next call learns the server: another one would only undo more calls.
                guard self.state.withLock({ $0.replays }) == replays else { continue }
                await self.replay(after: server)
            }
        }
    }

    /// Returns a call about an entry as it is to be made.
    private func adapted(_ call: any FunctionCall, about entry: EntryName) -> any FunctionCall {
        let (isForeign, isLost) = self.state.withLock { ($0.isForeign(entry), $0.lost.contains(entry)) }
        if isLost, var call = call as? any EndingCall {
            call.isLost = true
            return call
        }
        // An owner whose reports differ from those that the server knows would overwrite another's, so it calls without its name.
        guard isForeign, var call = call as? any OwnerCall else { return call }
        call.consumer = StreamConsumer(group: call.consumer.group, name: "")
        return call
    }

    /// Returns true when a server has forgotten an entry and its publication.
    func isLost(_ entry: EntryName) -> Bool { self.state.withLock { $0.lost.contains(entry) } }

    /// Keeps a call that another process has made, to be repeated after a failover.
    ///
    /// - Parameter byteCount: the approximate size of the call.
    func remember(_ call: some FunctionCall, byteCount: Int) {
        self.remember { $0.keep(ReplayMemory.Call(call, entry: nil, byteCount: byteCount, at: .now)) }
    }

    /// Changes the memory after an answer of a server.
    ///
    /// - Parameter replays: the number of replays that had begun when the call was made.
    /// - Throws: `serverChanged` when a replay has begun since, which did not know of the call: a server that was frozen answers after another
    ///   has taken its place.
    private func remember(
        writtenTo server: RedisServerIdentity,
        after replays: UInt64,
        _ change: (inout ReplayMemory) -> Int,
    ) throws(RedisError) {
        let dropped: Int? = self.state.withLock { state in
            guard !state.isReplaying, state.replays == replays, state.server == server else { return nil }
            return self.change(&state.memory, change)
        }
        guard let dropped else {
            throw RedisError(.serverChanged, "another server had taken the shard over before \(server) answered")
        }
        if dropped > 0 { self.observer.replayCallsDropped(dropped) }
    }

    private func remember(_ change: (inout ReplayMemory) -> Int) {
        let dropped = self.state.withLock { self.change(&$0.memory, change) }
        if dropped > 0 { self.observer.replayCallsDropped(dropped) }
    }

    /// Changes the memory within what the process has room for; the change says how much was forgotten before its time.
    private func change(_ memory: inout ReplayMemory, _ change: (inout ReplayMemory) -> Int) -> Int {
        let before = memory.byteCount
        memory.bytesMax = self.budget.room(beside: before)
        let dropped = change(&memory)
        self.budget.changed(from: before, to: memory.byteCount)
        return dropped
    }

    /// Returns the server that calls are meant for, and waits while a replay repeats writes to it.
    func server() async throws(RedisError) -> RedisServerIdentity {
        if let ready = self.state.withLock({ $0.readyServer }) { return ready }
        await self.waitForReplay()
        if let known = self.state.withLock({ $0.server }) { return known }
        let current = try await self.currentServer()
        return self.state.withLock { state in
            if state.server == nil {
                (state.server, state.holder, state.origin) = (current.server, current.holder, current.origin)
            }
            return state.server ?? current.server
        }
    }

    /// The server that has the shard's slot, who that is in its cluster, and its history where a cluster tells it.
    private typealias Current = (server: RedisServerIdentity, holder: SlotHolder?, origin: ReadingPause.Server?)

    /// Returns the server that has the shard's slot.
    private func currentServer() async throws(RedisError) -> Current {
        let (topology, slot) = (self.client.topology, self.tag.slot)
        while true {
            let before = topology.holder(ofSlot: slot)
            let found = try await self.client.serverIdentity(for: self.tag)
            let origin = before == nil ? nil : await self.origin(of: found)
            let holder = topology.holder(ofSlot: slot)
            // The map may have been empty, or have changed meanwhile.
            if holder == before { return (found, holder, origin) }
        }
    }

    /// Returns the address and the history of a master; nil when it does not tell, or is none.
    private func origin(of server: RedisServerIdentity) async -> ReadingPause.Server? {
        guard let endpoint = self.client.topology.endpoint(forSlot: self.tag.slot),
            let state = await self.client.replicationState(of: endpoint), state.identity == server, state.isMaster
        else { return nil }
        return ReadingPause.Server(endpoint: endpoint, state: state)
    }

    /// Returns the same for readers, which also wait until other processes had time to replay, and for the calls that waited for these.
    func serverForReading() async throws(RedisError) -> RedisServerIdentity {
        if let ready = self.state.withLock({ $0.readyServer }) { return ready }
        let server = try await self.server()
        if let (pause, number) = self.state.withLock({ $0.readingPause }) {
            await pause.wait(self.client)
            self.state.withLock { if $0.readingPause?.number == number { $0.readingPause = nil } }
        }
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

    /// Writes to the server in place of that one what it may have lost. Returns when that is done, by this call or another.
    func replay(after server: RedisServerIdentity) async {
        let isMine = self.state.withLock { state in
            guard !state.isReplaying, state.server == server else { return false }
            state.isReplaying = true
            state.replays += 1
            return true
        }
        guard isMine else { return await self.waitForReplay() }
        var loggedCode: RedisError.Code?
        var last: Duration?
        while true {
            do throws(RedisError) {
                let current = try await self.currentServer()
                let (found, holder) = (current.server, current.holder)
                let last = self.state.withLock { $0.holder }
                if found == server {
                    // The caller's connection leads elsewhere until it notices. Behind one address it is the later one.
                    await self.client.leave(server, for: self.tag)
                    try? await Task.sleep(for: Self.pause)
                } else if let last, let holder, holder.isPlannedMove(from: last) {
                    // The slot moved with everything that was written.
                    self.logger.info("the shard has moved to another server", metadata: ["shard": "\(self.tag)"])
                    return self.end(current, isReplayed: false)
                } else {
                    try await self.replay(to: found)
                }
                return self.end(current, isReplayed: found != server)
            } catch {
                guard error.code != .closed else { return self.end() }
                if loggedCode != error.code {
                    loggedCode = error.code
                    self.logger.warning(
                        "the replay failed and will be repeated",
                        metadata: ["shard": "\(self.tag)", "error": "\(error)"]
                    )
                }
                let pause = Self.retryPause(after: error, last: last)
                last = pause
                try? await Task.sleep(for: pause)
            }
        }
    }

    /// Returns the time before a replay is tried again. An outage ends by itself, and the shard waits for that; where an operator must act, the
    /// time doubles.
    ///
    /// - Parameter last: the time before the try that has failed; nil for the first.
    static func retryPause(after error: RedisError, last: Duration?) -> Duration {
        guard error.needsOperator, let last else { return Self.pause }
        return min(last * 2, Self.pauseMax)
    }

    /// Ends a replay.
    ///
    /// - Parameter current: the server that has the shard's slot now; nil for the one that had it before.
    private func end(_ current: Current? = nil, isReplayed: Bool = false) {
        let waiters = self.state.withLock { state in
            if let current {
                if isReplayed {
                    let pause = ReadingPause(
                        until: .now + self.readingPause,
                        former: state.origin,
                        successor: current.origin,
                        earlier: state.readingPause?.pause,
                    )
                    state.readingPause = (pause, state.replays)
                }
                // A server that was found again is known since it was found first.
                if state.server != current.server { state.origin = current.origin }
                state.server = current.server
                state.holder = current.holder ?? state.holder
            }
            state.isReplaying = false
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    private func replay(to server: RedisServerIdentity) async throws(RedisError) {
        let (calls, inHand) = self.state.withLock { (Array($0.memory.calls), $0.inHand) }
        let entries = Set(calls.compactMap(\.entry)).union(inHand())
        self.state.withLock { $0.lost.formIntersection(entries) }
        var ours = try await self.reclaim(entries, on: server)
        let (waiting, foreign) = try await self.repeat(calls, &ours, on: server)
        ours.formUnion(try await self.reclaim(Set(inHand()).subtracting(ours), on: server))
        let stillInHand = Set(inHand())
        self.state.withLock { state in
            state.waiting = waiting
            state.foreign = foreign.intersection(stillInHand)
            state.unowned = stillInHand.subtracting(ours)
        }
        self.observer.callsReplayed(calls.count - waiting.count)
        self.logger.notice(
            "another Redis server answers, or Redis was restarted: the recent writes were repeated",
            metadata: [
                "shard": "\(self.tag)", "calls": "\(calls.count)", "entries": "\(ours.count)",
                "waiting": "\(waiting.count)", "foreign": "\(foreign.count)",
            ],
        )
    }

    /// Repeats the calls that waited, because another process may have brought their entries back. An entry that is still missing is
    /// finished.
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
            self.end()
            throw error
        }
        self.end()
    }

    /// Repeats the admissions of direct sends, newest first: those that the server has forgotten are the last ones, and their publishers may be about
    /// to publish them again. Of several by one key the last one holds it.
    private func readmit(_ calls: [ReplayMemory.Call], on server: RedisServerIdentity) async throws(RedisError) {
        var keys: Set<[UInt8]> = []
        let admissions = calls.reversed().compactMap { $0.call as? AdmitSendCall }
            .filter { keys.insert($0.key).inserted }
        for first in stride(from: 0, to: admissions.count, by: Self.repeatsAtOnceMax) {
            let part = admissions[first..<min(first + Self.repeatsAtOnceMax, admissions.count)]
            let commands = Dictionary(part.map { ($0.entry, $0.command) }) { newest, _ in newest }
            let restored = try await self.entries(answered: "restored", to: commands, on: server)
            let lost = restored.filter { HashTag(ofKey: $0.stream) == self.tag }
            self.state.withLock { $0.lost.formUnion(lost) }
        }
    }

    /// Repeats calls in their order, after the admissions; those of several entries, one each, go together.
    ///
    /// - Returns: the calls whose entry is missing or another's, and the entries of which the server has another process's reports.
    private func `repeat`(
        _ calls: [ReplayMemory.Call],
        _ ours: inout Set<EntryName>,
        on server: RedisServerIdentity,
    ) async throws(RedisError) -> (waiting: [ReplayMemory.Call], foreign: Set<EntryName>) {
        var waiting: [ReplayMemory.Call] = []
        var foreign: Set<EntryName> = []
        /// The missing entries, until a call brings them back.
        var missing = Set(calls.compactMap(\.entry)).subtracting(ours)
        /// The calls that go together next.
        var together: [EntryName: RedisCommand] = [:]
        try await self.readmit(calls, on: server)
        for call in calls where !(call.call is AdmitSendCall) {
            let mustWait = call.entry.map { together[$0] != nil || call.restoresEntries } ?? true
            if mustWait || together.count == Self.repeatsAtOnceMax {
                foreign.formUnion(try await self.entries(answered: "lost", to: together, on: server))
                together = [:]
            }
            if let entry = call.entry {
                if foreign.contains(entry) { continue }
                if !ours.contains(entry), self.isLost(entry) {
                    // Nothing but its end can be written.
                    let ending = self.adapted(call.call, about: entry)
                    if ending is any EndingCall { try await self.attempt(ending.command, on: server) }
                    continue
                }
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
            if let entry = call.entry, reply?.root.element(0)?.string == "lost" { foreign.insert(entry) }
        }
        foreign.formUnion(try await self.entries(answered: "lost", to: together, on: server))
        return (waiting, foreign)
    }

    /// Sends commands together, one of each entry, and returns the entries of which the server says that word: `lost` where it has another process's
    /// reports.
    private func entries(
        answered word: String,
        to commands: [EntryName: RedisCommand],
        on server: RedisServerIdentity,
    ) async throws(RedisError) -> Set<EntryName> {
        let answers = await withTaskGroup(of: (EntryName, Result<Bool, RedisError>).self) { group in
            for (entry, command) in commands {
                group.addTask {
                    do throws(RedisError) {
                        let reply = try await self.attempt(command, on: server)
                        return (entry, .success(reply?.root.element(0)?.string == word))
                    } catch {
                        return (entry, .failure(error))
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        var found: Set<EntryName> = []
        for (entry, answer) in answers { found.formUnion(try answer.get() ? [entry] : []) }
        return found
    }

    /// Makes an entry in hand ours again that the server did not give back at the last replay, if another process has brought it back.
    private func reclaimUnowned(_ entry: EntryName, on server: RedisServerIdentity) async throws(RedisError) {
        let isUnowned = self.state.withLock { $0.unowned.contains(entry) && !$0.lost.contains(entry) }
        guard isUnowned, try await self.reclaim([entry], on: server).contains(entry) else { return }
        self.state.withLock { _ = $0.unowned.remove(entry) }
    }

    /// Returns entries of one stream by their ids, in parts of which each has as many as one call may name, and no id twice.
    private static func parts(_ names: [EntryName]) -> [[String: EntryName]] {
        var parts: [[String: EntryName]] = []
        for name in names {
            let free = parts.firstIndex { $0.count < StreamLimits.renewEntriesMax && $0[name.id] == nil }
            if let free { parts[free][name.id] = name } else { parts.append([name.id: name]) }
        }
        return parts
    }

    /// Makes entries ours again and returns those that exist.
    private func reclaim(
        _ entries: Set<EntryName>,
        on server: RedisServerIdentity
    ) async throws(RedisError) -> Set<EntryName> {
        var ours: Set<EntryName> = []
        for (stream, names) in Dictionary(grouping: entries, by: \.stream) {
            for part in Self.parts(names) {
                let call = ReclaimEntriesCall(
                    keys: [stream],
                    consumer: self.consumer,
                    leaseMilliseconds: self.leaseMilliseconds,
                    entries: Array(part.values),
                )
                guard let reply = try await self.attempt(call.command, on: server) else { continue }
                ours.formUnion(try reply.root.texts().compactMap { part[$0] })
            }
        }
        return ours
    }

    /// Sends a command; returns nil when the server refused it, as when a stream is gone with all that it held.
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
