package import ApusRedis

/// Waits until a replica has the writes of a shard, so that no failover forgets them.
///
/// It writes something itself and sends `WAIT` on the same connection, which nothing else uses. Replicas apply the writes of a server in
/// their order, so one that has this write has every earlier one.
package actor ReplicaConfirmation {
    /// The result for the earlier writes.
    package enum Outcome: Hashable, Sendable {
        /// A replica has them.
        case replicated
        /// The server has no replica.
        case alone
        /// The server has replicas, and none of them confirmed the writes in time.
        case silent
    }

    private let client: RedisClient
    private let patience: Duration
    private var connections: [HashTag: RedisBlockingConnection] = [:]
    /// The last question for each shard, which the next one waits for.
    private var last: [HashTag: Task<Outcome, any Error>] = [:]

    /// Creates a confirmation that connects when it is first asked.
    package init(_ client: RedisClient, patience: Duration = StreamLimits.replicaPatience) {
        self.client = client
        self.patience = patience
    }

    /// Waits for a replica of a shard's server.
    ///
    /// - Parameter server: the server that took the writes; another one fails with `serverChanged`. Nil for any server.
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

    /// Closes the connections of all shards.
    package func close() async {
        for connection in self.connections.values { await connection.close() }
        self.connections = [:]
    }
}

extension StreamAccess {
    /// Makes an operator's call and waits until a replica has what it wrote.
    ///
    /// - Returns: the answer, and true when a replica has the write or there is no replica.
    func confirmed(_ call: some FunctionCall, on tag: HashTag) async throws -> (answer: RESPNode, isSafe: Bool) {
        let confirmation = ReplicaConfirmation(self.client)
        do {
            while true {
                let server = try await self.client.serverIdentity(for: tag)
                let answer = try await self.call(call, on: tag)
                do {
                    let outcome = try await confirmation.confirm(tag, server: server)
                    await confirmation.close()
                    return (answer, outcome != .silent)
                } catch let error as RedisError where error.code == .serverChanged {
                    // Another server answers, so the command is repeated there.
                    continue
                }
            }
        } catch {
            await confirmation.close()
            throw error
        }
    }
}

struct MarkWriteCall: FunctionCall {
    static let function = "apus2_mark_write"
    var keys: [String]
}
