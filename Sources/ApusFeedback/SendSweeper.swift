internal import ApusCore
internal import ApusMetrics
internal import ApusRedis
internal import ApusStreams
internal import Logging

/// Makes sure that every send ends: checks, from time to time, the sends that have not, and ends one of which nothing is left.
///
/// No such send is left over while Redis keeps every write: an outcome is written with the bit that stands for it. One is left over when
/// Redis comes back without its last writes, or when somebody deletes streams. Without the sweep it would stay open for ever, and its body
/// would be kept.
struct SendSweeper: Sendable {
    /// The minimum time between two checks of a shard.
    static let intervalMax = Duration.seconds(300)

    let streams: SendStreams
    /// The time without changes after which a send is checked.
    let silenceMilliseconds: Int64
    let metrics: FeedbackMetrics
    let shared: SharedMetrics
    let clock: any WallClock
    let logger: Logger

    /// The time between two checks of a shard, by whichever process comes first.
    private var interval: Duration { min(Self.intervalMax, .milliseconds(max(1_000, self.silenceMilliseconds / 4))) }

    /// Works until it is cancelled. It begins after a pause, because what this process was started for is more urgent.
    func run() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: self.interval)
            guard !Task.isCancelled else { return }
            await self.sweepAll()
        }
    }

    /// Checks the shards whose turn it is. One whose server does not answer delays no other.
    private func sweepAll() async {
        let milliseconds = Int64(self.interval / .milliseconds(1))
        var failed: (count: Int, error: (any Error)?) = (0, nil)
        for shard in 0..<self.streams.keyspace.queueShards {
            let tag = self.streams.keys(shard: shard).tag
            do {
                guard try await self.streams.lostSends.beginSweep(tag: tag, withinMilliseconds: milliseconds) else {
                    continue
                }
                try await self.sweep(tag)
            } catch {
                guard !Task.isCancelled else { return }
                failed = (failed.count + 1, failed.error ?? error)
            }
        }
        guard let error = failed.error else { return }
        self.logger.warning(
            "the search for lost sends failed and will be repeated",
            metadata: ["shards": "\(failed.count)", "error": "\(error)"]
        )
    }

    /// Checks every send of a shard that has not ended. A failure at one does not stop the others from being checked.
    ///
    /// - Returns: the number of sends that were ended.
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
                    let disposition = Disposition(of: error)
                    guard !disposition.isOutage, disposition != .stop, !Task.isCancelled else { throw error }
                    self.logger.warning(
                        "a silent send could not be checked and will be checked again",
                        metadata: ["send": "\(send.id)", "app": "\(send.app)", "error": "\(error)"]
                    )
                }
            }
        } while cursor != "0" && !Task.isCancelled
        return count
    }

    /// Checks one send; returns true when it was ended.
    private func ends(
        _ send: SendKey,
        _ tag: HashTag,
        _ routes: [NumberedRoute],
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
                "nothing was left of an open send: it has ended, and recipients without an outcome failed as unknown",
                metadata: ["send": "\(send.id)", "app": "\(send.app)"]
            )
            return true
        case .much:
            self.logger.warning(
                "too many entries wait to search them for a silent send",
                metadata: ["send": "\(send.id)", "app": "\(send.app)"]
            )
            return false
        case .gone, .fresh, .moved, .left: return false
        }
    }
}
