internal import ApusCore
package import ApusInstallation
package import ApusPublisher
package import ApusRedis
internal import Logging
internal import NIOPosix

/// Connects commands to Redis: with one attempt, and an error that names the remedy.
package enum RedisAccess {
    /// The default address.
    package static let defaultURL = "redis://127.0.0.1:6379"
    /// The environment variable with the address.
    package static let variable = "APUS_REDIS_URL"

    /// The connection's name in `CLIENT LIST`.
    package static let clientName = "apus-command"

    /// Returns the given address, otherwise the environment's, otherwise the default.
    package static func url(_ given: String?) -> String { given ?? Console.variable(Self.variable) ?? Self.defaultURL }

    /// Runs `body` with a client, and closes the client.
    package static func withClient<Result>(
        _ url: String,
        _ body: (RedisClient) async throws -> Result,
    ) async throws -> Result {
        let configuration: RedisConfiguration
        do throws(RedisError) {
            configuration = try RedisConfiguration(url: url, clientName: Self.clientName)
        } catch {
            throw CommandFailure(error.message)
        }
        return try await Self.withClient(configuration, body)
    }

    /// Runs `body` with a client of a configuration, and closes the client.
    package static func withClient<Result>(
        _ configuration: RedisConfiguration,
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
        } catch let error as RedisError {
            throw CommandFailure(Self.sentence(error, configuration.description))
        }
    }

    /// Runs `body` with an installation, and closes its client.
    package static func withInstallation<Result>(
        _ url: String,
        _ body: (Installation) async throws -> Result,
    ) async throws -> Result {
        try await Self.withClient(url) { client in
            try await body(try await Installation(client, clock: SystemClock()))
        }
    }

    /// Runs `body` with a publisher, and closes the publisher.
    package static func withPublisher<Result>(
        _ url: String,
        _ body: (Publisher) async throws -> Result,
    ) async throws -> Result {
        let publisher: Publisher
        do {
            publisher = try await Publisher(RedisConfiguration(url: url, clientName: Self.clientName))
        } catch let error as RedisError {
            throw CommandFailure(Self.sentence(error, Self.place(url)))
        } catch let error as PublisherError where error.code == .unavailable {
            throw CommandFailure(Self.silence(error.message, Self.place(url)))
        } catch let error as PublisherError where error.code == .refused {
            throw CommandFailure(Self.refusal(error.message, Self.place(url)))
        }
        do {
            let result = try await body(publisher)
            await publisher.close()
            return result
        } catch {
            await publisher.close()
            throw error
        }
    }

    private static func sentence(_ error: RedisError, _ place: String) -> String {
        switch error.code {
        case .notConnected, .disconnected, .timedOut: Self.silence(error.message, place)
        case .noAuthentication, .wrongPassword, .noPermission: Self.refusal(error.message, place)
        default: error.message
        }
    }

    private static func silence(_ message: String, _ place: String) -> String {
        // An error of Sentinels names its cure.
        if place.contains("+sentinel://") { return "Redis at \(place) cannot be reached: \(message)" }
        return "Redis at \(place) does not answer (\(message)): is it running? "
            + "Name another with --redis or \(Self.variable)"
    }

    private static func refusal(_ message: String, _ place: String) -> String {
        "Redis at \(place) refuses (\(message)): check user and password in the address"
    }

    /// Returns the address without the password.
    private static func place(_ url: String) -> String {
        (try? RedisConfiguration(url: url))?.description ?? "that address"
    }
}
