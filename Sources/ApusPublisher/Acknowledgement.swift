package import ApusRedis

/// How safe a publication is before `publish` returns.
public enum Acknowledgement: String, CaseIterable, Sendable {
    /// Redis has it in memory: lost if the server dies before its disk or a replica has it.
    case memory
    /// A replica has it, too: lost only if that replica is not the one that takes over.
    case replica
    /// It is on the server's disk: survives the death of every process.
    case fsync
}

/// What is asked on the connection of a publication to learn how safe it is, and what the answers mean. Pure.
package enum AcknowledgementProof: Hashable, Sendable {
    /// Nothing: the answer itself says all.
    case none
    /// One replica: https://redis.io/docs/latest/commands/wait/
    case replica(milliseconds: Int64)
    /// The server's own disk, from Redis 7.2 on: https://redis.io/docs/latest/commands/waitaof/
    case disk(milliseconds: Int64)

    /// Sent after the publications.
    package var command: RedisCommand? {
        switch self {
        case .none: nil
        case .replica(let milliseconds): RedisCommand("WAIT", 1, .integer(milliseconds))
        case .disk(let milliseconds): RedisCommand("WAITAOF", 1, 0, .integer(milliseconds))
        }
    }

    /// Whether the answer proves it. Short of that the publications stand all the same.
    package func isGiven(by reply: RESPReply) -> Bool {
        switch self {
        case .none: true
        case .replica: (reply.root.integer ?? 0) >= 1
        case .disk: (reply.root.element(0)?.integer ?? 0) >= 1
        }
    }

    /// Whether `COMMAND INFO waitaof` says that there is such a command.
    package static func knowsDiskWait(_ reply: RESPReply) -> Bool { reply.root.element(0)?.element(0)?.string != nil }

    /// Whether `CONFIG GET append*` says that no answer is given before the disk has the write.
    package static func answersFromDisk(_ reply: RESPReply) -> Bool {
        var settings: [String: String] = [:]
        var nodes = reply.root.children.makeIterator()
        while let name = nodes.next()?.string, let value = nodes.next()?.string { settings[name] = value }
        return settings["appendonly"] == "yes" && settings["appendfsync"] == "always"
    }

    /// Whether `INFO replication` names a replica that follows.
    package static func hasReplica(_ reply: RESPReply) -> Bool { reply.namesOnlineReplica }
}
