public import ApusCore
package import ApusInstallation
public import ApusMessages
public import ApusRedis
internal import ApusStreams
public import Logging
public import NIOCore
internal import NIOPosix

/// Hands sends to Apus and reads what became of them: all that a backend needs, without any service.
///
/// ```swift
/// let publisher = try await Publisher(redis: "redis://127.0.0.1:6379")
/// var notification = Notification()
/// notification.title = "Hello"
/// let publication = try await publisher.publish(
///     SendCommand(app: "shop", target: .users(["ada"]), notification: notification),
///     lane: .express,
/// )
/// let receipt = try await publisher.finalReceipt(of: publication, within: .seconds(10))
/// await publisher.close()
/// ```
///
/// Thread-safe; one for a process is enough.
public final class Publisher: Sendable {
    /// The installation that it writes to.
    package let installation: Installation

    private let ownGroup: MultiThreadedEventLoopGroup?
    private let clock = PublisherClock()

    /// Connects to an installation.
    ///
    /// - Parameters:
    ///   - url: `redis://`, `rediss://` or `unix://`, as `RedisConfiguration` explains.
    ///   - eventLoopGroup: where its connections live; nil: one thread of its own, until `close()`.
    ///   - logger: one line when Redis is lost and one when it is back.
    /// - Throws: `unavailable`, `notInitialized`, or `refused` for an address or password that is wrong.
    public convenience init(
        redis url: String,
        eventLoopGroup: (any EventLoopGroup)? = nil,
        logger: Logger = Logger(label: "apus.publisher") { _ in SwiftLogNoOpLogHandler() },
    ) async throws(PublisherError) {
        let configuration: RedisConfiguration
        do throws(RedisError) {
            configuration = try RedisConfiguration(url: url, clientName: "apus-publisher")
        } catch {
            throw PublisherError(error)
        }
        try await self.init(configuration, eventLoopGroup: eventLoopGroup, logger: logger)
    }

    /// Connects to an installation, with every setting of the connection said.
    public init(
        _ configuration: RedisConfiguration,
        eventLoopGroup: (any EventLoopGroup)? = nil,
        logger: Logger = Logger(label: "apus.publisher") { _ in SwiftLogNoOpLogHandler() },
    ) async throws(PublisherError) {
        let ownGroup = eventLoopGroup == nil ? MultiThreadedEventLoopGroup(numberOfThreads: 1) : nil
        self.ownGroup = ownGroup
        do {
            guard let group = eventLoopGroup ?? ownGroup else { preconditionFailure("one of the two is there") }
            let client = try RedisClient(configuration: configuration, eventLoopGroup: group, logger: logger)
            do {
                self.installation = try await Installation(client, clock: PublisherClock())
            } catch {
                await client.close()
                throw error
            }
        } catch {
            try? await ownGroup?.shutdownGracefully()
            throw PublisherError(error)
        }
    }

    /// Closes its connections. Nothing may be published afterwards.
    public func close() async {
        await self.installation.client.close()
        try? await self.ownGroup?.shutdownGracefully()
    }

    /// Writes a command into its mailbox.
    ///
    /// A command without an id gets one, and every command the time. Publishing the same command again after an error is
    /// safe when it has an id or an idempotency key: within a day both are the same send.
    ///
    /// - Parameters:
    ///   - lane: express for what a person waits for. Audiences are bulk, whatever is said here.
    /// - Throws: `invalid`, `conflict`, `mailboxFull`, `unavailable` or `refused`.
    public func publish(_ command: SendCommand, lane: Lane = .bulk) async throws(PublisherError) -> Publication {
        var command = command
        if command.id.isEmpty { command.id = Self.newID() }
        command.publishedAtNanoseconds = self.clock.nanosecondsSince1970()
        try Self.check(command)
        let streams = self.installation.streams
        let outcome: SendStreams.Publication
        do {
            outcome = try await streams.publish(command, lane: lane)
        } catch {
            throw PublisherError(error)
        }
        func publication(_ send: String, isDuplicate: Bool, after: String) -> Publication {
            let identity = SendIdentity(of: command, origin: "")
            let receipts = streams.home(app: command.app, identity.home).receipts
            return Publication(
                send: send,
                app: command.app,
                isDuplicate: isDuplicate,
                publishedAtNanoseconds: command.publishedAtNanoseconds,
                receipts: command.replyTo.isEmpty ? receipts : command.replyTo,
                after: after,
            )
        }
        switch outcome {
        case .new(let send, let entry):
            return publication(send, isDuplicate: false, after: Publication.before(entry))
        case .duplicate(let send):
            return publication(send, isDuplicate: true, after: "0")
        case .conflict(let send):
            let text = "the idempotency key named the send \(send) with another body within a day"
            throw PublisherError(.conflict, text, field: "idempotency_key", send: send)
        case .full(let entries):
            let text = "\(entries) commands wait in the mailbox already: are dispatchers running? Publish later"
            throw PublisherError(.mailboxFull, text)
        }
    }

    /// What dispatchers would refuse at once is refused here, where the caller sees it. The rest comes as a receipt.
    private static func check(_ command: SendCommand) throws(PublisherError) {
        do throws(IdentifierError) {
            _ = try AppID(command.app)
        } catch {
            throw PublisherError(.invalid, "app: \(error)", field: "app")
        }
        do throws(IdentifierError) {
            _ = try SendID(command.id)
        } catch {
            throw PublisherError(.invalid, "id: \(error)", field: "id")
        }
        do throws(MessageError) {
            _ = try command.encode()
        } catch {
            throw PublisherError(.invalid, "\(error)", field: error.field)
        }
    }

    private static func newID() -> String {
        let digits = String(UInt64.random(in: .min ... .max), radix: 36)
        return "s" + String(repeating: "0", count: 13 - digits.utf8.count) + digits
    }
}
