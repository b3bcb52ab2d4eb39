public import ApusCore
package import ApusMetrics
public import ApusRedis
package import ApusStore
public import ApusStreams
package import Logging

/// Represents an opened Apus installation in Redis: its sizes are known and its functions are loaded.
public struct Installation: Sendable {
    /// The client of its Redis.
    public let client: RedisClient
    /// The masters without slots that lack the functions: slots must not be moved to them before `initialize` has loaded them.
    package private(set) var serversWithoutFunctions: [RedisEndpoint] = []
    /// True when `apus:meta` is lost and the sizes are those of its copies: `initialize` writes it again.
    package private(set) var isMetaLost = false
    /// The stream functions.
    public let streams: SendStreams
    /// The device store.
    package var store: DeviceStore

    /// The assignment of ids to shards and partitions.
    public var keyspace: Keyspace { self.streams.keyspace }

    /// Returns the server-side functions of this version, which `initialize` loads and every service requires.
    public static func library() throws(RedisError) -> FunctionLibrary { try Self.assembled.get() }

    private static let assembled = Result { () throws(RedisError) in
        try FunctionLibrary(
            name: "apus2",
            version: FunctionLibrary.Version(major: 2, minor: 4),
            sources: [StoreFunctions.source, StreamFunctions.source],
        )
    }

    /// Returns the sizes of the installation behind a client; nil when there is none. In a cluster that has lost them with the data of one
    /// master, the copies tell them.
    ///
    /// - Throws: `layoutMismatch` when the copies are needed and contradict each other.
    package static func sizes(_ client: RedisClient) async throws(RedisError) -> ApusMeta? {
        if let meta = try await ApusMeta.read(from: client) { return meta }
        return try await InstallationCopies(client).readAll()?.meta
    }

    /// Creates an installation in an empty Redis, or updates the functions of an existing one.
    ///
    /// - Throws: `layoutMismatch` when the installation has other sizes: they cannot be changed.
    public static func initialize(_ client: RedisClient, keyspace: Keyspace) async throws(RedisError) {
        let wanted = ApusMeta(keyspace)
        if let known = try await Self.sizes(client), known != wanted {
            throw RedisError(
                .layoutMismatch,
                "the installation has \(known), and \(wanted) were asked for: the sizes cannot be changed"
            )
        }
        try await ApusMeta.create(keyspace, on: client)
        _ = try await Self.library().load(on: client)
        let copies = InstallationCopies(client)
        let content = InstallationCopies.Content(meta: wanted)
        for tag in copies.tags { try await copies.write(content, at: tag) }
    }

    /// The time for which the original of what a copy may answer for is asked. A failover or the move of a slot may take longer; the
    /// copies answer then.
    package static let originalPatience = Duration.seconds(1)

    /// Opens the installation behind a client. In a cluster the sizes are read from a copy while the master that has them is away, and when
    /// it has lost them.
    ///
    /// - Throws: `notInitialized`, `layoutMismatch`, `functionsMissing` or `functionsOutdated`, with the remedy; or the reason why Redis
    ///   cannot be reached.
    public init(_ client: RedisClient, clock: any WallClock) async throws(RedisError) {
        let copies = InstallationCopies(client)
        var found: ApusMeta?
        var isLost = false
        do throws(RedisError) {
            found = try await ApusMeta.read(from: client, patience: copies.tags.isEmpty ? nil : Self.originalPatience)
            if found == nil {
                found = try await copies.read()?.meta
                isLost = found != nil
            }
        } catch {
            guard error.isRetryable || error.isUnanswered, let copy = try? await copies.read() else { throw error }
            found = copy.meta
        }
        guard let meta = found else {
            throw RedisError(.notInitialized, "\(ApusMeta.key) is missing in this Redis: run `apus init`")
        }
        let unused = try await Self.library().check(on: client)
        self.init(client, keyspace: meta.keyspace, clock: clock)
        self.serversWithoutFunctions = unused
        self.isMetaLost = isLost
    }

    private init(_ client: RedisClient, keyspace: Keyspace, clock: any WallClock) {
        self.client = client
        self.streams = SendStreams(client: client, keyspace: keyspace)
        self.store = DeviceStore(client: client, keyspace: keyspace, clock: clock)
    }

    /// Returns the same installation with another client: other connections, on other event loops.
    public func reached(by client: RedisClient, clock: any WallClock) -> Installation {
        var other = Installation(client, keyspace: self.keyspace, clock: clock)
        other.store.encryption = self.store.encryption
        return other
    }

    /// Sets the keys that the records of devices are encrypted with, the current one first; none: they are stored as they are. It holds for
    /// every copy of the installation.
    package func setRecordKeys(_ keys: [[UInt8]]) { self.store.encryption.setKeys(keys) }

    /// Records that the configured keys of records cannot be had: no record is written then, and none read that is encrypted.
    package func lackRecordKeys(because problem: String) { self.store.encryption.lackKeys(because: problem) }

    /// Counts the records that were not read or not written because a key is missing.
    package func countRefusedRecords(as counter: Counter, in registry: MetricRegistry) {
        registry.mirror(counter) { [encryption = self.store.encryption] in encryption.refusedCount }
    }

    /// Opens the installation of a service and prepares the service with it: begins again while Redis cannot be reached or does not
    /// answer, and logs that.
    ///
    /// - Parameter prepare: reads and writes what the service needs to start; it may run several times.
    package static func waiting<Prepared: Sendable>(
        _ client: RedisClient,
        clock: any WallClock,
        logger: Logger,
        prepare: @Sendable (Installation) async throws -> Prepared,
    ) async throws -> Prepared {
        while true {
            do {
                let installation = try await Installation(client, clock: clock)
                if !installation.serversWithoutFunctions.isEmpty {
                    let names = installation.serversWithoutFunctions.map { "\($0)" }.joined(separator: ", ")
                    let text = "servers without slots lack the functions: run apus init before slots are moved to them"
                    logger.warning("\(text)", metadata: ["servers": "\(names)"])
                }
                if installation.isMetaLost {
                    logger.error("\(ApusMeta.key) is lost, and the sizes are those of its copies: run apus init")
                }
                return try await prepare(installation)
            } catch {
                guard let failure = error as? RedisError, failure.isRetryable || failure.isUnanswered
                else { throw error }
                logger.warning("waiting for Redis", metadata: ["error": "\(failure)"])
            }
            try await Task.sleep(for: .milliseconds(500))
        }
    }

    /// Opens the installation of a service that needs nothing else from Redis to start.
    package static func waiting(
        _ client: RedisClient,
        clock: any WallClock,
        logger: Logger,
    ) async throws -> Installation {
        try await Self.waiting(client, clock: clock, logger: logger) { $0 }
    }
}
