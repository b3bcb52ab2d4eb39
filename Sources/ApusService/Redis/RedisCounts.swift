package import ApusMetrics
package import ApusRedis
internal import Synchronization

/// Counts what becomes of commands and connections of one client.
package final class RedisCounts: RedisObserver {
    private let metrics: RedisMetrics
    private let shared: SharedMetrics
    private let connections = Mutex(0)

    /// Counts in those cells.
    package init(metrics: RedisMetrics, shared: SharedMetrics) {
        self.metrics = metrics
        self.shared = shared
    }

    /// Counts a command, and how long it took.
    package func commandEnded(_ name: String, _ ending: RedisCommandEnding, nanoseconds: Int64?) {
        let label = RedisCommandLabel(command: name)
        self.shared.add(to: self.metrics.commands[label, RedisOutcomeLabel(ending)])
        if let nanoseconds { self.shared.observe(nanoseconds, in: self.metrics.commandDuration[label]) }
    }

    /// Redis is reachable.
    package func connectionMade(isAgain: Bool) {
        if isAgain { self.shared.add(to: self.metrics.reconnects) }
        self.change(by: 1)
    }

    /// Redis is reachable as long as another connection is there.
    package func connectionEnded() { self.change(by: -1) }

    private func change(by difference: Int) {
        // Set under the lock, so that the last one to come also has the last word.
        self.connections.withLock { count in
            count += difference
            assert(count >= 0)
            self.shared.set(self.metrics.connected, to: count > 0 ? 1 : 0)
        }
    }
}

extension RedisCommandLabel {
    /// The label of a command by its name in small letters.
    package init(command: String) {
        self =
            switch command {
            case "fcall": .fcall
            case "fcall_ro": .fcallReadOnly
            case "xreadgroup": .xreadgroup
            case "xautoclaim": .xautoclaim
            case "xadd": .xadd
            case "xlen": .xlen
            case "xpending": .xpending
            case "xgroup", "xinfo": .xgroup
            case "get", "mget", "hget", "hmget", "hgetall", "hlen", "exists", "smembers", "zcard", "zcount", "zrange",
                "xrange", "xrevrange", "strlen", "ttl", "pttl":
                .read
            case "set", "del", "unlink", "expire", "pexpire", "hset", "hdel", "incr", "zadd", "zrem", "sadd", "srem":
                .write
            default: .other
            }
    }
}

extension RedisOutcomeLabel {
    init(_ ending: RedisCommandEnding) {
        self =
            switch ending {
            case .answered: .ok
            case .refused: .error
            case .timedOut: .timeout
            case .disconnected: .disconnected
            }
    }
}
