package import ApusCore
package import ApusRedis

/// Lists the publishers that have mailboxes of their own, for commands and statistics that know no configuration.
package struct Publishers: Sendable {
    let access: StreamAccess

    private var tag: HashTag { HashTag(ofKey: StreamKeys.publishers) }

    /// Returns every publisher that a dispatcher has ever had in its configuration, in the order of their names.
    package func all() async throws -> [PublisherName] {
        let answer = try await self.access.send(RedisCommand("SMEMBERS", .text(StreamKeys.publishers)), on: self.tag)
        return try answer.texts().compactMap { try? PublisherName($0) }.sorted()
    }

    /// Adds publishers, which stay in the list: what they have written may wait for longer than they are configured.
    package func add(_ names: [PublisherName]) async throws(RedisError) {
        guard !names.isEmpty else { return }
        let members = names.map { RedisArgument.text($0.text) }
        let command = RedisCommand("SADD", [.text(StreamKeys.publishers)] + members)
        _ = try await self.access.send(command, on: self.tag)
    }
}
