public import ApusCore
public import ApusRedis
package import ApusStore
public import ApusStreams
public import Logging

/// Represents an opened Apus installation in Redis: its sizes are known and its functions are loaded.
public struct Installation: Sendable {
    /// The client of its Redis.
    public let client: RedisClient
    /// The stream functions.
    public let streams: SendStreams
    /// The device store.
    package var store: DeviceStore

    /// The assignment of ids to shards and partitions.
    public var keyspace: Keyspace { self.streams.keyspace }

    /// Returns the server-side functions of this version, which `initialize` loads and every service requires.
    public static func library() throws(RedisError) -> FunctionLibrary {
        try FunctionLibrary(
            name: "apus2",
            version: FunctionLibrary.Version(major: 2, minor: 0),
            sources: StoreFunctions.sources + StreamFunctions.sources,
        )
    }

    /// Creates an installation in an empty Redis, or updates the functions of an existing one.
    ///
    /// - Throws: `layoutMismatch` when the installation has other sizes: they cannot be changed.
    public static func initialize(_ client: RedisClient, keyspace: Keyspace) async throws(RedisError) {
        try await ApusMeta.create(keyspace, on: client)
        _ = try await Self.library().load(on: client)
    }

    /// Opens the installation behind a client.
    ///
    /// - Throws: `notInitialized`, `functionsMissing` or `functionsOutdated`, with the remedy; or the reason why Redis cannot be reached.
    public init(_ client: RedisClient, clock: any WallClock) async throws(RedisError) {
        guard let meta = try await ApusMeta.read(from: client) else {
            throw RedisError(.notInitialized, "\(ApusMeta.key) is missing in this Redis: run `apus init`")
        }
        try await Self.library().check(on: client)
        self.init(client, keyspace: meta.keyspace, clock: clock)
    }

    private init(_ client: RedisClient, keyspace: Keyspace, clock: any WallClock) {
        self.client = client
        self.streams = SendStreams(client: client, keyspace: keyspace)
        self.store = DeviceStore(client: client, keyspace: keyspace, clock: clock)
    }

    /// Returns the same installation with another client: other connections, on other event loops.
    public func reached(by client: RedisClient, clock: any WallClock) -> Installation {
        Installation(client, keyspace: self.keyspace, clock: clock)
    }

    /// Opens the installation of a service: waits while Redis cannot be reached, and logs that.
    public static func waiting(
        _ client: RedisClient,
        clock: any WallClock,
        logger: Logger,
    ) async throws -> Installation {
        while true {
            do throws(RedisError) {
                return try await Installation(client, clock: clock)
            } catch {
                guard error.isRetryable else { throw error }
                logger.warning("waiting for Redis", metadata: ["error": "\(error)"])
            }
            try await Task.sleep(for: .milliseconds(500))
        }
    }
}
