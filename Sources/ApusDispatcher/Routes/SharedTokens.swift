internal import ApusProviders
internal import ApusRedis

/// The short-lived provider tokens that all dispatchers use, in Redis: too many of them per key and hour get a team throttled.
struct SharedTokens: SharedTokenStore {
    let client: RedisClient

    func read(_ key: String) async -> String? {
        let reply = try? await self.client.send(
            RedisCommand("GET", .text(key)),
            on: HashTag(ofKey: key),
            options: .idempotent
        )
        return reply?.root.string
    }

    func write(_ key: String, _ token: String, milliseconds: Int64) async {
        let command = RedisCommand("SET", .text(key), .text(token), "PX", .integer(milliseconds))
        _ = try? await self.client.send(command, on: HashTag(ofKey: key), options: .idempotent)
    }
}
