public import ApusCore
package import ApusInstallation
public import ApusMessages
public import ApusRedis
internal import ApusStreams
public import Logging
public import NIOCore
internal import NIOPosix

/// Publishes sends and reads their receipts: everything that a backend needs, without any service.
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
/// It is thread-safe; one per process is enough.
public final class Publisher: Sendable {
    /// The installation that commands are written to.
    package let installation: Installation

    private let ownGroup: MultiThreadedEventLoopGroup?
    private let clock = SystemClock()
    /// Publications with confirmed safety use connections of their own, because the check blocks the commands behind it.
    private let writer: AcknowledgedWriter
    /// The publisher's name; nil for one that writes into the mailboxes that publishers share.
    private let name: PublisherName?
    /// The apps that dispatchers have.
    private let apps: AppsOfDispatchers

    /// Connects to an installation.
    ///
    /// - Parameters:
    ///   - url: the address, `redis://`, `rediss://` or `unix://`, as `RedisConfiguration` explains.
    ///   - name: the publisher's name in the configuration's `publishers`, for one that has mailboxes of its own. It publishes for its own
    ///     apps alone, its receipts go to `apus:receipts:<name>` unless a command names another stream, and a key or an id that was used
    ///     before is told by the receipt alone. Nil for the mailboxes that publishers share.
    ///   - acknowledgementPatience: the longest time that a replica or the disk may take to have a publication.
    ///   - eventLoopGroup: the event loops of its connections; nil for one thread of its own, until `close()`.
    ///   - logger: writes one line when Redis is lost and one when it is back.
    /// - Throws: `unavailable`, `notInitialized`, or `refused` for an address or password that is wrong.
    public convenience init(
        redis url: String,
        name: String? = nil,
        acknowledgementPatience: Duration = .seconds(1),
        eventLoopGroup: (any EventLoopGroup)? = nil,
        logger: Logger = Logger(label: "apus.publisher") { _ in SwiftLogNoOpLogHandler() },
    ) async throws(PublisherError) {
        let configuration: RedisConfiguration
        do throws(RedisError) {
            configuration = try RedisConfiguration(url: url, clientName: "apus-publisher")
        } catch {
            throw PublisherError(error)
        }
        try await self.init(
            configuration,
            name: name,
            acknowledgementPatience: acknowledgementPatience,
            eventLoopGroup: eventLoopGroup,
            logger: logger,
        )
    }

    /// Connects to an installation with a complete configuration of the connection.
    public init(
        _ configuration: RedisConfiguration,
        name: String? = nil,
        acknowledgementPatience: Duration = .seconds(1),
        eventLoopGroup: (any EventLoopGroup)? = nil,
        logger: Logger = Logger(label: "apus.publisher") { _ in SwiftLogNoOpLogHandler() },
    ) async throws(PublisherError) {
        do throws(IdentifierError) {
            self.name = try name.map { text throws(IdentifierError) in try PublisherName(text) }
        } catch {
            throw PublisherError(.invalid, "\(error)", field: "name")
        }
        let ownGroup = eventLoopGroup == nil ? MultiThreadedEventLoopGroup(numberOfThreads: 1) : nil
        self.ownGroup = ownGroup
        do {
            guard let group = eventLoopGroup ?? ownGroup else { preconditionFailure("there is no event loop group") }
            let topology = try RedisClient.topology(of: configuration, eventLoopGroup: group, logger: logger)
            func client() throws(RedisError) -> RedisClient {
                try RedisClient(
                    configuration: configuration,
                    topology: topology,
                    eventLoopGroup: group,
                    logger: logger,
                )
            }
            let (client, second) = (try client(), try client())
            self.writer = AcknowledgedWriter(second, patience: acknowledgementPatience)
            do {
                let installation = try await Installation(client, clock: SystemClock())
                self.installation = installation
                self.apps = AppsOfDispatchers(installation.streams.routes, clock: SystemClock())
            } catch {
                await client.close()
                await second.close()
                await topology.close()
                throw error
            }
        } catch {
            try? await ownGroup?.shutdownGracefully()
            throw PublisherError(error)
        }
    }

