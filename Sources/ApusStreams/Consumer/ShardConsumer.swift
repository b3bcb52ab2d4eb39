internal import ApusCore
package import ApusRedis
package import Logging
internal import NIOCore
internal import Synchronization

/// Runs one queue shard for one consumer: reads its streams, keeps what is in hand, takes over what others left.
///
/// Entries are handled concurrently, each feed within its own credit; when that is used up, its stream is not read. An entry whose
/// handling throws begins again here, as ``EntryRetry`` says, and as the same delivery; given up, it stays pending and comes back after a lease.
package final class ShardConsumer: Sendable {
    /// Handles an entry completely, its acknowledgement included. An entry with a ``StreamEntry/burial`` is to be buried.
    package typealias Handle = @Sendable (StreamEntry, EntryTurn) async throws -> Void

    private struct State {
        var scheduler: FetchScheduler
        /// The blocking reads that have nothing to wait for, by group.
        var sleepers: [Int: CheckedContinuation<Void, Never>] = [:]
        /// The groups whose blocking read is being interrupted.
        var interrupting: Set<Int> = []
        var quietWaiter: CheckedContinuation<Void, Never>?
        /// True when the end of lingering is scheduled.
        var isLingerTimed = false
        var isAbandoned = false
        /// The code of the last failed read, which was logged: an outage is one line, not one for each try.
        var loggedCode: RedisError.Code?
        var cursors: [String: String] = [:]
        /// The streams of which a read failed, and how often the entries that it may have delivered are still looked for.
        var rereads: [String: Int] = [:]
        /// The number of streams whose reads were not answered in time at the last look.
        var unansweredCount = 0
        /// The time at which connections were last replaced because of that.
        var reconnectedAt: ContinuousClock.Instant?
        /// The time of the first call of `stop`.
        var stoppedAt: ContinuousClock.Instant?
    }

    let tag: HashTag
    let streams: SendStreams
    let consumer: StreamConsumer
    private let feeds: [Feed]
    private let reader: StreamReader
    /// The executors and readers of the feeds that have a site, by stream.
    private let sites: [String: (executor: LoopExecutor, reader: StreamReader)]
    /// The streams of which one entry at a time is handled, in their order.
    private let orderedStreams: Set<String>
    private let leaseMilliseconds: Int64
    private let silenceMax: Duration
    private let gate: PoisonGate
    let replayLog: ReplayLog?
    private let observer: any StreamObserver
    let logger: Logger
    private let handle: Handle
    private let watchers: [Watcher]
    private let rest: TimeAmount?
    private let state: Mutex<State>

    /// The maximum wait of a blocking read. One that must end sooner is interrupted; a dead server is noticed by it.
    private static let blockMillisecondsMax: Int64 = 2_000
    /// The maximum time that an emptied stream waits for the end of an entry before it joins the blocking read.
    private static let lingerPause = Duration.milliseconds(20)
    private static let interruptionPauseMin = Duration.milliseconds(1)
    private static let interruptionPauseMax = Duration.milliseconds(64)
    /// The maximum wait after `stop` for answers of Redis that nothing in hand depends on.
    static let lastAnswersMax = Duration.seconds(1)
    /// The maximum time for leaving the group with nothing in hand.
    static let leavingMax = Duration.milliseconds(500)
    /// The maximum time for closing connections after that: one that is being made ends by itself.
    static let closingMax = Duration.milliseconds(100)
    /// The maximum time for handing entries back when the consumer was abandoned.
    static let handingBackMax = Duration.seconds(3)

    /// Creates a consumer that is not running yet.
    ///
    /// - Parameters:
    ///   - gate: the one of the process.
    ///   - rest: how often blocking reads end at most, as far as nothing is known to be waiting: shards of one site that rest alike read
    ///     in the same turn of its loop. Nil: each as soon as the last has ended. Only for feeds with a site.
    ///   - replayLog: what is repeated when the server has changed; nil: nothing, because lost writes do themselves again.
    ///   - silenceMax: consumers that asked for nothing for longer are taken off the streams, if they own nothing.
    package init(
        tag: HashTag,
        streams: SendStreams,
        consumer: StreamConsumer,
        feeds: [Feed],
        leaseMilliseconds: Int64,
        rest: Duration? = nil,
        gate: PoisonGate = PoisonGate(),
        replayLog: ReplayLog? = nil,
        silenceMax: Duration = StreamLimits.consumerSilenceMax,
        observer: any StreamObserver,
        logger: Logger,
        handle: @escaping Handle,
    ) {
        precondition(leaseMilliseconds >= 200)
        self.tag = tag
        self.streams = streams
        self.consumer = consumer
        self.feeds = feeds
        self.reader = StreamReader(client: streams.client, tag: tag, consumer: consumer)
        let sites = feeds.compactMap { feed in
            feed.site.map { site in
                (feed.stream, (site.executor, StreamReader(client: site.client, tag: tag, consumer: consumer)))
            }
        }
        self.sites = Dictionary(uniqueKeysWithValues: sites)
        self.orderedStreams = Set(feeds.filter { $0.inHandMax == 1 }.map(\.stream))
        self.leaseMilliseconds = leaseMilliseconds
        self.rest = rest.map(TimeAmount.init)
        self.silenceMax = silenceMax
        self.gate = gate
        self.replayLog = replayLog
        self.observer = observer
        self.logger = logger
        self.handle = handle
        let scheduler = FetchScheduler(feeds, now: .now)
        self.watchers = scheduler.groups.map { Watcher($0.map { feeds[$0] }, streams.client, tag) }
        self.state = Mutex(State(scheduler: scheduler))
        replayLog?.attach { [weak self] in
            self?.state.withLock { $0.scheduler.namesInHand } ?? []
        }
    }

    /// True when `stop` was called: what is in hand is to end soon.
    package var isStopping: Bool { self.state.withLock { $0.scheduler.isStopped } }

    /// Reads and begins nothing more; `run` returns when nothing is in hand. Where Redis is away and nothing in hand waits for it, neither
    /// does `run`.
    package func stop() {
        let (waiting, isFirst) = self.state.withLock { state in
            let isFirst = state.stoppedAt == nil
            if isFirst { state.stoppedAt = .now }
            return (state.scheduler.stop(), isFirst)
        }
        self.gate.stop()
        for entry in waiting {
            Task {
                await self.handBack(entry, wasBegun: false)
                self.ended(entry)
            }
        }
        if isFirst { Task { await self.giveUpAnswers() } }
        self.pump()
    }

    /// Reads and takes over nothing more of those streams, or again; what is in hand goes on.
    package func pause(_ streams: [String], _ isPaused: Bool) {
        self.state.withLock { $0.scheduler.pause(streams, isPaused) }
        self.pump()
    }

    private func giveUpAnswers() async {
        try? await Task.sleep(for: Self.lastAnswersMax)
        self.state.withLock { $0.scheduler.giveUpAnswers() }
        self.pump()
    }

    /// Runs until `stop`, then until nothing is in hand. When its task is cancelled it waits for nothing: what is in hand is handed back
    /// as it stands.
    package func run() async {
        // A task of its own, which nobody cancels: what is in hand keeps its lease to the end.
        let running = Task { await self.runUntilQuiet() }
        await withTaskCancellationHandler {
            await running.value
        } onCancel: {
            self.stop()
            self.state.withLock { $0.isAbandoned = true }
            self.pump()
        }
    }

    private func runUntilQuiet() async {
        let member = self.gate.join { poison in await self.excuse(besides: poison) }
        await self.ensureAll()
        let beat = Task { await self.beat() }
        self.pump()
        let watching = self.watchers.enumerated().map { number, watcher in
            Task(executorPreference: watcher.executor) { await self.watch(number, watcher) }
        }
        await self.waitUntilQuiet()
        beat.cancel()
        // Where Redis is away they wait for it, and nothing waits for them.
        let stopped = self.state.withLock { $0.stoppedAt } ?? .now
        await firstWithin(max(Self.lastAnswersMax - (.now - stopped), Self.lingerPause)) {
            for task in watching { await task.value }
            await beat.value
        }
        self.gate.resign(member)
        await self.leave()
    }

    /// Gives back the entries in hand, and leaves the groups in which the consumer then has none.
    private func leave() async {
        let closing = Task { for watcher in self.watchers { await watcher.connection.close() } }
        let left = self.inHand
        if left.isEmpty {
            let streams = self.feeds.map(\.stream)
            await firstWithin(Self.leavingMax) {
                _ = try? await self.streams.entries.remove(self.consumer, from: streams, tag: self.tag)
            }
        } else {
            await self.handBack(left)
        }
        await firstWithin(Self.closingMax) { await closing.value }
    }

    private func handBack(_ left: [(stream: String, id: String, deliveries: UInt32)]) async {
        let metadata: Logger.Metadata = [
            "shard": "\(self.tag)", "entries": "\(left.count)", "streams": "\(Set(left.map(\.stream)).sorted())",
        ]
        self.logger.warning("handing back what has not ended", metadata: metadata)
        let holdings = left.map {
            Entries.Owned(stream: $0.stream, id: $0.id, deliveriesMax: Self.deliveriesBesides($0.deliveries))
        }
        let isAbandoned = self.state.withLock { $0.isAbandoned }
        let isHandedBack = await firstWithin(isAbandoned ? Self.handingBackMax : Self.leavingMax) {
            (try? await self.streams.entries.handBack(holdings, by: self.consumer, tag: self.tag)) != nil
        }
        guard isHandedBack != true else { return }
        self.logger.error("could not hand back: others take it over when its lease is over", metadata: metadata)
    }

    /// The time that a read may block. It is far less than a lease, because entries count as held from when the read began.
    private var blockMilliseconds: Int { Int(min(Self.blockMillisecondsMax, self.leaseMilliseconds / 4)) }

    var inHand: [(stream: String, id: String, deliveries: UInt32)] { self.state.withLock { $0.scheduler.inHand } }

    private func waitUntilQuiet() async {
        await withCheckedContinuation { continuation in
            self.state.withLock { $0.quietWaiter = continuation }
            self.pump()
        }
    }

    // MARK: Reading

    /// Performs the actions of the scheduler. Call it after every change of the scheduler.
    private func pump() {
        let (reads, wakened, interrupts, mustTimeLinger) = self.state.withLock { state in
            let reads = state.scheduler.takeOwnReads()
            var wakened: [CheckedContinuation<Void, Never>] = []
            let isStopped = state.scheduler.isStopped
            for group in Array(state.sleepers.keys) where isStopped || state.scheduler.canWatch(group: group) {
                if let sleeper = state.sleepers.removeValue(forKey: group) { wakened.append(sleeper) }
            }
            if state.scheduler.isStopped, state.scheduler.isQuiet || state.isAbandoned, let waiter = state.quietWaiter {
                state.quietWaiter = nil
                wakened.append(waiter)
            }
            var interrupts: [Int] = []
            for group in 0..<state.scheduler.groupCount
            where state.scheduler.mustInterrupt(group: group) && state.interrupting.insert(group).inserted {
                interrupts.append(group)
            }
            let mustTimeLinger = !state.isLingerTimed && state.scheduler.isLingering
            if mustTimeLinger { state.isLingerTimed = true }
            return (reads, wakened, interrupts, mustTimeLinger)
        }
        for read in reads {
            Task(executorPreference: self.sites[read.stream]?.executor) { await self.perform(read) }
        }
        for group in interrupts { Task { await self.interrupt(group) } }
        if mustTimeLinger { Task { await self.endLingering() } }
        for continuation in wakened { continuation.resume() }
    }

    private func endLingering() async {
        try? await Task.sleep(for: Self.lingerPause)
        self.state.withLock { state in
            state.isLingerTimed = false
            state.scheduler.endLingering()
        }
        self.pump()
    }

    private func perform(_ read: FetchScheduler.OwnRead) async {
        var server: RedisServerIdentity?
        do {
            server = try await self.replayLog?.serverForReading()
            try await self.reread([read.stream])
            let reader = self.sites[read.stream]?.reader ?? self.reader
            let asked = ContinuousClock.now
            let entries = try await reader.read(read.stream, count: read.count, server: server)
            self.take(entries, of: [read.stream], asked: asked)
            self.state.withLock { $0.scheduler.ended(read, with: entries.count) }
        } catch {
            await self.recover(from: error, reading: [read.stream], on: server)
            self.state.withLock { $0.scheduler.ended(read, with: nil) }
        }
        self.pump()
    }

    /// Makes one group's blocking reads, one after the other.
    private func watch(_ group: Int, _ watcher: Watcher) async {
        while !self.isStopping {
            guard let watch = self.state.withLock({ $0.scheduler.watch(group: group) }) else {
                await self.sleep(group)
                continue
            }
            var counts: [String: Int] = [:]
            var server: RedisServerIdentity?
            do {
                server = try await self.replayLog?.serverForReading()
                try await self.reread(watch.streams)
                let asked = ContinuousClock.now
                let entries = try await self.reader.read(
                    watch.streams,
                    count: watch.count,
                    blockMilliseconds: self.blockMilliseconds,
                    on: watcher.connection,
                    server: server,
                )
                for entry in entries { counts[entry.stream, default: 0] += 1 }
                self.take(entries, of: watch.streams, asked: asked)
                if let rest = self.rest, let executor = watcher.executor,
                    self.state.withLock({ $0.scheduler.rests(group: group, with: counts) })
                {
                    await executor.tick(every: rest)
                }
            } catch {
                await self.recover(from: error, reading: watch.streams, on: server)
            }
            self.state.withLock { $0.scheduler.watchEnded(group: group, with: counts) }
            self.pump()
        }
    }

    private func sleep(_ group: Int) async {
        await withCheckedContinuation { continuation in
            let mustWait = self.state.withLock { state in
                guard !state.scheduler.isStopped, !state.scheduler.canWatch(group: group) else { return false }
                state.sleepers[group] = continuation
                return true
            }
            if !mustWait { continuation.resume() }
        }
    }

    /// Interrupts the blocking read until it has ended: the server may learn of an interruption sooner than of the read.
    private func interrupt(_ group: Int) async {
        var pause = Self.interruptionPauseMin
        while self.state.withLock({ $0.scheduler.mustInterrupt(group: group) }) {
            await self.watchers[group].connection.interrupt()
            guard self.state.withLock({ $0.scheduler.mustInterrupt(group: group) }) else { break }
            try? await Task.sleep(for: pause)
            pause = min(pause * 2, Self.interruptionPauseMax)
        }
        self.state.withLock { _ = $0.interrupting.remove(group) }
        self.pump()
    }

    /// Makes all groups, so that the first reads find them.
    private func ensureAll() async {
        do {
            try await self.reader.ensure(self.feeds.map(\.stream))
        } catch {
            await self.recover(from: error, reading: [])
        }
    }

    /// Restores streams and groups that have vanished, as when Redis came back empty. What was in a vanished stream is lost, which is
    /// logged as an error.
    ///
    /// - Parameter server: the server that the read was meant for; nil when it has failed before that was known.
    func recover(from error: any Error, reading streams: [String], on server: RedisServerIdentity? = nil) async {
        let code = (error as? RedisError)?.code
        if code == .serverChanged {
            guard let replayLog = self.replayLog else { return }
            // Of another server, which a replay has found since, nothing has failed.
            if let server { return await replayLog.replay(after: server) }
            if let known = try? await replayLog.server() { await replayLog.replay(after: known) }
            return
        }
        guard !self.isStopping else { return }
        let isNews = self.state.withLock { state in
            state.cursors = [:]
            for stream in streams { state.rereads[stream] = StreamLimits.rereadsMax }
            defer { state.loggedCode = code }
            return state.loggedCode != code
        }
        // A read that was unblocked says nothing yet: the stream is gone, and the next read says so, or its slot is elsewhere.
        if code == .unblocked { return }
        if code == .noGroup {
            self.observer.groupLost()
            self.logger.error(
                "a stream or its group vanished; making it again from 0",
                metadata: ["error": "\(error)", "shard": "\(self.tag)"],
            )
        } else if isNews {
            self.logger.warning("cannot read streams", metadata: ["error": "\(error)", "shard": "\(self.tag)"])
        }
        try? await Task.sleep(for: .milliseconds(Int64.random(in: 100...500)))
        if code == .noGroup {
            _ = try? await self.reader.ensure(streams)
        }
    }

    /// Takes what a failed read of those streams may have delivered. No other read of them is under way.
    private func reread(_ streams: [String]) async throws {
        let wanted = self.state.withLock { state in
            let due = Set(streams.filter { state.rereads[$0] != nil })
            guard !due.isEmpty else { return [String: [String]]() }
            var inHand = Dictionary(uniqueKeysWithValues: due.map { ($0, [String]()) })
            for entry in state.scheduler.inHand where due.contains(entry.stream) {
                inHand[entry.stream, default: []].append(entry.id)
            }
            return inHand
        }
        guard !wanted.isEmpty else { return }
        let asked = ContinuousClock.now
        let entries = try await self.streams.entries.reread(besides: wanted, by: self.consumer, tag: self.tag)
        self.state.withLock { state in
            for stream in wanted.keys {
                let left = (state.rereads[stream] ?? 1) - 1
                state.rereads[stream] = left > 0 ? left : nil
            }
            // There may be more.
            for entry in entries { state.rereads[entry.stream] = StreamLimits.rereadsMax }
        }
        for entry in entries {
            self.logger.notice(
                "read an entry again whose read was not answered",
                metadata: ["stream": "\(entry.stream)", "entry": "\(entry.id)", "deliveries": "\(entry.deliveries)"],
            )
            self.observer.entriesRead(1, stream: entry.stream)
            self.arrived(entry, ownedAt: asked)
        }
    }

    // MARK: Entries

    /// Begins what a read has brought.
    ///
    /// - Parameters:
    ///   - streams: those that were read.
    ///   - asked: before that they were nobody's. This process may have been frozen between the answer and now.
    private func take(_ entries: [StreamEntry], of streams: [String], asked: ContinuousClock.Instant) {
        for entry in entries {
            self.observer.entriesRead(1, stream: entry.stream)
            self.arrived(entry, ownedAt: asked)
        }
        self.state.withLock { state in
            state.loggedCode = nil
            state.scheduler.recordAnswer(for: streams, now: .now)
        }
    }

    private func arrived(_ entry: StreamEntry, ownedAt: ContinuousClock.Instant) {
        if self.state.withLock({ $0.scheduler.arrived(entry, ownedAt: ownedAt) }) == .begin { self.begin(entry) }
    }

    private func begin(_ entry: StreamEntry) {
        Task(executorPreference: self.sites[entry.stream]?.executor) {
            var (turn, retry) = (entry, EntryRetry())
            while let failure = await self.handleInTurn(turn) {
                guard let again = await self.again(turn, after: failure, &retry) else { break }
                turn = again
            }
            self.ended(entry)
        }
    }

    /// Returns an entry that has failed, to begin again; nil when its handling is given up.
    private func again(
        _ entry: StreamEntry,
        after failure: Disposition,
        _ retry: inout EntryRetry
    ) async -> StreamEntry? {
        if let pause = retry.pause(after: failure, of: entry) {
            if let again = await self.takeAgain(entry, after: pause) { return again }
        } else if failure.isOutage {
            self.handled(entry)
            await self.excuse(entry)
        }
        await self.gaveUp(entry)
        return nil
    }

    /// Handles an entry in its turn, or hands it back when nothing may begin any more. Returns why it was not handled, nil when it was.
    private func handleInTurn(_ entry: StreamEntry) async -> Disposition? {
        guard let ticket = await self.gate.enter(entry) else {
            self.handled(entry)
            await self.handBack(entry, wasBegun: false)
            return nil
        }
        defer { self.gate.leave(ticket) }
        let begun = ContinuousClock.now
        let turn = EntryTurn(
            isStopping: { self.isStopping },
            progressed: { self.gate.progressed(ticket) },
            waits: { self.waits(entry, $0) },
            ownedAt: { self.state.withLock { $0.scheduler.ownedAt(entry) } ?? begun },
        )
        do {
            if entry.isPoison { try await self.streams.entries.begin(entry, by: self.consumer, tag: self.tag) }
            try await self.handleOrBury(entry, turn)
            return nil
        } catch {
            self.logger.error(
                "entry not handled; it begins again now or after a lease",
                metadata: ["stream": "\(entry.stream)", "entry": "\(entry.id)", "error": "\(error)"],
            )
            return Disposition(of: error)
        }
    }

    /// Takes an entry again, as Redis has it now, that has failed; nil when it is another's by now, Redis refuses that, or this process stops.
    /// Meanwhile it stays in hand, and others are read in its place, because it may have failed for another server than theirs; but not in a
    /// feed that keeps its order.
    private func takeAgain(_ entry: StreamEntry, after pause: Duration) async -> StreamEntry? {
        self.handled(entry)
        if !self.orderedStreams.contains(entry.stream) { self.waits(entry, true) }
        var refusals = 0
        while !self.isStopping {
            try? await Task.sleep(for: pause)
            guard !self.isStopping else { break }
            let asked = ContinuousClock.now
            do {
                let again = try await self.streams.entries.takeAgain(entry, by: self.consumer, tag: self.tag)
                guard let again else { return nil }
                self.state.withLock { $0.scheduler.tookAgain(again, ownedAt: asked) }
                self.waits(entry, false)
                return again
            } catch {
                if !Disposition(of: error).isOutage { refusals += 1 }
                guard refusals <= StreamLimits.refusalsPerDeliveryMax else { return nil }
            }
        }
        await self.handBack(entry, wasBegun: true)
        return nil
    }

    /// Handles an entry, and once more as refused when it can never be handled: then its handler buries it.
    private func handleOrBury(_ entry: StreamEntry, _ turn: EntryTurn) async throws {
        do {
            try await self.handle(entry, turn)
        } catch {
            guard Disposition(of: error) == .bury else { throw error }
            try await self.handle(entry.refused(because: error), turn)
        }
    }

    /// Records that an entry was handled: only its acknowledgement is missing.
    private func handled(_ entry: StreamEntry) {
        self.state.withLock { $0.scheduler.handled(entry) }
        self.pump()
    }

    private func waits(_ entry: StreamEntry, _ isWaiting: Bool) {
        let next = self.state.withLock { $0.scheduler.waits(entry, isWaiting) }
        if let next { self.begin(next) }
        self.pump()
    }

    private func ended(_ entry: StreamEntry) {
        self.replayLog?.ended(entry.name)
        let next = self.state.withLock { $0.scheduler.ended(entry) }
        if let next { self.begin(next) }
        self.pump()
    }

    // MARK: Leases

    /// Renews leases at every beat: what is in hand stays ours, however long a provider or a full stream keeps it waiting; what others left
    /// is taken over; now and then consumers that are gone are taken off.
    private func beat() async {
        // More often than half a lease: a longer pause reads as "Redis was frozen" and grants everybody an amnesty.
        let interval = Duration.milliseconds(max(50, min(self.leaseMilliseconds / 4, 1_000)))
        var sweptAt: ContinuousClock.Instant?
        while !Task.isCancelled {
            try? await Task.sleep(for: interval)
            guard !Task.isCancelled else { return }
            // First: what follows waits for Redis.
            self.checkReads()
            await self.renew()
            guard !self.isStopping else { continue }
            await self.takeOver()
            if sweptAt.map({ .now - $0 >= self.silenceMax }) ?? true {
                sweptAt = .now
                await self.sweep()
            }
        }
    }

    /// Reports streams that should be read and are not, whatever the cause, and replaces the connections that should read them.
    private func checkReads() {
        let now = ContinuousClock.now
        let (unanswered, isNews, mustReconnect) = self.state.withLock { state in
            let streams = state.scheduler.unansweredStreams(for: StreamLimits.readSilenceMax, now: now)
            let isNews = streams.count != state.unansweredCount
            state.unansweredCount = streams.count
            let isDue = state.reconnectedAt.map { now - $0 >= StreamLimits.readSilenceMax } ?? true
            if !streams.isEmpty, isDue { state.reconnectedAt = now }
            return (streams, isNews, !streams.isEmpty && isDue)
        }
        if isNews {
            self.observer.readsUnanswered(unanswered.count, shard: self.tag)
            if unanswered.isEmpty {
                self.logger.notice("streams are read again", metadata: ["shard": "\(self.tag)"])
            }
        }
        guard mustReconnect else { return }
        self.logger.error(
            "streams were not read for \(StreamLimits.readSilenceMax.components.seconds) s; connecting anew",
            metadata: [
                "shard": "\(self.tag)", "streams": "\(unanswered.count)", "first": "\(unanswered[0])",
                "last_error": "\(self.state.withLock { $0.loggedCode?.description } ?? "none")",
            ],
        )
        // They are not awaited: leases are renewed on time whatever becomes of them.
        Task {
            for watcher in self.watchers { await watcher.connection.reconnect() }
            for client in [self.streams.client] + self.feeds.compactMap(\.site?.client) {
                await client.reconnect(for: self.tag, olderThan: StreamLimits.readSilenceMax)
            }
        }
    }

    private func renew() async {
        let now = ContinuousClock.now
        let due = self.state.withLock { $0.scheduler.due(for: .milliseconds(self.leaseMilliseconds / 4), now: now) }
        guard !due.isEmpty else { return }
        do {
            if try await self.streams.entries.renew(due, by: self.consumer, tag: self.tag) == due.count {
                return self.state.withLock { $0.scheduler.renewed(due, now: now) }
            }
            // Some are another's by now: which ones is asked one by one.
            for holding in due
            where try await self.streams.entries.renew([holding], by: self.consumer, tag: self.tag) == 1 {
                self.state.withLock { $0.scheduler.renewed([holding], now: now) }
            }
        } catch {
            self.logger.warning("cannot renew leases", metadata: ["shard": "\(self.tag)", "error": "\(error)"])
        }
    }

    private func takeOver() async {
        guard self.gate.isOpen else { return }
        let (room, cursors) = self.state.withLock { ($0.scheduler.claimable, $0.cursors) }
        for first in stride(from: 0, to: room.count, by: StreamLimits.streamsPerReadMax) {
            let requests = room[first..<min(first + StreamLimits.streamsPerReadMax, room.count)].map {
                Entries.ClaimRequest($0.stream, count: $0.count, cursor: cursors[$0.stream] ?? "0-0")
            }
            let asked = ContinuousClock.now
            do {
                let claims = try await self.streams.entries.claim(
                    requests,
                    by: self.consumer,
                    tag: self.tag,
                    leaseMilliseconds: self.leaseMilliseconds,
                )
                for (request, claim) in zip(requests, claims) {
                    self.state.withLock { $0.cursors[request.stream] = claim.cursor }
                    self.take(claim, request.stream, asked: asked)
                }
            } catch {
                self.state.withLock { $0.cursors = [:] }
                self.logger.warning("cannot claim entries", metadata: ["shard": "\(self.tag)", "error": "\(error)"])
            }
        }
    }

    private func take(_ claim: Entries.Claim, _ stream: String, asked: ContinuousClock.Instant) {
        for entry in claim.entries {
            self.observer.entryClaimed(stream: stream)
            self.logger.notice(
                "took over an entry",
                metadata: ["stream": "\(stream)", "entry": "\(entry.id)", "deliveries": "\(entry.deliveries)"],
            )
            self.arrived(entry, ownedAt: asked)
        }
        guard !claim.vanished.isEmpty else { return }
        self.observer.entriesVanished(claim.vanished.count, stream: stream)
        self.logger.error(
            "entries vanished before they were acknowledged: their work is lost",
            metadata: ["stream": "\(stream)", "count": "\(claim.vanished.count)"],
        )
    }

    /// Takes consumers off that have been gone for long and own nothing.
    private func sweep() async {
        for feed in self.feeds {
            let silent = try? await self.streams.entries.silentConsumers(
                of: feed.stream,
                group: self.consumer.group,
                idleMilliseconds: Int64(self.silenceMax / .milliseconds(1)),
                tag: self.tag,
            )
            for consumer in silent ?? [] where consumer != self.consumer {
                _ = try? await self.streams.entries.remove(consumer, from: [feed.stream], tag: self.tag)
            }
        }
    }
}
