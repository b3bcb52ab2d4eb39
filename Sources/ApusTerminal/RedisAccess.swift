internal import ApusCore
package import ApusInstallation
package import ApusPublisher
package import ApusRedis
internal import Logging
internal import NIOPosix

/// Connects commands to Redis: with one attempt, and an error that names the remedy.
package enum RedisAccess {
    /// The environment variable with the address.
    package static let variable = "APUS_REDIS_URL"

    /// The connection's name in `CLIENT LIST`.
    package static let clientName = "apus-command"

    /// Runs `body` with a client of an address, and closes the client.
    package static func withClient<Result>(
        _ url: String,
        _ body: (RedisClient) async throws -> Result,
    ) async throws -> Result {
        try await Self.withClient(try Self.choice(of: url).configuration(), body)
    }

    /// Runs `body` with a client of the installation that the options name, and closes the client.
    package static func withClient<Result>(
        _ options: RedisOptions,
        _ body: (RedisClient) async throws -> Result,
    ) async throws -> Result {
        let choice = try options.choice()
        return try await Self.withClient(try choice.configuration(), origin: choice.origin, body)
    }

    private static func choice(of url: String) throws(CommandFailure) -> RedisChoice {
        try RedisChoice(redis: url, context: nil, config: nil, environment: [:])
    }

    /// Runs `body` with a client of a configuration, and closes the client.
    ///
    /// - Parameter origin: the origin of the address, for errors.
    package static func withClient<Result>(
        _ configuration: RedisConfiguration,
        origin: String = "--redis",
        _ body: (RedisClient) async throws -> Result,
    ) async throws -> Result {
        do {
            let client = try RedisClient(
                configuration: configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "apus") { _ in SwiftLogNoOpLogHandler() },
            )
            do {
                let result = try await body(client)
                await client.close()
                return result
            } catch {
                await client.close()
                throw error
            }
        } catch let error as any DisposedError {
            guard let cause = error.redis else { throw error }
            throw CommandFailure(Self.sentence(cause, configuration.description, origin))
        }
    }

    /// Runs `body` with the installation at an address, and closes its client.
    package static func withInstallation<Result>(
        _ url: String,
        _ body: (Installation) async throws -> Result,
    ) async throws -> Result {
        try await Self.withClient(url) { client in
            try await body(try await Installation(client, clock: SystemClock()))
        }
    }

    /// Runs `body` with the installation that the options name, and closes its client.
    package static func withInstallation<Result>(
        _ options: RedisOptions,
        _ body: (Installation) async throws -> Result,
    ) async throws -> Result {
        let choice = try options.choice()
        return try await Self.withClient(options) { client in
            let installation = try await Installation(client, clock: SystemClock())
            await choice.giveKeys(to: installation)
            return try await body(installation)
        }
    }

    /// Runs `body` with a publisher to the installation that the options name, and closes the publisher.
    package static func withPublisher<Result>(
        _ options: RedisOptions,
        _ body: (Publisher) async throws -> Result,
    ) async throws -> Result {
        let choice = try options.choice()
        let configuration = try choice.configuration()
        let place = configuration.description
        let publisher: Publisher
        do throws(PublisherError) {
            publisher = try await Publisher(configuration)
        } catch {
            switch error.code {
            case .unavailable: throw CommandFailure(Self.silence(error.message, place, choice.origin))
            case .refused: throw CommandFailure(Self.refusal(error.message, place, choice.origin))
            default: throw error
            }
        }
        do {
            let result = try await body(publisher)
            await publisher.close()
            return result
        } catch {
            await publisher.close()
            guard let cause = (error as? any DisposedError)?.redis else { throw error }
            throw CommandFailure(Self.sentence(cause, place, choice.origin))
        }
    }

    private static func sentence(_ error: RedisError, _ place: String, _ origin: String) -> String {
        switch error.code {
        case .notConnected, .disconnected, .timedOut: Self.silence(error.message, place, origin)
        case .noAuthentication, .wrongPassword, .noPermission: Self.refusal(error.message, place, origin)
        case .tls:
            "No TLS with Redis at \(place): \(error.message). The address is from \(origin); "
                + "the authority that is trusted is redis.ca_file, or ?ca=FILE in the address"
        case .outOfMemory:
            "\(PublisherError.fullSentence(error)). Its address, \(place), is from \(origin)"
        default: error.message
        }
    }

    private static func silence(_ message: String, _ place: String, _ origin: String) -> String {
        // An error of Sentinels names its cure.
        if place.contains("+sentinel://") {
            return "Redis at \(place) cannot be reached: \(message). That address is from \(origin)"
        }
        return
            "Redis at \(place) does not answer (\(message)): is it running\(Self.hintOnTLS(at: place))? That address is from \(origin); "
            + "name another with --redis, --context or \(Self.variable), or the services' configuration with --config or APUS_CONFIG"
    }

    /// Returns the question whether TLS is the trouble with an address, behind another question; empty for a socket, which has none.
    static func hintOnTLS(at place: String) -> String {
        let scheme = place.prefix { $0 != ":" }
        guard scheme != "unix" else { return "" }
        if scheme.hasPrefix("rediss") { return ", and does it speak TLS (\(scheme)://)" }
        return ", and does it want TLS (then \(scheme.replacing("redis", with: "rediss"))://)"
    }

    private static func refusal(_ message: String, _ place: String, _ origin: String) -> String {
        "Redis at \(place) refuses (\(message)): check user and password, which are from \(origin)"
    }
}