    /// Closes the connections. Nothing may be published afterwards.
    public func close() async {
        await self.installation.client.close()
        await self.writer.close()
        await self.installation.client.topology.close()
        try? await self.ownGroup?.shutdownGracefully()
    }

    /// Writes a command into its mailbox.
    ///
    /// A command without an id gets one, and every command the time; it is repeated with the same id until there is an
    /// answer, so that a lost connection never makes two sends of it. The caller's command is not changed: after an error
    /// publish `PublisherError.command`, which has the id. Within a day both are the same send.
    ///
    /// - Parameters:
    ///   - lane: express for sends that a person waits for. Audiences are always bulk.
    ///   - acknowledgement: the level of safety to wait for; nil for a replica if the server has one, otherwise memory.
    ///     A replica that does not answer in time is not an error: see `Publication.isAcknowledged`.
    ///   - patience: the time for retries while Redis is unreachable or the mailbox is full; nil for the
    ///     configuration's patience with Redis, and an immediate error for a full mailbox.
    /// - Throws: `invalid`, `conflict`, `mailboxFull`, `acknowledgementUnavailable`, `unavailable` or `refused`.
    public func publish(
        _ command: SendCommand,
        lane: Lane = .bulk,
        acknowledgement: Acknowledgement? = nil,
        within patience: Duration? = nil,
    ) async throws(PublisherError) -> Publication {
        let prepared = self.prepared(command)
        do {
            let encoded = try Self.encode(prepared)
            // Nobody with mailboxes of its own may read the routes: a receipt tells of an app that no dispatcher has.
            if self.name == nil { try await self.apps.check(prepared.app) }
            return try await self.publish(prepared, encoded, lane, acknowledgement, patience)
        } catch {
            throw PublisherError(error, of: prepared)
        }
    }

    /// Returns a command as it is written: with an id, the time and, of a publisher with a name, the stream of its receipts.
    private func prepared(_ command: SendCommand) -> SendCommand {
        var command = command
        if command.id.isEmpty { command.id = Self.newID() }
        command.publishedAtNanoseconds = self.clock.nanosecondsSince1970()
        if let name, command.replyTo.isEmpty { command.replyTo = StreamKeys.receipts(of: name) }
        return command
    }

    private func publish(
        _ command: SendCommand,
        _ encoded: [UInt8],
        _ lane: Lane,
        _ acknowledgement: Acknowledgement?,
        _ patience: Duration?,
    ) async throws -> Publication {
        let mailboxes = self.installation.streams.mailboxes
        let call = mailboxes.prepare(command, encoded: encoded, lane: lane, of: self.name)
        let clock = ContinuousClock()
        let deadline = clock.now + (patience ?? self.installation.client.configuration.patience)
        // A later attempt may find the command of an earlier one whose reply was lost.
        var mayBeOurs = false
        var attempt = 0
        while true {
            attempt += 1
            var wait = Duration.zero
            do {
                let (outcome, reached, isAcknowledged) = try await self.attempt(
                    call,
                    acknowledgement,
                    left: deadline - clock.now
                )
                switch outcome {
                case .new(_, let entry):
                    // Another server may have the stream of receipts, and another clock.
                    let topology = self.installation.client.topology
                    let receipts = HashTag(ofKey: command.replyTo.isEmpty ? call.keys.receipts : command.replyTo)
                    let isElsewhere =
                        topology.endpoint(forSlot: receipts.slot) != topology.endpoint(forSlot: call.keys.tag.slot)
                    let margin = isElsewhere ? StreamLimits.clockSkewMaxMilliseconds : 1
                    let after = Publication.before(entry, milliseconds: margin)
                    let new = Publication(command, call, after: after, reached, isAcknowledged: isAcknowledged)
                    return await self.explained(new, acknowledgement, call.keys.tag)
                case .duplicate(let send):
                    var found = Publication(command, call, after: "0", reached, isAcknowledged: isAcknowledged)
                    found.send = send
                    found.isDuplicate = !(mayBeOurs && send == command.id)
                    return await self.explained(found, acknowledgement, call.keys.tag)
                case .conflict(let send):
                    throw Self.conflict(command, send)
                case .full(let entries, let milliseconds):
                    let error = PublisherError.mailboxFull(entries, retryAfterMilliseconds: milliseconds)
                    // Half of the wait is fixed, half is random, so that refused publishers do not return together.
                    wait = .milliseconds(milliseconds) * Double.random(in: 0.5..<1)
                    guard patience != nil, clock.now + wait < deadline else { throw error }
                }
            } catch let error as RedisError {
                if error.isOutcomeUnknown { mayBeOurs = true }
                let left = deadline - clock.now
                let draw = Double.random(in: 0..<1)
                let decision = RetryDecision(error: error, attempt: attempt, idempotent: true, left: left, draw: draw)
                guard case .resend(let after) = decision else { throw error }
                wait = after
            }
            try await clock.sleep(for: wait)
        }
    }

