package import ApusRedis

/// The short-lived provider tokens that all dispatchers use, in Redis: too many of them per key and hour get a team throttled.
package struct SharedTokens: SharedTokenStore {
    private let client: RedisClient

    /// The tokens that are kept in that Redis.
    package init(client: RedisClient) { self.client = client }

    package func read(_ key: String) async -> String? {
        let reply = try? await self.client.send(
            RedisCommand("GET", .text(key)),
            on: HashTag(ofKey: key),
            options: .idempotent
        )
        return reply?.root.string
    }

    package func write(_ key: String, _ token: String, milliseconds: Int64) async {
        let command = RedisCommand("SET", .text(key), .text(token), "PX", .integer(milliseconds))
        _ = try? await self.client.send(command, on: HashTag(ofKey: key), options: .idempotent)
    }
}
