import ApusAPNs
import ApusCommand
import ApusConsole
import ApusCore
import ApusMessages
import ApusProviderCommands
import ApusPublisher
import ArgumentParser

/// `apus channel`: Apple's broadcast channels for Live Activities.
struct Channel: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Make, show, list and delete broadcast channels, and send to them.",
        discussion: """
            Apple keeps the channels, and who listens to them: a Live Activity that starts with input-push-channel does. \
            One message to a channel updates or ends the activity everywhere (iOS 18).
            """,
        subcommands: [Create.self, Show.self, List.self, Delete.self, Send.self],
    )

    /// Which app's channels, and how to reach Apple.
    struct Place: ParsableArguments {
        @Option(help: "The app.", transform: { try AppID($0) })
        var app: AppID
        @Flag(help: "In Apple's sandbox.")
        var sandbox = false
        @Option(help: "The services' configuration. Default: $APUS_CONFIG, else /etc/apus/apus.yaml.")
        var config: String?

        var environment: ProviderEnvironment { self.sandbox ? .sandbox : .production }

        func withDesk<Result>(
            _ redis: RedisOptions,
            _ body: (ChannelAdministration) async throws -> Result,
        ) async throws -> Result {
            let access = try ProviderAccess(app: self.app, configuration: self.config)
            return try await RedisAccess.withInstallation(redis.url) { installation in
                try await body(ChannelAdministration(access, installation, environment: self.environment))
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
        storage == .latest ? "keeps its latest message" : "keeps no message"
    }

    /// `apus channel create`.
    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a channel; prints its id.",
            discussion: """
                Apple allows 10,000 for each app and environment. How one stores cannot be changed later; the dispatchers know it, and \
                refuse what Apple would.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @Flag(help: "Keep the latest message for devices that are away, for eight hours at most.")
        var storesLatest = false

        func run() async throws {
            _ = try await self.place.withDesk(self.redis) { desk in
                try await desk.create(self.storesLatest ? .latest : .none) { id in
                    self.output.write(
                        ["channel": .string(id.text), "stores_latest": .bool(self.storesLatest)],
                        else: [id.text]
                    )
                }
            }
        }
    }

    /// `apus channel show`.
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show how a channel stores.",
            discussion:
                "From then on the dispatchers know it, too: also of one that was made elsewhere, or was taken to be gone.",
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @Argument(help: "The channel's id.", transform: Channel.id)
        var channel: APNsChannelID

        func run() async throws {
            let storage = try await self.place.withDesk(self.redis) { try await $0.show(self.channel) }
            let stores = storage == .latest
            self.output.write(
                ["channel": .string(self.channel.text), "stores_latest": .bool(stores)],
                else: [Channel.sentence(storage)],
            )
        }
    }

    /// `apus channel list`.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the app's channels, and how they store as far as that is known here.",
            discussion: "What dispatchers knew of channels that Apple no longer lists is forgotten.",
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place

        func run() async throws {
            let rows = try await self.place.withDesk(self.redis) { try await $0.list() }
            var storing: JSONObject = [:]
            for row in rows { storing[row.id.text] = row.storage.map { .bool($0 == .latest) } }
            self.output.write(
                ["channels": .array(rows.map { .string($0.id.text) }), "stores_latest": .object(storing)],
                else: rows.map { row in
                    "\(row.id.text)  \(row.storage.map(Channel.sentence) ?? "not known here: see apus channel show")"
                },
            )
        }
    }

    /// `apus channel delete`.
    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Delete a channel, for good.")

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @Argument(help: "The channel's id.", transform: Channel.id)
        var channel: APNsChannelID

        func run() async throws {
            try await self.place.withDesk(self.redis) { try await $0.delete(self.channel) }
            self.output.write(["deleted": .string(self.channel.text)], else: ["deleted \(self.channel.text)"])
        }
    }

    /// `apus channel send`.
    struct Send: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Update or end a Live Activity for everybody who listens to a channel.",
            discussion: """
                Prints the send's id. Apple's pages name two hosts for broadcasts; they go to that of the app's other notifications, \
                unless the configuration names another as apns.broadcast_host.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @Argument(help: "The channel's id.", transform: Channel.id)
        var channel: APNsChannelID
        @Flag(help: "The channel keeps its latest message: say so, as when it was made.")
        var storesLatest = false
        @Option(help: "The activity's content-state, a JSON object.")
        var state: String
        @Flag(help: "End the activity instead of updating it.")
        var end = false
        @Option(help: "Seconds until the message has lost its worth; only where the channel keeps it.")
        var ttl: Int64?
        @Option(help: "The send's id; else one is made.")
        var id = ""
        @Flag(help: "Wait until Apple has it.")
        var wait = false
        @Option(help: "Seconds to wait at most.")
        var timeout: Double?

        private var command: SendCommand {
            var activity = Notification.LiveActivity(event: self.end ? .end : .update)
            activity.contentStateJSON = self.state
            var notification = Notification()
            notification.kind = .liveActivity
            notification.liveActivity = activity
            notification.expiry = self.ttl.map { .ttl(milliseconds: $0 * 1_000) }
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
            try await RedisAccess.withPublisher(self.redis.url) { publisher in
                let publication = try await publisher.publish(self.command, lane: .express)
                if self.wait {
                    try await Watching(send: publication.send, app: self.place.app.text, timeout: self.timeout)
                        .run(SendObserver(publisher, publication), self.output)
                } else {
                    self.output.write(["send": .string(publication.send)], else: [publication.send])
                }
            }
        }
    }
}
