internal import ApusCore
public import ApusMetrics
public import ApusRedis
internal import FoundationEssentials
public import Logging
public import NIOCore
internal import NIOPosix

extension RedisConfiguration {
    /// Creates the configuration that the section `redis` describes.
    ///
    /// - Throws: `configuration` for an invalid address or a password file that cannot be read.
    public init(_ settings: RedisSettings, clientName: String) throws(RedisError) {
        try self.init(url: settings.url, clientName: clientName)
        if let user = settings.user { self.username = user }
        if let file = settings.passwordFile {
            self.password = try Self.password(settings.password, in: file, of: "redis.password_file")
        }
        if case .sentinel(var sentinel) = self.deployment, let file = settings.sentinelPasswordFile {
            sentinel.username = settings.sentinelUser
            sentinel.password = try Self.password(
                settings.sentinelPassword,
                in: file,
                of: "redis.sentinel_password_file"
            )
            self.deployment = .sentinel(sentinel)
        }
        if let file = settings.caFile { self.tls?.certificateAuthorityFile = file }
    }

    private static func password(
        _ known: HiddenText?,
        in file: String,
        of key: String,
    ) throws(RedisError) -> String {
        guard let password = known ?? HiddenText(trimming: file) else {
            let reason = fileProblem(file) ?? "it is not UTF-8"
            throw RedisError(.configuration, "\(key) \(file) cannot be read: \(reason)")
        }
        return password.text
    }
}

extension RedisSettings {
    /// The longest time that reading what a service needs may take.
    private static let trialDurationMax = Duration.seconds(10)

    /// Reads with the settings what a service needs to start.
    ///
    /// - Parameters:
    ///   - mustAnswer: true when a Redis that does not answer is an error, too. It may come back, but not necessarily with these settings.
    ///   - opening: reads what the service needs.
    /// - Throws: the reason why a service could not start with them, such as a password that Redis does not accept.
    func check(
        mustAnswer: Bool,
        _ opening: @escaping @Sendable (RedisClient) async throws(RedisError) -> Void,
    ) async throws(RedisError) {
        let client = try RedisClient(
            configuration: RedisConfiguration(self, clientName: "apus-settings"),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "apus") { _ in SwiftLogNoOpLogHandler() },
        )
        let result = await firstWithin(Self.trialDurationMax) { () -> Result<Void, RedisError> in
            do throws(RedisError) {
                return .success(try await opening(client))
            } catch {
                return .failure(error)
            }
        }
        await client.close()
        let late = RedisError(.timedOut, "no answer within \(Self.trialDurationMax.components.seconds) s")
        do throws(RedisError) {
            try (result ?? .failure(late)).get()
        } catch {
            guard mustAnswer || !error.isRetryable && !error.isUnanswered else { return }
            throw error
        }
    }
}

extension RedisClient {
    /// Creates the client that a configuration describes, with metrics. It connects at the first command.
    ///
    /// - Parameters:
    ///   - settings: the section `redis`.
    ///   - clientName: the connection's name in `CLIENT LIST`.
    ///   - metrics: the metrics of commands and connections.
    ///   - shared: the cells that count.
    ///   - topology: that of another client of the process, whose owner closes it; nil for one of its own.
    ///   - eventLoopGroup: the event loops of its connections.
    ///   - logger: logs lost and restored servers.
    /// - Throws: `configuration` for an invalid address or a password file that cannot be read.
    public convenience init(
        _ settings: RedisSettings,
        clientName: String,
        metrics: RedisMetrics,
        shared: SharedMetrics,
        topology: (any RedisTopology)? = nil,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
    ) throws(RedisError) {
        var configuration = try RedisConfiguration(settings, clientName: clientName)
        configuration.skipsLostServers = true
        try self.init(
            configuration: configuration,
            topology: topology,
            eventLoopGroup: eventLoopGroup,
            logger: logger,
            observer: RedisCounts(metrics: metrics, shared: shared),
        )
    }
}

