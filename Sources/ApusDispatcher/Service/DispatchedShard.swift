internal import ApusCore
internal import ApusMetrics
internal import ApusStreams
internal import Logging
internal import NIOCore

/// One queue shard as the dispatcher runs it: its streams, and what is due in it.
struct DispatchedShard: Sendable {
    /// Handles what is bulk.
    private let handler: DispatchHandler
    private let consumer: ShardConsumer
    /// The streams of each lane, with the batches of outcomes at which they are paused.
    private let lanes: [(lane: Lane, streams: [String], outcomesMax: Int)]
    private let logger: Logger

    /// The maximum of plans of one route in hand.
    private static let plansInHandMax = 2
    /// The maximum time for moving due entries after everything else has ended.
    private static let movingEndMax = Duration.milliseconds(100)

    /// Creates a shard that is not running yet; the handlers differ in what they send with: threads and connections.
    init(
        express: DispatchHandler,
        bulk: DispatchHandler,
        routes: [RouteNumber],
        gate: PoisonGate,
        replayLog: ReplayLog,
        observer: any StreamObserver,
        logger: Logger,
    ) {
        self.handler = bulk
        self.logger = logger
        let keys = bulk.keys
        let publishers = bulk.publishers.names
        let expressStreams = Set(keys.mailboxes(.express, publishers) + routes.map { keys.work($0, .express) })
        let feeds = Self.feeds(keys, routes, publishers, bulk.settings) { $0 == .express ? express.site : bulk.site }
        let bulkStreams = feeds.map(\.stream).filter { !expressStreams.contains($0) }
        self.lanes = [
            (.express, Array(expressStreams), StreamLimits.outcomesWaitingForExpressMax),
            (.bulk, bulkStreams, StreamLimits.outcomesWaitingMax),
        ]
        self.consumer = ShardConsumer(
            tag: keys.tag,
            streams: express.streams,
            consumer: bulk.consumer,
            feeds: feeds,
            leaseMilliseconds: bulk.settings.leaseMilliseconds,
            gate: gate,
            replayLog: replayLog,
            observer: observer,
            logger: logger,
        ) { entry, turn in
            try await (expressStreams.contains(entry.stream) ? express : bulk).handle(entry, turn)
        }
    }

    /// Returns the streams to read. Each has a credit of its own: one that is stuck keeps no other waiting.
    static func feeds(
        _ keys: StreamKeys,
        _ routes: [RouteNumber],
        _ publishers: [PublisherName],
        _ settings: DispatcherSettings,
        _ site: (Lane) -> ShardConsumer.Site?,
    ) -> [ShardConsumer.Feed] {
        var feeds: [ShardConsumer.Feed] = []
        func add(
            _ stream: String,
            _ lane: Lane,
            inHandMax: Int,
            waitingMax: Int = StreamLimits.waitingInHandMax,
            countPerRead: Int,
            watch: ShardConsumer.Feed.Watch = .common
        ) {
            feeds.append(
                ShardConsumer.Feed(
                    stream,
                    inHandMax: inHandMax,
                    waitingMax: waitingMax,
                    countPerRead: countPerRead,
                    watch: watch,
                    site: site(lane),
                )
            )
        }
        for lane in Lane.allCases {
            let shared = (
                stream: keys.mailbox(lane), watch: lane == .express ? ShardConsumer.Feed.Watch.urgent : .common
            )
            let own = publishers.map {
                (stream: keys.mailbox(lane, of: $0), watch: ShardConsumer.Feed.Watch.foreign)
            }
            for (stream, watch) in [shared] + own {
                add(stream, lane, inHandMax: settings.commandsInHandMax, countPerRead: 64, watch: watch)
            }
        }
        for route in routes {
            add(keys.plan(route), .bulk, inHandMax: Self.plansInHandMax, countPerRead: 1)
            for lane in Lane.allCases {
                add(
                    keys.work(route, lane),
                    lane,
                    inHandMax: settings.unitsInHandMax,
                    waitingMax: StreamLimits.waitingUnitsInHandMax,
                    countPerRead: 2,
                )
            }
        }
        return feeds
    }

    func run() async {
        let moving = Task(executorPreference: self.handler.site.executor) { await self.moveDue() }
        let looking = Task(executorPreference: self.handler.site.executor) { await self.watchOutcomes() }
        await self.consumer.run()
        looking.cancel()
        // It has ended by now, unless Redis is away: then nothing depends on the answer it waits for.
        await firstWithin(Self.movingEndMax) { await moving.value }
    }

    func stop() { self.consumer.stop() }

    /// Pauses what makes outcomes while too many wait for feedback, so that a Redis without feedback does not fill up.
    private func watchOutcomes() async {
        let (keys, metrics) = (self.handler.keys, self.handler.instruments)
        var paused: Set<Lane> = []
        while (try? await Task.sleep(for: StreamLimits.outcomesLookPause)) != nil {
            guard let waiting = try? await self.handler.streams.entries.count(of: keys.outcomes, tag: keys.tag) else {
                continue
            }
            for (lane, streams, most) in self.lanes {
                let mustPause = waiting >= (paused.contains(lane) ? most / 4 * 3 : most)
                guard mustPause != paused.contains(lane) else { continue }
                if mustPause { paused.insert(lane) } else { paused.remove(lane) }
                self.consumer.pause(streams, mustPause)
                metrics.shared.add(mustPause ? 1 : -1, to: metrics.metrics.pausedShards[lane])
                let metadata: Logger.Metadata = [
                    "shard": "\(keys.tag)", "lane": "\(lane.name)", "waiting": "\(waiting)",
                ]
                if mustPause {
                    self.logger.error("too many outcomes wait for feedback: a lane is not read", metadata: metadata)
                } else {
                    self.logger.notice("feedback has caught up: a lane is read again", metadata: metadata)
                }
            }
        }
        for lane in paused { metrics.shared.add(-1, to: metrics.metrics.pausedShards[lane]) }
    }

    /// The maximum number of looks for due messages in a row that are left out while none is near. What another process schedules for sooner
    /// is moved that much later.
    static let dueLooksSkippedMax = 4

    /// Returns how many looks for due messages are left out.
    ///
    /// - Parameters:
    ///   - next: the time in milliseconds until the next message is due; nil for none.
    ///   - interval: that between two looks.
    static func dueLooksSkipped(next: Int64?, interval: Int64) -> Int {
        guard let next else { return Self.dueLooksSkippedMax }
        return Int(min(Int64(Self.dueLooksSkippedMax), max(0, next / interval)))
    }

    private func moveDue() async {
        let interval = self.handler.settings.dueMilliseconds
        while !self.consumer.isStopping {
            var skipped = 0
            do {
                let result = try await self.handler.streams.work.moveDue(tag: self.handler.keys.tag)
                if result.moved == StreamLimits.dueBatchMax { continue }
                skipped = Self.dueLooksSkipped(next: result.nextMilliseconds, interval: interval)
            } catch {
                self.logger.warning("cannot move due entries", metadata: ["error": "\(error)"])
            }
            // All shards of a thread in one turn.
            await self.handler.site.executor.tick(every: .milliseconds(interval), skipping: skipped)
        }
    }
}
