internal import ApusCore
package import ApusRedis
internal import ApusTLS

/// Where processes leave short-lived tokens that all of them use. What comes out is not trusted by whoever takes it.
package protocol SharedTokenStore: Sendable {
    /// The token under that key; nil when there is none, or when the store cannot be reached.
    func read(_ key: String) async -> String?
    /// Leaves a token for that many milliseconds, unless another one has been left since; that one then. Of those who saw the same before
    /// and write at once, exactly one leaves its own. A store that cannot be reached is no obstacle.
    ///
    /// - Parameter seen: what was read there before, and is to be replaced; nil: there was nothing.
    func write(_ key: String, _ token: String, after seen: String?, milliseconds: Int64) async -> String?
}

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

    package func write(_ key: String, _ token: String, after seen: String?, milliseconds: Int64) async -> String? {
        guard let seen else { return await self.claim(key, token, milliseconds) }
        // All who saw that one contend for the same name; who has it replaces what they saw.
        let name = "\(key):after:\(Hexadecimal.encode(SHA256.hash(Array(seen.utf8)).prefix(8)))"
        if let other = await self.claim(name, token, milliseconds) { return other }
        let command = RedisCommand("SET", .text(key), .text(token), "PX", .integer(milliseconds))
        _ = try? await self.client.send(command, on: HashTag(ofKey: key), options: .idempotent)
        return nil
    }

    /// Sets a key that is not there yet; what stands there, if it was.
    private func claim(_ key: String, _ token: String, _ milliseconds: Int64) async -> String? {
        let command = RedisCommand("SET", .text(key), .text(token), "NX", "GET", "PX", .integer(milliseconds))
        let reply = try? await self.client.send(command, on: HashTag(ofKey: key), options: .idempotent)
        // Sent twice after a lost answer, it finds its own.
        return reply?.root.string.flatMap { $0 == token ? nil : $0 }
    }
}
