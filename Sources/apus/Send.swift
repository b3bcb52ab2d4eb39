import ApusCommand
import ApusCore
import ApusInstallation
import ApusMessages
import ApusPublisher
import ApusRedis
import ApusStreams
import ApusTerminal
import ArgumentParser

/// Publishes a send (`apus send`).
struct Send: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Send a notification.",
        discussion: """
            Prints the send's id. With --wait, the id is a message, followed by the send's progress, and the result is printed.
            """,
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Option(help: "The app.")
    var app: String
    @Option(help: "To the subscribers of a topic.")
    var topic: String?
    @Option(name: .customLong("device"), help: "To a device; may be repeated.")
    var devices: [String] = []
    @Option(name: .customLong("user"), help: "To all devices of a user; may be repeated.")
    var users: [String] = []
    @Option(
        name: .customLong("address"),
        help: "To a token, as provider:token (apns, apns-sandbox, fcm); may be repeated.",
    )
    var addresses: [String] = []
    @Option(help: "To a condition over topics: \"'a' in topics && !('b' in topics)\".")
    var condition: String?
    @Option(
        help: "To the matches of an expression: \"'a' in topics && locale in ['en', 'fr']\". See apus audience --help."
    )
    var audience: String?
    @Option(help: "To one of the provider's own topics: it holds the audience.")
    var fcmTopic: String?
    @Option(help: "To a condition over the provider's own topics, at most five.")
    var fcmCondition: String?
    @Option(help: "To a device group of the provider, by its notification key.")
    var fcmGroup: String?
    @Flag(help: "To every device of the app.")
    var everyone = false
    @Option(
        help: ArgumentHelp(
            "The notification as a JSON file, with the names of the HTTP API: see GET /openapi.json. Other options override it.",
            valueName: "file"
        ),
        completion: .file(),
        // A pipe can be read once, and a command is checked before it is published.
        transform: { try NotificationFile.read($0) }
    )
    var notification: Notification?
    @Option(help: "The title.")
    var title = ""
    @Option(help: "The body.")
    var body = ""
    @Option(help: "Data for the app, as key=value; may be repeated.")
    var data: [String] = []
    @Option(help: "The time to live: 30s, 5m, 2h, 1d.")
    var ttl: String?
    @Option(help: "The send's id; by default one is created.")
    var id = ""
    @Option(help: "An idempotency key: the same key within a day is the same send.")
    var key = ""
    @Option(
        help: ArgumentHelp(
            "The start: a time such as 2026-11-21T09:30:00Z, or a duration from now such as 2h.",
            valueName: "time"
        )
    )
    var notBefore: String?
    @Option(help: "The maximum number of recipients per second. Default: as many as the routes allow.")
    var rate: UInt32?
    @Option(
        help: ArgumentHelp(
            "When the outcome of a notification is unknown: at-least-once sends it again, at-most-once does not.",
            valueName: "at-least-once|at-most-once"
        ),
        completion: .list(Self.names(of: SendCommand.Delivery.self)),
        transform: { try Self.word($0, of: SendCommand.Delivery.self, "--delivery") }
    )
    var delivery: SendCommand.Delivery = .atLeastOnce
    @Option(
        help: ArgumentHelp(
            "The receipts that are written: none (refusals only), summary, or recipients with one outcome for each.",
            valueName: "none|summary|recipients"
        ),
        completion: .list(Self.names(of: SendCommand.ReceiptLevel.self)),
        transform: { try Self.word($0, of: SendCommand.ReceiptLevel.self, "--receipts") }
    )
    var receipts: SendCommand.ReceiptLevel = .summary
    @Option(
        help: ArgumentHelp("A stream for its receipts; its name begins with apus:receipts:.", valueName: "stream")
    )
    var replyTo: String?
    @Flag(help: "Use the express lane, for sends that a person waits for.")
    var express = false
    @Option(
        help: "What to wait for: memory, replica or fsync. Default: a replica if Redis has one, else memory.",
        completion: CommandWords.completion(Acknowledgement.self),
        transform: { try CommandWords.value($0, of: Acknowledgement.self, "--acknowledge") }
    )
    var acknowledge: Acknowledgement?
    @Flag(help: "Wait until every recipient has its outcome.")
    var wait = false
    @OptionGroup var patience: WatchTimeout
    @Flag(
        help:
            "Send nothing: show the recipients and the rendered messages, and let the providers validate them. Needs the dispatchers' configuration."
    )
    var dryRun = false

    /// Returns the case of a name, which may have hyphens or, as in the HTTP API, underscores.
    private static func word<Word: CaseIterable>(_ text: String, of type: Word.Type, _ option: String) throws -> Word {
        let words = zip(Self.names(of: type), type.allCases).map { (name: $0, value: $1) }
        return try CommandWords.value(text.replacing("_", with: "-"), of: words, option)
    }

    private static func names<Word: CaseIterable>(of type: Word.Type) -> [String] {
        type.allCases.map { SnakeCase.name(of: $0).replacing("_", with: "-") }
    }

    private var order: SendArguments {
        var order = SendArguments()
        if let notification { order.notification = notification }
        order.app = self.app
        order.topic = self.topic
        order.devices = self.devices
        order.users = self.users
        order.addresses = self.addresses
        order.condition = self.condition
        order.audience = self.audience
        order.fcmTopic = self.fcmTopic
        order.fcmCondition = self.fcmCondition
        order.fcmGroup = self.fcmGroup
        order.everyone = self.everyone
        order.title = self.title
        order.body = self.body
        order.data = self.data
        order.ttl = self.ttl
        order.id = self.id
        order.key = self.key
        order.notBefore = self.notBefore
        order.ratePerSecond = self.rate ?? 0
        order.delivery = self.delivery
        order.receipts = self.receipts
        order.replyTo = self.replyTo ?? ""
        return order
    }

    private func command() throws(SendArguments.UsageError) -> SendCommand {
        try self.order.command(now: SystemClock().now())
    }

    func validate() throws {
        do {
            _ = try self.command()
        } catch {
            throw ValidationError(error.description)
        }
        if self.wait, self.receipts == .none {
            throw ValidationError("--wait shows what receipts tell: choose --receipts summary or recipients")
        }
    }

    func run() async throws {
        guard !self.dryRun else { return try await self.tryOut() }
        try await RedisAccess.withPublisher(self.redis) { try await self.publish(with: $0) }
    }

    private func tryOut() async throws {
        let report = try await DryRunDisplay.run(
            self.command(),
            redis: self.redis
        )
        self.output.write(report.json, else: report.lines)
        guard report.isTaken else { throw ExitCode(CommandExit.failed) }
    }

    private func publish(with publisher: Publisher) async throws {
        let order = self.order
        var command = try await publisher.recorded(order.command(now: SystemClock().now()))
        let publication: Publication
        do throws(PublisherError) {
            publication = try await publisher.publish(
                command,
                lane: self.express ? .express : .bulk,
                acknowledgement: self.acknowledge,
            )
        } catch {
            // It may stand in its mailbox.
            guard error.code == .unavailable || error.code == .refused, let unsure = error.command else { throw error }
            throw CommandFailure("\(error). \(order.adviceOnRepeating(unsure))")
        }
        command.id = publication.send
        if !publication.isAcknowledged {
            Console.message(
                publication.hasReplica
                    ? "published, but not acknowledged in time as requested. \(order.adviceOnRepeating(command))"
                    : "published, but this Redis has no replica that could acknowledge it: it is in memory"
            )
        }
        if publication.isDuplicate {
            let name = self.key.isEmpty ? "id" : "key"
            Console.message("this \(name) names that send already; nothing was sent again")
        }
        guard self.wait else {
            self.output.write(
                [
                    "send": .string(publication.send), "duplicate": .bool(publication.isDuplicate),
                    "acknowledgement": .string(publication.acknowledgement.rawValue),
                    "acknowledged": .bool(publication.isAcknowledged),
                ],
                else: [publication.send],
            )
            return
        }
        let advice = order.adviceOnRepeating(command)
        try await Watching.run(publication, of: publisher, advice: advice, within: self.patience, self.output)
    }
}

extension Publisher {
    /// Enters in the audit trail that a command is published, if it can be entered; returns it with an id.
    func recorded(_ command: SendCommand) async throws -> SendCommand {
        var command = command
        if command.id.isEmpty { command.id = Self.newID() }
        do {
            try await self.installation.streams.audit.record(
                publicationOf: command,
                by: .shell,
                patience: Installation.originalPatience,
            )
        } catch let error as RedisError where error.code == .noPermission {
            // A publisher's user of Redis may publish, and has no right to the trail.
        } catch let error as RedisError where error.saysServerIsAway {
            // The mailbox may be on another server.
            Console.message("the audit trail does not answer (\(error.message)): the send has no entry there")
        }
        return command
    }
}
