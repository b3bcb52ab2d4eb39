import ApusAPNs
import ApusCommand
import ApusCore
import ApusInstallation
import ApusMessages
import ApusProviderCommands
import ApusPublisher
import ApusStreams
import ApusTerminal
import ArgumentParser

/// Manages Apple's broadcast channels for Live Activities (`apus channel`).
struct Channel: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Create, show, list and delete broadcast channels, and send to them.",
        discussion: """
            Apple holds the channels and their listeners: Live Activities that were started with input-push-channel. \
            One message to a channel updates or ends the activity everywhere (iOS 18).
            """,
        subcommands: [Create.self, Show.self, List.self, Delete.self, Send.self],
    )

    /// The app of the channels, and the access to Apple.
    struct Place: ParsableArguments {
        @Option(help: "The app.", transform: { try AppID($0) })
        var app: AppID
        @Flag(help: "Use Apple's sandbox.")
        var sandbox = false

        var environment: ProviderEnvironment { self.sandbox ? .sandbox : .production }

        /// Runs `body`, after an entry in the audit trail if there is something to enter.
        func withAdministration<Result>(
            _ redis: RedisOptions,
            recording entry: AuditEntry? = nil,
            _ body: (ChannelAdministration) async throws -> Result,
        ) async throws -> Result {
            let access = try ProviderAccess(app: self.app, configuration: redis.settings())
            return try await RedisAccess.withInstallation(redis) { installation in
                if let entry { try await installation.streams.audit.record(entry) }
                return try await body(ChannelAdministration(access, installation, environment: self.environment))
            }
        }
    }

    private static func id(_ text: String) throws -> APNsChannelID {
        do throws(Problem) {
            return try APNsChannelID(text, field: "the channel")
        } catch {
            throw ValidationError("\(error.field) \(error.detail)")
        }
    }

    private static func sentence(_ storage: APNsChannelStorage) -> String {
        storage == .latest ? "stores its latest message" : "stores no message"
    }

    /// Creates a channel (`apus channel create`).
    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a channel, and print its id.",
            discussion: """
                Apple allows 10,000 channels for each app and environment. The storage policy cannot be changed \
                later; dispatchers know it, and refuse messages that Apple would refuse.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @Flag(help: "Store the latest message for devices that are offline, for eight hours at most.")
        var storesLatest = false

        func run() async throws {
            let storage: APNsChannelStorage = self.storesLatest ? .latest : .none
            let entry = AuditEntry(
                "channel.create",
                of: "",
                app: self.place.app.text,
                detail: Channel.sentence(storage),
                by: .shell
            )
            _ = try await self.place.withAdministration(self.redis, recording: entry) { administration in
                try await administration.create(storage) { id in
                    self.output.write(
                        ["channel": .string(id.text), "stores_latest": .bool(self.storesLatest)],
                        else: [id.text]
                    )
                }
            }
        }
    }

    /// Shows a channel (`apus channel show`).
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the storage policy of a channel.",
            discussion:
                "Dispatchers know the channel afterwards, too, even if it was created elsewhere or was believed to be gone.",
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @Argument(help: "The channel's id.", transform: Channel.id)
        var channel: APNsChannelID

        func run() async throws {
            let storage = try await self.place.withAdministration(self.redis) { try await $0.show(self.channel) }
            let stores = storage == .latest
            self.output.write(
                ["channel": .string(self.channel.text), "stores_latest": .bool(stores)],
                else: [Channel.sentence(storage)],
            )
        }
    }

    /// Lists channels (`apus channel list`).
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the app's channels, with their storage policy if it is known here.",
            discussion: "Channels that Apple no longer lists are forgotten.",
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place

        func run() async throws {
            let rows = try await self.place.withAdministration(self.redis) { try await $0.list() }
            var storing: JSONObject = [:]
            for row in rows { storing[row.id.text] = row.storage.map { .bool($0 == .latest) } }
            self.output.write(
                ["channels": .array(rows.map { .string($0.id.text) }), "stores_latest": .object(storing)],
                else: rows.map { row in
                    "\(row.id.text)  \(row.storage.map(Channel.sentence) ?? "unknown here: see apus channel show")"
                },
            )
        }
    }

    /// Deletes a channel (`apus channel delete`).
    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Delete a channel, for good.")

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @Argument(help: "The channel's id.", transform: Channel.id)
        var channel: APNsChannelID

        func run() async throws {
            let entry = AuditEntry("channel.delete", of: self.channel.text, app: self.place.app.text, by: .shell)
            try await self.place.withAdministration(self.redis, recording: entry) { try await $0.delete(self.channel) }
            self.output.write(["deleted": .string(self.channel.text)], else: ["deleted \(self.channel.text)"])
        }
    }

    /// Sends to a channel (`apus channel send`).
    struct Send: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Update or end a Live Activity for all listeners of a channel.",
            discussion: """
                Prints the send's id. Apple's pages name two hosts for broadcasts; Apus uses the one of the app's \
                other notifications, unless the configuration names another as apns.broadcast_host.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @Argument(help: "The channel's id.", transform: Channel.id)
        var channel: APNsChannelID
        @Flag(help: "The channel stores its latest message: give the same flag as at its creation.")
        var storesLatest = false
        @Option(help: "The activity's content-state, a JSON object.")
        var state: String
        @Flag(help: "End the activity instead of updating it.")
        var end = false
        @Option(
            help: "The time to live, 30s, 5m, 2h or 1d; only for a channel that stores the message.",
            transform: { try DurationText.milliseconds($0, of: "--ttl") }
        )
        var ttl: Int64?
        @Option(help: "The send's id; by default one is created.")
        var id = ""
        @Flag(help: "Wait until Apple has accepted the message.")
        var wait = false
        @OptionGroup var patience: WatchTimeout

        private var command: SendCommand {
            var activity = Notification.LiveActivity(event: self.end ? .end : .update)
            activity.contentStateJSON = self.state
            var notification = Notification()
            notification.kind = .liveActivity
            notification.liveActivity = activity
            notification.expiry = self.ttl.map { .ttl(milliseconds: $0) }
            var command = SendCommand(
                app: self.place.app.text,
                target: .apnsChannel(
                    id: self.channel.text,
                    environment: self.place.environment,
                    storesLatest: self.storesLatest,
                ),
                notification: notification,
            )
            command.id = self.id
            return command
        }

        func run() async throws {
            try await RedisAccess.withPublisher(self.redis) { publisher in
                let command = try await publisher.recorded(self.command)
                let publication = try await publisher.publish(command, lane: .express)
                guard self.wait else {
                    self.output.write(["send": .string(publication.send)], else: [publication.send])
                    return
                }
                var order = SendArguments()
                order.id = self.id
                let advice = order.adviceOnRepeating(command)
                try await Watching.run(publication, of: publisher, advice: advice, within: self.patience, self.output)
            }
        }
    }
}
