/// Describes whom a server copies, and of which history its data are: the answer to `INFO server replication`.
///
/// A history is a replication id, the name of one row of writes. A server begins a new one when it becomes a master, or when it alone has
/// written for long, and no name ever returns. A replica takes its master's, and remembers the former one only if it could go on from there:
/// if it had written what its master lacks, it gives up all data for a copy and remembers none
/// (<https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>, "Replication ID explained").
package struct ReplicationState: Hashable, Sendable {
    /// The server process.
    package var identity: RedisServerIdentity
    /// True for a master.
    package var isMaster: Bool
    /// True for a replica that is in touch with its master.
    package var isFollowing: Bool
    /// The history of the data, `master_replid`.
    package var history: String
    /// The history that went before it without a gap, `master_replid2`; nil for none.
    package var formerHistory: String?

    /// Parses the text of `INFO server replication`; nil when it lacks the run id or the replication id.
    package init?(info: String) {
        var fields: [Substring: Substring] = [:]
        for line in info.split(whereSeparator: \.isNewline) {
            guard let colon = line.firstIndex(of: ":") else { continue }
            fields[line[..<colon]] = line[line.index(after: colon)...]
        }
        guard let identity = RedisServerIdentity(info: info), let history = fields["master_replid"] else { return nil }
        self.identity = identity
        self.isMaster = fields["role"] == "master"
        self.isFollowing = fields["master_link_status"] == "up"
        self.history = String(history)
        self.formerHistory = fields["master_replid2"].flatMap { former in
            former.allSatisfy { $0 == "0" } ? nil : String(former)
        }
    }

    /// Returns true when it is proven that another master has everything that this one, while it was a master, has ever answered.
    ///
    /// Both name the history of this master as their former one. So it became a replica of the other without giving up anything, which
    /// that one allows only if it has all that was written here.
    ///
    /// - Parameters:
    ///   - later: the same server's state since the other took over.
    ///   - successor: the state of the other, asked after that.
    package func isContinued(as later: Self, by successor: Self) -> Bool {
        self.isMaster && !later.isMaster && later.isFollowing && successor.isMaster
            && later.identity == self.identity && successor.identity != self.identity
            && later.formerHistory == self.history && successor.formerHistory == self.history
            && later.history == successor.history
    }
}

extension RedisClient {
    /// The time within which a server must tell its state.
    private static let replicationStateTimeout = Duration.milliseconds(500)

    /// Asks a server whom it copies; once, without waiting for a server that is away.
    ///
    /// - Returns: the state; nil when it does not say, or the user may not ask.
    package func replicationState(of endpoint: RedisEndpoint) async -> ReplicationState? {
        let command = RedisCommand("INFO", "server", "replication")
        let options = Options(patience: .zero, timeout: Self.replicationStateTimeout)
        let reply = try? await self.send(command, to: endpoint, options: options)
        return reply?.root.string.flatMap { ReplicationState(info: $0) }
    }
}
