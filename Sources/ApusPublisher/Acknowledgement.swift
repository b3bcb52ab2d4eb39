package import ApusRedis

/// The levels of safety that `publish` waits for.
public enum Acknowledgement: String, CaseIterable, Sendable {
    /// Redis has the publication in memory: it is lost if the server dies before its disk or a replica has it.
    case memory
    /// A replica has it, too: it is lost only if another replica takes over.
    case replica
    /// It is on the server's disk and survives the death of every process.
    case fsync
}

/// The command that proves a publication's safety on its connection, and the meaning of its replies. Pure.
package enum AcknowledgementProof: Hashable, Sendable {
    /// No command: the reply itself is the proof.
    case none
    /// One replica has the publication: https://redis.io/docs/latest/commands/wait/
    case replica(milliseconds: Int64)
    /// The server's own disk has it, from Redis 7.2 on: https://redis.io/docs/latest/commands/waitaof/
    case disk(milliseconds: Int64)

    /// The command that is sent after the publications.
    package var command: RedisCommand? {
        switch self {
        case .none: nil
        case .replica(let milliseconds): RedisCommand("WAIT", 1, .integer(milliseconds))
        case .disk(let milliseconds): RedisCommand("WAITAOF", 1, 0, .integer(milliseconds))
        }
    }

    /// Returns true when the reply proves the safety. Without proof the publications are still in the mailbox.
    package func isGiven(by reply: RESPReply) -> Bool {
        switch self {
        case .none: true
        case .replica: (reply.root.integer ?? 0) >= 1
        case .disk: (reply.root.element(0)?.integer ?? 0) >= 1
        }
    }

    /// Returns true when the reply to `COMMAND INFO waitaof` describes the command.
    package static func knowsDiskWait(_ reply: RESPReply) -> Bool { reply.root.element(0)?.element(0)?.string != nil }

    /// Returns true when the reply to `CONFIG GET append*` says that the server answers only after the write is on disk.
    package static func answersFromDisk(_ reply: RESPReply) -> Bool {
        var settings: [String: String] = [:]
        var nodes = reply.root.children.makeIterator()
        while let name = nodes.next()?.string, let value = nodes.next()?.string { settings[name] = value }
        return settings["appendonly"] == "yes" && settings["appendfsync"] == "always"
    }

    /// Returns true when the reply to `INFO replication` names a connected replica.
    package static func hasReplica(_ reply: RESPReply) -> Bool { reply.namesOnlineReplica }
}
