import ApusBuiltInProviders
import ApusCore
import ApusInstallation
import ApusMetrics
import ApusRedis
import ApusRegistration
import ApusService
import ApusStore
import ApusStreams
import ApusTLS
import ApusTestKit
import Foundation
import Logging
import NIOPosix
import ServiceLifecycle

/// Redis, the registration service and clients, for one test.
struct Fixture: Sendable {
    let redis: RedisServer
    let client: RedisClient
    let installation: Installation
    let folder: TemporaryFolder
    let port: Int
    let adminPort: Int

    /// Keys of backends; the service knows their digests.
    static let shopKey = "apus_test_shop_register"
    static let adminKey = "apus_test_shop_admin"
    static let publishKey = "apus_test_shop_publish"
    static let newsKey = "apus_test_news"
    static let secret = "0123456789abcdef0123456789abcdef"
    static let keyspace = Keyspace(queueShards: 2, devicePartitions: 4)

    var store: DeviceStore { self.installation.store }

    /// The address of a device.
    static func path(_ device: String, app: String = "shop") -> String { "/v1/apps/\(app)/devices/\(device)" }

    /// Runs `body` with a service of its own, which drains afterwards.
    ///
    /// - Parameter whileAway: what happens while the service waits for Redis, which needs an append-only file; nil for a Redis that is there.
    static func with(
        settings: String = "",
        shop: String = "",
        tls: Bool = false,
        redis options: RedisServer.Options = RedisServer.Options(),
        prepare: (TemporaryFolder) throws -> Void = { _ in },
        whileAway: (@Sendable (TemporaryFolder) async throws -> Void)? = nil,
        _ body: @escaping @Sendable (Fixture) async throws -> Void,
    ) async throws {
        try await RedisServer.with(options) { redis in
            let folder = try TemporaryFolder()
            try prepare(folder)
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let group = MultiThreadedEventLoopGroup.singleton
            let client = try RedisClient(
                configuration: RedisConfiguration(url: redis.url, clientName: "apus-test"),
                eventLoopGroup: group,
                logger: logger,
            )
            try await Installation.initialize(client, keyspace: Self.keyspace)
            let installation = try await Installation(client, clock: SystemClock())
            let files = "certificate_file: \(folder.path)/certificate.pem, key_file: \(folder.path)/key.pem"
            let service = try Self.service(redis, folder, tls ? "  tls: {\(files)}" : settings, shop: shop)
            let services = ServiceGroup(configuration: .init(services: [.init(service: service)], logger: logger))
            if whileAway != nil { await redis.kill() }
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask { try await services.run() }
                let outcome: Result<Void, any Error>
                do {
                    if let whileAway {
                        try await whileAway(folder)
                        try await redis.restart()
                    }
                    let fixture = Fixture(
                        redis: redis,
                        client: client,
                        installation: installation,
                        folder: folder,
                        port: try await Self.port(folder, "port"),
                        adminPort: try await Self.port(folder, "admin-port"),
                    )
                    outcome = .success(try await body(fixture))
                } catch {
                    outcome = .failure(error)
                }
                // In order also when the test failed: a cancelled service does not drain.
                await services.triggerGracefulShutdown()
                try await tasks.waitForAll()
                try outcome.get()
            }
            await client.close()
        }
    }

    /// Runs `body` beside a second process of the service, as it were, which drains afterwards.
    func withSecondService(_ body: () async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let service = try Self.service(self.redis, folder, "", shop: "")
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let services = ServiceGroup(configuration: .init(services: [.init(service: service)], logger: logger))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await services.run() }
            let outcome: Result<Void, any Error>
            do {
                _ = try await Self.port(folder, "port")
                outcome = .success(try await body())
            } catch {
                outcome = .failure(error)
            }
            await services.triggerGracefulShutdown()
            try await tasks.waitForAll()
            try outcome.get()
        }
    }

    /// - Parameter shop: further lines of the app `shop`.
    static func configuration(
        _ redis: RedisServer,
        _ folder: TemporaryFolder,
        _ settings: String,
        shop: String = "",
    ) throws -> String {
        func digest(_ key: String) -> String { Hexadecimal.encode(SHA256.hash(utf8: key)) }
        try folder.write("secret", self.secret + "\n")
        return try folder.write(
            "apus.yaml",
            """
            redis: {url: "\(redis.url)"}
            admin: {listen: "127.0.0.1:0", port_file: \(folder.path)/admin-port}
            registration:
              listen: 127.0.0.1:0
              port_file: \(folder.path)/port
              lease: 400ms
            \(settings)
            apps:
              shop:
            \(shop)
                auth:
                  api_keys:
                    backend: {sha256: \(digest(self.shopKey)), role: register}
                    operator: {sha256: \(digest(self.adminKey)), role: admin}
                    sender: {sha256: \(digest(self.publishKey)), role: publish}
                  jwt: {algorithm: hs256, secret_file: \(folder.path)/secret, audience: shop-app}
              news:
                auth:
                  api_keys:
                    backend: {sha256: \(digest(self.newsKey)), role: register}
            """
        )
    }

    private static func service(
        _ redis: RedisServer,
        _ folder: TemporaryFolder,
        _ settings: String,
        shop: String,
    ) throws -> ChassisService<RegistrationSettings, RegistrationMetrics> {
        let file = try self.configuration(redis, folder, settings, shop: shop)
        BuiltInProviders.install()
        // A connection that a test has made may wait for long until the test goes on, on a machine with other loads.
        let environment = settings.contains("request_timeout") ? [:] : ["APUS_REGISTRATION_REQUEST_TIMEOUT": "60s"]
        let source = SettingsSource(file: file, environment: environment)
        let descriptor = open("\(folder.path)/log", O_WRONLY | O_CREAT | O_APPEND, 0o600)
        return ChassisService(
            try LiveSettings<RegistrationSettings>(source, for: .registration),
            metrics: RegistrationMetrics.self,
            sink: LogSink(writer: LogWriter(descriptor: descriptor), isJSON: true, level: .debug, clock: SystemClock()),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            pollInterval: .milliseconds(20),
        ) { context in
            [try Registration(context)]
        }
    }

    static func port(_ folder: TemporaryFolder, _ name: String) async throws -> Int {
        var port: Int?
        try await eventually("the service listens", timeout: .seconds(60)) {
            port = Int((try? String(contentsOfFile: "\(folder.path)/\(name)", encoding: .utf8))?.dropLast() ?? "")
            return port != nil
        }
        return port ?? 0
    }

    // MARK: Requests

    func connect() async throws -> HTTPConnection { try await HTTPConnection.open(port: self.port) }

    /// One request with a key on a connection of its own.
    func ask(
        _ method: String,
        _ target: String,
        _ json: String? = nil,
        key: String? = Fixture.shopKey,
        _ headers: [(String, String)] = [],
    ) async throws -> Answer {
        let connection = try await self.connect()
        defer { Task { await connection.close() } }
        var all = headers
        if let key { all.append(("authorization", "Bearer \(key)")) }
        if json != nil, !headers.contains(where: { $0.0 == "content-type" }) {
            all.append(("content-type", "application/json"))
        }
        return try await connection.ask(method, target, all, body: json.map { Array($0.utf8) })
    }

    /// A user's token as the shop's identity provider makes it.
    static func token(_ user: String, expiresIn seconds: Int64 = 600) throws -> String {
        let end = SystemClock().now().seconds + seconds
        return try JWS.sign(
            header: #"{"alg":"HS256","typ":"JWT"}"#,
            payload: #"{"sub":"\#(user)","aud":"shop-app","exp":\#(end)}"#,
            with: .sharedSecret(Array(Self.secret.utf8)),
        )
    }

    var metrics: String {
        get async throws {
            let connection = try await HTTPConnection.open(port: self.adminPort)
            let text = try await connection.ask("GET", "/metrics").text
            await connection.close()
            return text
        }
    }

    var log: String { (try? String(contentsOfFile: "\(self.folder.path)/log", encoding: .utf8)) ?? "" }
}

/// A member of a JSON object; nil: there is none.
func member(_ answer: Answer, _ name: String) throws -> JSONValue? {
    try JSONValue(parsing: answer.body, bytesMax: 1 << 20)[name]
}
