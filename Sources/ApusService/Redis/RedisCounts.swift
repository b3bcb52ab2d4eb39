package import ApusMetrics
package import ApusRedis
internal import Synchronization

/// Counts the results of commands and the connections of one client.
package final class RedisCounts: RedisObserver {
    private let metrics: RedisMetrics
    private let shared: SharedMetrics
    private let connections = Mutex(0)

    /// Creates an observer that counts in the given cells.
    package init(metrics: RedisMetrics, shared: SharedMetrics) {
        self.metrics = metrics
        self.shared = shared
    }

    /// Counts a command and its duration.
    package func commandEnded(_ name: String, _ ending: RedisCommandEnding, nanoseconds: Int64?) {
        let label = RedisCommandLabel(command: name)
        self.shared.add(to: self.metrics.commands[label, RedisOutcomeLabel(ending)])
        if let nanoseconds { self.shared.observe(nanoseconds, in: self.metrics.commandDuration[label]) }
    }

    /// Records a new connection: Redis is reachable.
    package func connectionMade(isAgain: Bool) {
        if isAgain { self.shared.add(to: self.metrics.reconnects) }
        self.change(by: 1)
    }

    /// Records the end of a connection: Redis stays reachable as long as another one exists.
    package func connectionEnded() { self.change(by: -1) }

    private func change(by difference: Int) {
        // The gauge is set under the lock, so that the last change also writes the last value.
        self.connections.withLock { count in
            count += difference
            assert(count >= 0)
            self.shared.set(self.metrics.connected, to: count > 0 ? 1 : 0)
        }
    }
}

extension RedisCommandLabel {
    /// Creates the label of a command from its name in lower case.
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
