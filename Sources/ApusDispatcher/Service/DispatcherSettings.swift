internal import ApusCore
internal import ApusProviders
package import ApusService
package import ApusStreams
internal import Logging
internal import NIOPosix

/// The settings that only the dispatcher has. Relations between them are checked on creation.
package struct DispatcherSettings: ServiceSettings {
    /// The lease of an owner in milliseconds: others take over its work after this much silence. A `kill -9` delays the
    /// work by as much.
    package var leaseMilliseconds: Int64
    /// The interval at which progress is written. It limits what a `kill -9` repeats to the window plus the rate times
    /// this interval.
    package var flushMilliseconds: Int64
    /// The interval at which an owner renews its lease without progress.
    package var heartbeatMilliseconds: Int64
    /// The interval at which retries and scheduled sends become due.
    package var dueMilliseconds: Int64
    /// The maximum number of work units in hand per route, lane and queue shard: one is sent while the next is read.
    package var unitsInHandMax: Int
    /// The maximum number of mailbox entries in hand per queue shard.
    package var commandsInHandMax: Int
    /// The maximum number of unwritten recipients of a route on one event loop: in flight, or answered and not yet
    /// durable. A `kill -9` repeats at most this many per route and event loop.
    package var window: Int
    /// The maximum age of a recipient's record when it is sent to. The records of recipients that waited longer are
    /// read again.
    package var recheckMilliseconds: Int64
    /// The minimum time for which an idempotency key, or an id, counts: within it the same command again is the same send.
    package var idempotencyMilliseconds: Int64
    /// The maximum number of bytes of the last minute's writes that are kept to repeat them after a failover of Redis;
    /// 0 for none.
    package var replayBytesMax: Int
    /// The time that no dispatcher must have had a route configured before what is left of it ends as `no_route`.
    package var removedRouteMilliseconds: Int64

    /// The limits of what each app may have open at once, in all shards together.
    package var openLimits: OpenSendLimits

    /// The number of threads that encrypt messages for their recipients; 0 for one less than there are cores.
    package var cryptoThreads: Int

    /// Creates settings. Traps on values that contradict each other.
    package init(
        leaseMilliseconds: Int64 = 10_000,
        flushMilliseconds: Int64 = 10,
        heartbeatMilliseconds: Int64 = 1_000,
        dueMilliseconds: Int64 = 100,
        unitsInHandMax: Int = 2,
        commandsInHandMax: Int = 256,
        window: Int = Self.defaultWindow,
        recheckMilliseconds: Int64 = 2_000,
        idempotencyMilliseconds: Int64 = 24 * 3_600_000,
        replayBytesMax: Int = StreamLimits.replayBytesMax,
        removedRouteMilliseconds: Int64 = Self.defaultRemovedRouteMilliseconds,
        openLimits: OpenSendLimits = .none,
        cryptoThreads: Int = 0,
    ) {
        precondition(flushMilliseconds > 0 && flushMilliseconds <= heartbeatMilliseconds)
        precondition(heartbeatMilliseconds * 2 < leaseMilliseconds, "an owner must be able to miss a heartbeat")
        precondition(unitsInHandMax > 0 && commandsInHandMax > 0)
        precondition(window >= SendWindow.reserveParts)
        self.leaseMilliseconds = leaseMilliseconds
        self.flushMilliseconds = flushMilliseconds
        self.heartbeatMilliseconds = heartbeatMilliseconds
        self.dueMilliseconds = dueMilliseconds
        self.unitsInHandMax = unitsInHandMax
        self.commandsInHandMax = commandsInHandMax
        self.window = window
        self.recheckMilliseconds = recheckMilliseconds
        self.idempotencyMilliseconds = idempotencyMilliseconds
        self.replayBytesMax = replayBytesMax
        self.removedRouteMilliseconds = removedRouteMilliseconds
        self.openLimits = openLimits
        self.cryptoThreads = cryptoThreads
    }

    /// The maximum of `crypto_threads`.
    static let cryptoThreadsMax = 256

    package static var reservedEventLoops: Int { DispatchLoops.reserved }

    /// The number of recipients that a fast route has in flight and in its journal's next write.
    package static let defaultWindow = 2_000

    /// The default of `removed_route_after`: longer than dispatchers are away that alone have a route, and than a configuration stays wrong.
    package static let defaultRemovedRouteMilliseconds: Int64 = 3_600_000

    /// The default of `open_sends_per_app`: one for each of a million users that is to be reminded of something.
    package static let defaultOpenSends = 1_000_000

    /// The default of `open_bytes_per_app`: some 500 bytes for each of them.
    package static let defaultOpenBytes = 500_000_000

    /// Reads the settings from `dispatcher.…`. Errors are reported to the reader.
    package init(_ reader: SettingsReader) {
        func milliseconds(_ key: String, _ defaultMilliseconds: Int64, _ range: ClosedRange<Duration>) -> Int64 {
            let duration = reader.duration("dispatcher.\(key)", default: .milliseconds(defaultMilliseconds), in: range)
            return Int64(duration / .milliseconds(1))
        }
        let lease = milliseconds("lease", 10_000, .milliseconds(400) ... .seconds(600))
        let heartbeat = milliseconds("heartbeat", min(1_000, lease / 4), .milliseconds(10) ... .seconds(60))
        let flush = milliseconds("flush_interval", 10, .milliseconds(1) ... .seconds(1))
        if heartbeat * 2 >= lease { reader.issue("dispatcher.heartbeat", "must be less than half of dispatcher.lease") }
        if flush > heartbeat { reader.issue("dispatcher.flush_interval", "must not be above dispatcher.heartbeat") }
        let isSound = heartbeat * 2 < lease && flush <= heartbeat
        self.init(
            leaseMilliseconds: isSound ? lease : 10_000,
            flushMilliseconds: isSound ? flush : 10,
            heartbeatMilliseconds: isSound ? heartbeat : 1_000,
            dueMilliseconds: milliseconds("due_interval", 100, .milliseconds(10) ... .seconds(10)),
            unitsInHandMax: reader.integer("dispatcher.units_in_hand", default: 2, in: 1...64),
            commandsInHandMax: reader.integer("dispatcher.commands_in_hand", default: 256, in: 1...4_096),
            window: reader.integer("dispatcher.window", default: Self.defaultWindow, in: 16...100_000),
            recheckMilliseconds: milliseconds("recheck_after", 2_000, .milliseconds(100) ... .seconds(600)),
            idempotencyMilliseconds: milliseconds(
                "idempotency_window",
                24 * 3_600_000,
                .seconds(60) ... .seconds(30 * 24 * 3_600)
            ),
            replayBytesMax: reader.integer(
                "dispatcher.replay_bytes",
                default: StreamLimits.replayBytesMax,
                in: 0...1_024 * 1_024 * 1_024,
            ),
            removedRouteMilliseconds: milliseconds(
                "removed_route_after",
                Self.defaultRemovedRouteMilliseconds,
                .seconds(1) ... .seconds(86_400),
            ),
            openLimits: OpenSendLimits(
                sends: reader.limit("dispatcher.open_sends_per_app", default: Self.defaultOpenSends),
                bytes: reader.limit("dispatcher.open_bytes_per_app", default: Self.defaultOpenBytes),
            ),
            cryptoThreads: reader.integer("dispatcher.crypto_threads", default: 0, in: 0...Self.cryptoThreadsMax),
        )
    }
}

extension DispatcherSettings {
    /// Reads the credentials of all apps as the start does, signs with their keys, and uses none of them.
    package static func issues(ofFilesIn settings: Settings<Self>) -> [SettingsIssue] {
        let factory = GatewayFactory(
            providers: .installed,
            tools: GatewayTools(
                tokens: nil,
                clock: SystemClock(),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "apus") { _ in SwiftLogNoOpLogHandler() },
            ),
        )
        return factory.issues(settings.common.apps)
    }
}
