internal import ApusCore
internal import ApusMetrics
internal import ApusRedis
internal import ApusStreams
internal import Logging

/// Sees to it that every send ends: looks, from time to time, at those that have not, and ends one of which nothing is left.
///
/// That never happens while Redis keeps what it was told: an outcome is written with the bit that asks for it. It happens when Redis
/// comes back without its last writes, or when somebody deletes streams. Without this, such a send would be under way for ever, and
/// its body, with all of its words, would stay.
struct SendSweeper: Sendable {
    /// How often a shard is looked at, at most.
    static let intervalMax = Duration.seconds(300)

    let streams: SendStreams
    /// For how long nothing may have happened to a send.
    let silenceMilliseconds: Int64
    let metrics: FeedbackMetrics
    let shared: SharedMetrics
    let clock: any WallClock
    let logger: Logger

    /// How often a shard is looked at, by whichever process comes first.
    private var interval: Duration { min(Self.intervalMax, .milliseconds(max(1_000, self.silenceMilliseconds / 4))) }

    /// Works until it is cancelled. Not at once: what this process was started for is more urgent.
    func run() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: self.interval)
            guard !Task.isCancelled else { return }
            do {
                for shard in 0..<self.streams.keyspace.queueShards {
                    let tag = self.streams.keys(shard: shard).tag
                    let milliseconds = Int64(self.interval / .milliseconds(1))
                    guard try await self.streams.lostSends.beginSweep(tag: tag, withinMilliseconds: milliseconds) else {
                        continue
                    }
                    try await self.sweep(tag)
                }
            } catch {
                guard !Task.isCancelled else { return }
                self.logger.warning("lost sends not looked for, will repeat", metadata: ["error": "\(error)"])
            }
        }
    }

    /// Looks at every send of a shard that has not ended. One that cannot be looked at keeps no other from it.
    ///
    /// - Returns: how many were ended.
    @discardableResult
    func sweep(_ tag: HashTag) async throws -> Int {
        let routes = try await self.streams.routes.all()
        var (cursor, count) = ("0", 0)
        repeat {
            let page = try await self.streams.lostSends.openSends(tag: tag, cursor: cursor)
            cursor = page.cursor
            for send in page.sends {
                do {
                    if try await self.ends(send, tag, routes) { count += 1 }
                } catch {
                    let isOutage = (error as? any RedisFailure)?.redis?.isOutage ?? false
                    guard !isOutage, !Task.isCancelled else { throw error }
                    self.logger.warning(
                        "a silent send not looked at, will repeat",
                        metadata: ["send": "\(send.id)", "app": "\(send.app)", "error": "\(error)"]
                    )
                }
            }
        } while cursor != "0" && !Task.isCancelled
        return count
    }

    /// Looks at one send; whether it was ended.
    private func ends(
        _ send: SendKey,
        _ tag: HashTag,
        _ routes: [(number: RouteNumber, name: String)],
    ) async throws -> Bool {
        let sweeping = try await self.streams.lostSends.close(
            send,
            tag: tag,
            silenceMilliseconds: self.silenceMilliseconds,
            routes: routes,
            now: self.clock.now(),
        )
        switch sweeping {
        case .closed:
            self.shared.add(to: self.metrics.sendsLost)
            self.logger.error(
                "nothing was left of a send under way: it is ended, and whoever has no outcome failed as unknown",
                metadata: ["send": "\(send.id)", "app": "\(send.app)"]
            )
            return true
        case .much:
            self.logger.warning(
                "too much waits to look for a silent send",
                metadata: ["send": "\(send.id)", "app": "\(send.app)"]
            )
            return false
        case .gone, .fresh, .moved, .left: return false
        }
    }
}
