package import ApusRedis

/// Waits until a replica has what was written into a shard, so that no failover forgets it.
///
/// It writes something itself and asks `WAIT` on the same connection, which nothing else uses. Replicas take the writes of a server in their
/// order: one that has this write has all that came before it.
package actor ReplicaConfirmation {
    /// What is known of the writes before.
    package enum Outcome: Hashable, Sendable {
        /// A replica has them.
        case replicated
        /// The server has no replica.
        case alone
        /// The server has replicas, and in time none of them has said that it has the writes.
        case silent
    }

    private let client: RedisClient
    private let patience: Duration
    private var connections: [HashTag: RedisBlockingConnection] = [:]
    /// The last question of each shard: the next one waits for it.
    private var last: [HashTag: Task<Outcome, any Error>] = [:]

    /// A confirmation that connects when it is first asked.
    package init(_ client: RedisClient, patience: Duration = StreamLimits.replicaPatience) {
        self.client = client
        self.patience = patience
    }

    /// Waits for a replica of a shard's server.
    ///
    /// - Parameter server: the server that took the writes; another fails with `serverChanged`. Nil: any.
    package func confirm(_ tag: HashTag, server: RedisServerIdentity?) async throws -> Outcome {
        let connection = self.connections[tag] ?? self.client.blockingConnection(for: tag)
        self.connections[tag] = connection
        let (before, patience) = (self.last[tag], self.patience)
        let task = Task { () throws -> Outcome in
            _ = await before?.result
            let call = MarkWriteCall(keys: [StreamKeys(tag: tag).claims])
            switch try await connection.sendReplicated(call.command, patience: patience, server: server) {
            case nil: return .alone
            case 0: return .silent
            default: return .replicated
            }
        }
        self.last[tag] = task
        return try await task.value
    }

    /// Closes its connections.
    package func close() async {
        for connection in self.connections.values { await connection.close() }
        self.connections = [:]
    }
}

struct MarkWriteCall: FunctionCall {
    static let function = "apus2_mark_write"
    var keys: [String]
}