extension CheckResult {
    /// Checks that Redis answers: the check of `/readyz` that every service has. Of a cluster one master is enough, because the
    /// service goes on with it; the others that do not answer are named.
    public static func redis(_ client: RedisClient) async -> CheckResult {
        do throws(RedisError) {
            let masters = try await client.topology.knownMasters(within: .zero)
            let silent = await client.silent(of: masters)
            guard !silent.isEmpty else { return .ok() }
            let text = silent.map { $0.error.sentence(about: "\($0.server)") }.joined(separator: " ")
            return silent.count < masters.count ? .ok(text) : .failing(text)
        } catch {
            return .failing(error.sentence(about: client.configuration.places))
        }
    }

    /// Checks that the streams of a service are read. As long as a shard of a cluster is read, those that are not are no reason to take the
    /// work of the others from the process; they are named.
    ///
    /// - Parameters:
    ///   - sentence: tells which streams are not read; nil when all are.
    ///   - shards: the tags of those streams.
    ///   - shardCount: the number of shards that the service reads.
    public static func reads(
        _ sentence: String?,
        of shards: [HashTag],
        among shardCount: Int,
        _ client: RedisClient,
    ) async -> CheckResult {
        guard let sentence else { return .ok() }
        guard let masters = try? await client.topology.knownMasters(within: .zero) else { return .failing(sentence) }
        var unread: [HashTag: RedisEndpoint] = [:]
        for shard in shards { unread[shard] = client.topology.endpoint(forSlot: shard.slot) }
        let silent = await client.silent(of: Array(Set(unread.values)))
        return Self.reads(
            sentence,
            of: shards.map { ($0, unread[$0]) },
            among: shardCount,
            masterCount: masters.count,
            silent: Set(silent.map(\.server)),
        )
    }

    /// Judges streams that are not read.
    ///
    /// - Parameters:
    ///   - shards: their tags and servers.
    ///   - silent: those of the servers that do not answer.
    package static func reads(
        _ sentence: String,
        of shards: [(tag: HashTag, server: RedisEndpoint?)],
        among shardCount: Int,
        masterCount: Int,
        silent: Set<RedisEndpoint>,
    ) -> CheckResult {
        let names = shards.sorted { $0.tag.slot < $1.tag.slot }.prefix(Self.namedShardsMax).map { shard in
            "\(shard.tag)" + (shard.server.map { " on \($0)" } ?? "")
        }
        let rest = shards.count > names.count ? " and \(shards.count - names.count) more" : ""
        let text = "\(sentence): \(names.joined(separator: ", "))\(rest)"
        let servers = Set(shards.compactMap(\.server))
        if servers.count < masterCount, servers == silent { return .ok("\(text), because the server does not answer") }
        // One server reads all or nothing: whatever it does not do is its own trouble, or that of the way to it.
        return masterCount > 1 && shards.count < shardCount ? .ok(text) : .failing(text)
    }

    /// The maximum number of shards that a check names.
    private static let namedShardsMax = 8
}

extension RedisClient {
    /// The longest wait for a server's answer to a check.
    private static let checkMax = Duration.seconds(1)

    /// Returns the masters of a list that do not answer, each with its error.
    package func silent(of servers: [RedisEndpoint]) async -> [(server: RedisEndpoint, error: RedisError)] {
        await withTaskGroup(of: (RedisEndpoint, RedisError)?.self) { group in
            for server in servers {
                group.addTask {
                    // The command keeps its own patience: one that runs out ends a connection that others wait on.
                    let error = await firstWithin(Self.checkMax) { () -> RedisError? in
                        do throws(RedisError) {
                            try await self.ping(server)
                            return nil
                        } catch {
                            return error
                        }
                    }
                    guard let error else { return (server, RedisError(.timedOut, "no answer within a second")) }
                    return error.map { (server, $0) }
                }
            }
            var silent: [(RedisEndpoint, RedisError)] = []
            for await found in group { if let found { silent.append(found) } }
            return silent.sorted { "\($0.0)" < "\($1.0)" }
        }
    }

    /// Asks a server for an answer over a connection that work may use: with Sentinels that is one which they have confirmed.
    private func ping(_ server: RedisEndpoint) async throws(RedisError) {
        let (command, options) = (RedisCommand("PING"), Options(patience: .zero))
        if self.topology.confirmsMasters {
            // There is one master, which has every slot.
            _ = try await self.send(command, on: HashTag("ping"), options: options)
        } else {
            _ = try await self.send(command, to: server, options: options)
        }
    }
}
