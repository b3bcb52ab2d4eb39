public import ApusMetrics
public import ApusRedis
internal import FoundationEssentials
public import Logging
public import NIOCore

extension RedisConfiguration {
    /// Creates the configuration that the section `redis` describes.
    ///
    /// - Throws: `configuration` for an invalid address or a password file that cannot be read.
    public init(_ settings: RedisSettings, clientName: String) throws(RedisError) {
        try self.init(url: settings.url, clientName: clientName)
        if let user = settings.user { self.username = user }
        if let file = settings.passwordFile {
            guard var text = try? String(contentsOfFile: file, encoding: .utf8) else {
                throw RedisError(.configuration, "redis.password_file cannot be read: \(file)")
            }
            while text.last?.isWhitespace == true { text.removeLast() }
            self.password = String(text.drop { $0.isWhitespace })
        }
        if let file = settings.caFile {
            self.tls = TLS(certificateAuthorityFile: file, serverName: self.tls?.serverName)
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
    ///   - eventLoopGroup: the event loops of its connections.
    ///   - logger: logs lost and restored servers.
    /// - Throws: `configuration` for an invalid address or a password file that cannot be read.
    public convenience init(
        _ settings: RedisSettings,
        clientName: String,
        metrics: RedisMetrics,
        shared: SharedMetrics,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
    ) throws(RedisError) {
        try self.init(
            configuration: RedisConfiguration(settings, clientName: clientName),
            eventLoopGroup: eventLoopGroup,
            logger: logger,
            observer: RedisCounts(metrics: metrics, shared: shared),
        )
    }
}

extension CheckResult {
    /// Checks that Redis answers: the check of `/readyz` that every service has.
    public static func redis(_ client: RedisClient) async -> CheckResult {
        do throws(RedisError) {
            _ = try await client.send(RedisCommand("PING"), on: HashTag(ofKey: ApusMeta.key))
            return .ok()
        } catch {
            return .failing(error.code.description)
        }
    }
}
