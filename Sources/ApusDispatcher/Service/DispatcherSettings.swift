package import ApusService
internal import ApusStreams

/// The dispatcher's own numbers. Relations between them are checked when they are made.
package struct DispatcherSettings: ServiceSettings {
    /// How long an owner may be silent before others take its work; a `kill -9` costs this much delay.
    package var leaseMilliseconds: Int64
    /// How often progress is written while there is some: what a `kill -9` repeats is bounded by the window plus rate × this.
    package var flushMilliseconds: Int64
    /// How often an owner speaks up without progress.
    package var heartbeatMilliseconds: Int64
    /// How often retries and scheduled sends are looked for.
    package var dueMilliseconds: Int64
    /// Work units of one route and lane in hand at once, of each queue shard: one on the wire, the next read meanwhile.
    package var unitsInHandMax: Int
    /// Mailbox entries of one queue shard in hand at once.
    package var commandsInHandMax: Int
    /// Recipients of a route that may be unwritten at once on one event loop: on the wire, or answered and not yet durable. A `kill -9`
    /// repeats at most so many of each route and event loop.
    package var window: Int
    /// Bytes of the last minute of writes that are kept, to write them again after a failover of Redis. 0: none.
    package var replayBytesMax: Int
    /// How long no dispatcher must have had a route configured before what is left of it ends as `no_route`.
    package var removedRouteMilliseconds: Int64

    /// Settings.
    package init(
        leaseMilliseconds: Int64 = 10_000,
        flushMilliseconds: Int64 = 10,
        heartbeatMilliseconds: Int64 = 1_000,
        dueMilliseconds: Int64 = 100,
        unitsInHandMax: Int = 2,
        commandsInHandMax: Int = 256,
        window: Int = Self.defaultWindow,
        replayBytesMax: Int = StreamLimits.replayBytesMax,
        removedRouteMilliseconds: Int64 = Self.defaultRemovedRouteMilliseconds,
    ) {
        precondition(flushMilliseconds > 0 && flushMilliseconds <= heartbeatMilliseconds)
        precondition(heartbeatMilliseconds * 2 < leaseMilliseconds, "an owner must be able to miss a rateLimit")
        precondition(unitsInHandMax > 0 && commandsInHandMax > 0)
        precondition(window >= SendWindow.reserveParts)
        self.leaseMilliseconds = leaseMilliseconds
        self.flushMilliseconds = flushMilliseconds
        self.heartbeatMilliseconds = heartbeatMilliseconds
        self.dueMilliseconds = dueMilliseconds
        self.unitsInHandMax = unitsInHandMax
        self.commandsInHandMax = commandsInHandMax
        self.window = window
        self.replayBytesMax = replayBytesMax
        self.removedRouteMilliseconds = removedRouteMilliseconds
    }

    package static var reservedEventLoops: Int { DispatchLoops.reserved }

    /// What a fast route has on the wire and in its journal's next write.
    package static let defaultWindow = 2_000

    /// Longer than dispatchers are away that alone have a route, and than a configuration stays wrong.
    package static let defaultRemovedRouteMilliseconds: Int64 = 3_600_000

    /// Reads them from `dispatcher.…`; mistakes are noted with the reader.
    package init(_ reader: SettingsReader) {
        func milliseconds(_ key: String, _ standard: Int64, _ range: ClosedRange<Duration>) -> Int64 {
            let duration = reader.duration("dispatcher.\(key)", default: .milliseconds(standard), in: range)
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
        )
    }
}
