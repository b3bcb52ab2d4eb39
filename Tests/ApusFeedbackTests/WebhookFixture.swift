import ApusCore
import ApusInstallation
import ApusMessages
import ApusMetrics
import ApusRedis
import ApusStreams
import ApusTLS
import ApusTestKit
import Foundation
import Logging
import NIOPosix
import Testing

@testable import ApusFeedback

/// A redis-server with an installation of one shard, and senders of its receipts that are not bound to a service.
struct WebhookFixture: Sendable {
    static let secret = String(repeating: "s3cret-", count: 6)

    let client: RedisClient
    let streams: SendStreams
    let folder: String

    var keys: StreamKeys { self.streams.keys(shard: 0) }

    func sender(
        to port: Int,
        name: String = "w",
        batch: Int = 10,
        attemptsMax: UInt32 = 5,
        timeout: Duration = .seconds(30),
        lease: Duration = .seconds(60),
        trust: TLSTrust? = nil,
        observe: (MetricRegistry) -> Void = { _ in },
    ) throws -> WebhookSender {
        let scheme = trust == nil ? "http" : "https"
        let address = try #require(WebAddress("\(scheme)://127.0.0.1:\(port)/hook?a=b"))
        let settings = WebhookSettings(
            address: address,
            secretFile: "\(self.folder)/secret",
            batch: batch,
            attemptsMax: Int(attemptsMax),
            timeout: timeout,
        )
        var catalogue = MetricCatalogue()
        let metrics = FeedbackMetrics(&catalogue)
        let registry = MetricRegistry(catalogue)
        observe(registry)
        return WebhookSender(
            keys: self.keys,
            shard: 0,
            streams: self.streams,
            consumer: StreamConsumer(group: StreamGroup.webhooks, name: name),
            client: WebhookClient(
                address: address,
                tls: try trust.map { try TLSContext.client(trust: $0) },
                timeout: timeout,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            ),
            settings: settings,
            retry: RetryPolicy(baseMilliseconds: 1, capMilliseconds: 1, attemptsMax: attemptsMax),
            lease: lease,
            progress: WebhookProgress(metrics, shared: registry.shared),
            metrics: metrics,
            shared: registry.shared,
            clock: SystemClock(),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        )
    }

    func write(_ range: Range<Int>) async throws {
        for number in range {
            var receipt = SendReceipt(id: "final:s\(number)", send: "s\(number)", app: "shop", kind: .final)
            receipt.planned = UInt64(number)
            receipt.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
            try await self.streams.outcomes.write(receipt, replyTo: "", tag: self.keys.tag)
        }
    }

    func pending() async throws -> Int64? {
        let command = RedisCommand("XPENDING", .text(self.keys.receipts), .text(StreamGroup.webhooks))
        do throws(RedisError) {
            return try await self.client.send(command, on: self.keys.tag).root.element(0)?.integer
        } catch {
            // Nobody has read yet.
            guard error.code == .noGroup else { throw error }
            return nil
        }
    }

    func deadLetters() async throws -> [DeadLetter] {
        let reply = try await self.client.send(
            RedisCommand("XRANGE", .text(self.keys.dead), "-", "+"),
            on: self.keys.tag
        )
        return try reply.root.children.map { try DeadLetter.decode($0[1][1].bytes ?? []) }
    }

    static func with(_ body: (WebhookFixture) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "apus-webhook-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try Data((Self.secret + "\n").utf8).write(to: folder.appending(path: "secret"))
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Keyspace(queueShards: 1, devicePartitions: 1))
            let installation = try await Installation(client, clock: SystemClock())
            let path = folder.path(percentEncoded: false)
            try await body(WebhookFixture(client: client, streams: installation.streams, folder: path))
            await client.close()
        }
    }

    /// The ids of the receipts in a request.
    static func ids(_ request: WebhookReceiver.Request) throws -> [String] {
        let json = try JSONValue(parsing: request.body, bytesMax: 1 << 20)
        return (json["receipts"]?.array ?? []).compactMap { $0["id"]?.string }
    }
}
