/// Holds the fixed sizes of an installation: the hash `apus:meta`, written by `apus init` and checked by every service.
///
/// Holds the sizes of an installation: with another number of shards or partitions a service would compute wrong keys.
///
/// | field | content |
/// | --- | --- |
/// | `version` | of this layout: 1 |
/// | `queue_shards` | Q |
/// | `device_partitions` | T |
public struct ApusMeta: Sendable, Hashable {
    /// The name of the key.
    public static let key = "apus:meta"
    /// The version of the layout that this program supports.
    static let currentVersion = 1

    /// The version of the layout.
    public let version: Int
    /// The number of queue shards, Q.
    public let queueShards: Int
    /// The number of device partitions, T.
    public let devicePartitions: Int

    private static let tag = HashTag(ofKey: Self.key)

    /// Creates the fields of a keyspace.
    public init(_ keyspace: Keyspace) {
        self.version = Self.currentVersion
        self.queueShards = keyspace.queueShards
        self.devicePartitions = keyspace.devicePartitions
    }

    private init(version: Int, queueShards: Int, devicePartitions: Int) {
        self.version = version
        self.queueShards = queueShards
        self.devicePartitions = devicePartitions
    }

    /// The keyspace of the installation.
    public var keyspace: Keyspace {
        Keyspace(queueShards: self.queueShards, devicePartitions: self.devicePartitions)
    }

    /// Creates the sizes from fields; nil when a program with another layout wrote them, or when they are damaged.
    package init?(fields: [String: String]) {
        func size(_ name: String) -> Int? {
            fields[name].flatMap { Int($0) }.flatMap { (1...Keyspace.sizeMax).contains($0) ? $0 : nil }
        }
        guard fields["version"] == "\(Self.currentVersion)", let shards = size("queue_shards"),
            let partitions = size("device_partitions")
        else { return nil }
        self.init(version: Self.currentVersion, queueShards: shards, devicePartitions: partitions)
    }

    /// The names and values of the fields.
    package var fields: [String: String] {
        [
            "version": "\(self.version)", "queue_shards": "\(self.queueShards)",
            "device_partitions": "\(self.devicePartitions)",
        ]
    }

    /// Reads the fields; nil when there are none.
    ///
    /// - Throws: `layoutMismatch` when a program with another layout wrote them, or when they are damaged.
    public static func read(from client: RedisClient) async throws(RedisError) -> ApusMeta? {
        try await Self.read(from: client, patience: nil)
    }

    /// Reads the fields; nil when there are none.
    ///
    /// - Parameter patience: the time during which the client repeats the command; nil for the configuration's.
    /// - Throws: `layoutMismatch` when a program with another layout wrote them, or when they are damaged.
    package static func read(from client: RedisClient, patience: Duration?) async throws(RedisError) -> ApusMeta? {
        let names = ["version", "queue_shards", "device_partitions"]
        let command = RedisCommand("HMGET", [.text(Self.key)] + names.map { RedisArgument.text($0) })
        let options = RedisClient.Options(isIdempotent: true, patience: patience)
        let answer = try await client.send(command, on: Self.tag, options: options)
        let reply = answer.root
        guard reply.count == names.count, reply.kind == .array else { throw answer.unexpected("an array of 3") }
        guard !reply.children.allSatisfy(\.isNull) else { return nil }
        let pairs = zip(names, reply.children.map { $0.string ?? "" })
        guard let meta = ApusMeta(fields: Dictionary(uniqueKeysWithValues: pairs)) else {
            let text = "\(Self.key) is not of version \(Self.currentVersion): \(reply)"
            throw RedisError(.layoutMismatch, text)
        }
        return meta
    }

    /// Writes the fields unless they exist already; then they must be equal. Of two concurrent callers with different sizes one is refused.
    ///
    /// - Throws: `layoutMismatch` when the installation has other sizes.
    public static func create(_ keyspace: Keyspace, on client: RedisClient) async throws(RedisError) {
        let meta = ApusMeta(keyspace)
        func field(_ name: String, _ value: Int) -> RedisCommand {
            RedisCommand("HSETNX", .text(Self.key), .text(name), .integer(value))
        }
        // One transaction, so that all fields are from the same writer. It may be repeated.
        let fields = [
            field("version", meta.version),
            field("queue_shards", meta.queueShards),
            field("device_partitions", meta.devicePartitions),
        ]
        _ = try await client.transaction(fields, on: Self.tag)
        try await Self.check(keyspace, on: client)
    }

    /// Compares the fields with the sizes that this program is configured for.
    ///
    /// - Throws: `notInitialized` or `layoutMismatch`, with the remedy.
    public static func check(_ keyspace: Keyspace, on client: RedisClient) async throws(RedisError) {
        guard let found = try await Self.read(from: client) else {
            throw RedisError(.notInitialized, "\(Self.key) is missing: run apus init")
        }
        let wanted = ApusMeta(keyspace)
        guard found == wanted else {
            let text =
                "\(Self.key) says \(found); this program is configured for \(wanted): the sizes cannot be changed"
            throw RedisError(.layoutMismatch, text)
        }
    }
}

extension ApusMeta: CustomStringConvertible {
    /// The sizes for error texts.
    public var description: String {
        "\(self.queueShards) queue shards and \(self.devicePartitions) device partitions"
    }
}
