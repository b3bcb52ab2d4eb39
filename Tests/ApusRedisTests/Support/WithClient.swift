import ApusRedis
import ApusTestKit
import Logging
import NIOCore
import NIOPosix
import Testing

/// Runs `body` with a server and a client of it.
func withClient(
    _ options: RedisServer.Options = RedisServer.Options(),
    url: KeyPath<RedisServer, String> & Sendable = \.url,
    configure: (inout RedisConfiguration) -> Void = unchanged,
    _ body: (RedisServer, RedisClient) async throws -> Void,
) async throws {
    try await RedisServer.with(options) { server in
        try await withClient(of: server[keyPath: url], configure: configure) { try await body(server, $0) }
    }
}

/// The settings as they are.
func unchanged(_ configuration: inout RedisConfiguration) {}

/// Settings for a server that hangs: an answer may take a second.
func impatient(_ configuration: inout RedisConfiguration) { configuration.requestTimeout = .seconds(1) }

/// Runs `body` with a client of that address.
func withClient(
    of url: String,
    topology: (any RedisTopology)? = nil,
    configure: (inout RedisConfiguration) -> Void = unchanged,
    _ body: (RedisClient) async throws -> Void,
) async throws {
    var configuration = try RedisConfiguration(url: url, clientName: "apus-tests")
    // Generous: tests run on loaded machines.
    configuration.connectTimeout = .seconds(20)
    configuration.requestTimeout = .seconds(30)
    configure(&configuration)
    let client = try RedisClient(
        configuration: configuration,
        topology: topology,
        eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
    )
    do {
        try await body(client)
    } catch {
        await client.close()
        throw error
    }
    await client.close()
}

/// A connection of its own to that address.
func connect(_ url: String, configure: (inout RedisConfiguration) -> Void = { _ in }) async throws -> RedisConnection {
    var configuration = try RedisConfiguration(url: url, clientName: "apus-tests")
    // Generous: tests run on loaded machines.
    configuration.connectTimeout = .seconds(20)
    configuration.requestTimeout = .seconds(30)
    configure(&configuration)
    return try await RedisConnection.connect(
        to: configuration.endpoint,
        configuration: configuration,
        on: MultiThreadedEventLoopGroup.singleton.any(),
    ).get()
}

/// Expects a failure with that code.
@discardableResult
func expectError(
    _ code: RedisError.Code,
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () async throws -> Void,
) async -> RedisError? {
    do {
        try await body()
        Issue.record("nothing thrown", sourceLocation: sourceLocation)
        return nil
    } catch {
        let error = error as? RedisError
        #expect(error?.code == code, "\(String(describing: error))", sourceLocation: sourceLocation)
        return error
    }
}
