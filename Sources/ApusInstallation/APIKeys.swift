public import ApusCore
public import ApusRedis
internal import ApusTLS

/// Manages the backends' keys that `apus key` creates: the hash `apus:keys:<app>`, name → role, time and SHA-256 of the key.
///
/// The key itself is stored nowhere: access to Redis does not allow acting for an app. It is 256 random bits, so a
/// plain digest is safe; there is nothing to guess.
public struct APIKeys: Sendable {
    /// The maximum number of keys of one app.
    public static let countMax = 100
    /// The maximum number of characters of a key's name.
    public static let nameBytesMax = 64
    /// The beginning of every key.
    package static let secretPrefix = "apus_"
    /// The number of random bytes of a key.
    private static let secretBytes = 32

    /// A key as it is stored.
    public struct Stored: Hashable, Sendable {
        /// The key's name.
        public var name: String
        /// The role of the key's holder.
        public var role: APIKeyRole
        /// The time at which the key was created.
        public var createdAt: UnixMilliseconds
        /// The SHA-256 of the key.
        public var sha256: [UInt8]

        init(name: String, role: APIKeyRole, createdAt: UnixMilliseconds, sha256: [UInt8]) {
            self.name = name
            self.role = role
            self.createdAt = createdAt
            self.sha256 = sha256
        }

        /// Parses a stored value; nil when we did not write it: such a key opens nothing.
        init?(name: String, value: String) {
            let parts = value.split(separator: " ", omittingEmptySubsequences: false)
            guard parts.count == 3, let role = APIKeyRole(rawValue: String(parts[0])), let time = Int64(parts[1]),
                let sha256 = Hexadecimal.decode(parts[2]), sha256.count == 32
            else { return nil }
            self.init(name: name, role: role, createdAt: UnixMilliseconds(time), sha256: sha256)
        }

        var value: String { "\(self.role.rawValue) \(self.createdAt.value) \(Hexadecimal.encode(self.sha256))" }
    }

    /// The reasons for refusing to create a key.
    public enum Refusal: Error, Hashable, Sendable, CustomStringConvertible {
        /// The name breaks the rule.
        case badName
        /// Another key has the name.
        case nameTaken(String)
        /// The app has the maximum number of keys.
        case tooMany

        /// The error's sentence.
        public var description: String {
            switch self {
            case .badName:
                "a key's name must be 1 to \(APIKeys.nameBytesMax) of the characters A-Z, a-z, 0-9, '.', '_' and '-'"
            case .nameTaken(let name): "there is a key \(name) already: revoke it first, or give another name"
            case .tooMany: "an app may have \(APIKeys.countMax) keys: revoke one first"
            }
        }
    }

    private let client: RedisClient

    /// Creates an object for the keys in a Redis.
    public init(_ client: RedisClient) { self.client = client }

    /// Returns the keys of an app, sorted by name.
    public func list(_ app: AppID) async throws -> [Stored] {
        let (key, tag) = Self.place(app)
        let reply = try await self.client.send(RedisCommand("HGETALL", .text(key)), on: tag, options: .idempotent)
        let texts = reply.root.children.map { $0.string ?? "" }
        var keys: [Stored] = []
        for index in stride(from: 0, to: texts.count - 1, by: 2) {
            if let stored = Stored(name: texts[index], value: texts[index + 1]) { keys.append(stored) }
        }
        return keys.sorted { $0.name < $1.name }
    }

    /// Creates a key.
    ///
    /// - Returns: the key, which cannot be read again later.
    /// - Throws: `Refusal`, or the error of Redis.
    public func create(_ app: AppID, name: String, role: APIKeyRole, now: UnixMilliseconds) async throws -> String {
        guard Self.isName(name) else { throw Refusal.badName }
        let (key, tag) = Self.place(app)
        let count = try await self.client.send(RedisCommand("HLEN", .text(key)), on: tag, options: .idempotent)
        guard (count.root.integer ?? 0) < Self.countMax else { throw Refusal.tooMany }
        let secret = Self.secretPrefix + Base64URL.encode(SecureRandom.bytes(Self.secretBytes))
        let stored = Stored(name: name, role: role, createdAt: now, sha256: SHA256.hash(utf8: secret))
        let command = RedisCommand("HSETNX", .text(key), .text(name), .text(stored.value))
        guard try await self.client.send(command, on: tag).root.integer == 1 else { throw Refusal.nameTaken(name) }
        return secret
    }

    /// Revokes a key: services refuse it at most a second later.
    ///
    /// - Returns: true when there was one of that name.
    public func revoke(_ app: AppID, name: String) async throws -> Bool {
        let (key, tag) = Self.place(app)
        let command = RedisCommand("HDEL", .text(key), .text(name))
        return try await self.client.send(command, on: tag, options: .idempotent).root.integer == 1
    }

    private static func place(_ app: AppID) -> (key: String, tag: HashTag) {
        let key = "apus:keys:\(app)"
        return (key, HashTag(ofKey: key))
    }

    private static func isName(_ name: String) -> Bool {
        (1...Self.nameBytesMax).contains(name.utf8.count)
            && name.utf8.allSatisfy { byte in
                (0x61...0x7a).contains(byte) || (0x41...0x5a).contains(byte) || (0x30...0x39).contains(byte)
                    || byte == 0x2d || byte == 0x2e || byte == 0x5f
            }
    }
}