    /// Returns the error about a command whose key, or whose id, names a send with another body.
    private static func conflict(_ command: SendCommand, _ send: String) -> PublisherError {
        let hasKey = !command.idempotencyKey.isEmpty
        // A key finds a send, and so does the ledger of one with the same id.
        let name = !hasKey ? "id" : send == command.id ? "idempotency key or the id" : "idempotency key"
        let field = hasKey ? "idempotency_key" : "id"
        let text = "the \(name) names the send \(send) already, which has another body: a new send needs a new one"
        return PublisherError(.conflict, text, field: field, send: send)
    }

    /// Notes why a publication is not as safe as was asked for, if that is because there is no replica.
    private func explained(_ publication: Publication, _ asked: Acknowledgement?, _ tag: HashTag) async -> Publication {
        guard asked == .replica, !publication.isAcknowledged else { return publication }
        var explained = publication
        explained.hasReplica = await self.writer.hasReplica(tag)
        return explained
    }

    /// Makes one attempt and returns its result.
    private func attempt(
        _ call: Mailboxes.PreparedCommand,
        _ asked: Acknowledgement?,
        left: Duration,
    ) async throws -> (Mailboxes.PublishResult, Acknowledgement, isAcknowledged: Bool) {
        let client = self.installation.client
        let level: Acknowledgement
        if let asked { level = asked } else { level = try await self.writer.defaultLevel(call.keys.tag, within: left) }
        guard level != .memory else {
            // An unknown outcome must be reported here, because this function makes the next attempt.
            let options = RedisClient.Options(isIdempotent: false, patience: left)
            let reply = try await client.send(call.command, on: call.keys.tag, options: options)
            return (try Mailboxes.PublishResult(reply), .memory, true)
        }
        let answer = try await self.writer.publish(call.command, on: call.keys.tag, level)
        let outcome = try Mailboxes.PublishResult(answer.reply)
        return (outcome, answer.isAcknowledged ? level : .memory, answer.isAcknowledged)
    }

    /// Returns the encoding of a command. Refuses here, where the caller sees it, what dispatchers would refuse at once. Other refusals come
    /// as receipts.
    private static func encode(_ command: SendCommand) throws(PublisherError) -> [UInt8] {
        do throws(Problem) {
            try SendCommandRules.check(command)
            try SendCommandRules.checkWorth(of: command, now: command.publishedAt(now: UnixMilliseconds(0)))
        } catch {
            throw PublisherError(error)
        }
        do throws(MessageError) {
            return try command.encode()
        } catch {
            throw PublisherError(.invalid, "\(error)", field: error.field)
        }
    }

    /// Returns an id for a command that has none.
    package static func newID() -> String {
        let digits = String(UInt64.random(in: .min ... .max), radix: 36)
        return "s" + String(repeating: "0", count: 13 - digits.utf8.count) + digits
    }
}
