internal import ApusCore
package import ApusRedis
internal import ApusTLS

/// Stores short-lived tokens that all processes share. Readers must verify what they get.
package protocol SharedTokenStore: Sendable {
    /// Returns the token of a key; nil when there is none, or when the store cannot be reached.
    func read(_ key: String) async -> String?
    /// Stores a token for the given milliseconds, unless another one was stored since; then returns that one. Of
    /// several writers who saw the same token before, exactly one succeeds. An unreachable store is ignored.
    ///
    /// - Parameter seen: the token that was read before and is to be replaced; nil when there was none.
    func write(_ key: String, _ token: String, after seen: String?, milliseconds: Int64) async -> String?
}

/// Shares the short-lived provider tokens of all dispatchers through Redis: a team with too many of them per key and hour is throttled.
package struct SharedTokens: SharedTokenStore {
    private let client: RedisClient

    /// Creates a store in the given Redis.
    package init(client: RedisClient) { self.client = client }

    package func read(_ key: String) async -> String? {
        let reply = try? await self.client.send(
            RedisCommand("GET", .text(key)),
            on: HashTag(ofKey: key),
            options: .idempotent
        )
        return reply?.root.string
    }

    package func write(_ key: String, _ token: String, after seen: String?, milliseconds: Int64) async -> String? {
        guard let seen else { return await self.claim(key, token, milliseconds) }
        // All writers who saw the same token contend for the same name; the winner replaces the token.
        let name = "\(key):after:\(Hexadecimal.encode(SHA256.hash(Array(seen.utf8)).prefix(8)))"
        if let other = await self.claim(name, token, milliseconds) { return other }
        let command = RedisCommand("SET", .text(key), .text(token), "PX", .integer(milliseconds))
        _ = try? await self.client.send(command, on: HashTag(ofKey: key), options: .idempotent)
        return nil
    }

    /// Sets a key that does not exist; returns the existing value otherwise.
    private func claim(_ key: String, _ token: String, _ milliseconds: Int64) async -> String? {
        let command = RedisCommand("SET", .text(key), .text(token), "NX", "GET", "PX", .integer(milliseconds))
        let reply = try? await self.client.send(command, on: HashTag(ofKey: key), options: .idempotent)
        // When the command was sent twice after a lost reply, it finds its own value.
        return reply?.root.string.flatMap { $0 == token ? nil : $0 }
    }
}
