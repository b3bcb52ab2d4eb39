import ApusCommand
import ApusCore
import ApusFCM
import ApusInstallation
import ApusProviderCommands
import ApusStreams
import ApusTerminal
import ArgumentParser

/// Manages FCM's own topics, whose audience FCM holds (`apus topics`).
struct Topics: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Change the subscribers of FCM's own topics.",
        discussion: "A send to one of them (apus send --fcm-topic) is one message, whatever the number of subscribers.",
        subcommands: [Sync.self, Subscribe.self, Unsubscribe.self],
    )

    /// The topic, and the access to FCM.
    struct Place: ParsableArguments {
        @Option(help: "The app.", transform: { try AppID($0) })
        var app: AppID
        @Option(help: "The topic.", transform: { try TopicName($0) })
        var topic: TopicName
        @Option(
            help:
                "Google's interface: subscriptions, or instance-id (1,000 tokens at a time, until 2027-09-29, no new projects).",
            transform: { text in
                guard let interface = ProviderAccess.TopicInterface(rawValue: text) else {
                    throw ValidationError("--interface is instance-id or subscriptions")
                }
                return interface
            }
        )
        var interface = ProviderAccess.TopicInterface.subscriptions
    }

    /// Synchronises a topic (`apus topics sync`).
    struct Sync: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make FCM's topic what our topic of that name is.",
            discussion: """
                It subscribes the FCM devices that have the topic, and unsubscribes the app's other FCM devices, which is one request for \
                each of them with --interface subscriptions. It may be repeated. Devices that FCM calls gone are deleted, and can be \
                brought back; once they are too many of the answers (feedback.unregistered_percent), they are kept.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @Flag(help: "Unsubscribe nobody.")
        var onlySubscribe = false

        func run() async throws {
            let access = try ProviderAccess(app: self.place.app, configuration: self.redis.settings())
            let report = try await RedisAccess.withInstallation(self.redis) { installation in
                try await installation.streams.audit.record(
                    AuditEntry("topic.sync", of: self.place.topic.text, app: self.place.app.text, by: .shell)
                )
                return try await TopicSync(
                    access,
                    installation,
                    app: self.place.app,
                    topic: self.place.topic,
                    by: self.place.interface,
                    onlySubscribes: self.onlySubscribe,
                ).run()
            }
            try Topics.printReport(report, self.output)
        }
    }

    /// Subscribes tokens (`apus topics subscribe`).
    struct Subscribe: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Subscribe tokens that are stored elsewhere.")

        @OptionGroup var services: ConfigurationOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @Argument(help: "Registration tokens; or installation ids, except with --interface instance-id.")
        var tokens: [String]

        func run() async throws {
            try await Topics.change(.subscribe, self.tokens, self.place, self.services, self.output)
        }
    }

    /// Unsubscribes tokens (`apus topics unsubscribe`).
    struct Unsubscribe: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Unsubscribe tokens.")

        @OptionGroup var services: ConfigurationOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @Argument(help: "Registration tokens; or installation ids, except with --interface instance-id.")
        var tokens: [String]

        func run() async throws {
            try await Topics.change(.unsubscribe, self.tokens, self.place, self.services, self.output)
        }
    }

    private static func change(
        _ verb: FCMTopicChange.Verb,
        _ tokens: [String],
        _ place: Place,
        _ services: ConfigurationOptions,
        _ output: OutputOptions,
    ) async throws {
        guard !tokens.contains("") else { throw CommandFailure("a token is empty") }
        let access = try ProviderAccess(app: place.app, configuration: services.settings())
        let outcomes = try await access.withTopics(by: place.interface) { client in
            try await client(FCMTopicChange(verb, place.topic), tokens)
        }
        var report = TopicSync.Report()
        for outcome in outcomes { report.add(outcome, of: verb) }
        try Self.printReport(report, output)
    }

    private static func printReport(_ report: TopicSync.Report, _ output: OutputOptions) throws {
        var lines = [
            "\(report.subscribed) of \(report.members) subscribed, \(report.unsubscribed) of \(report.others) unsubscribed, "
                + "\(report.gone) gone, \(report.later) to be tried again, "
                + "\(report.refused) refused\(report.word.isEmpty ? "" : " (\(report.word))")"
        ]
        if report.kept > 0 {
            lines.append(
                "\(report.kept) of the devices that are gone are kept, because FCM calls too many gone: is the account of the app's project?"
            )
        }
        output.write(
            [
                "members": .integer(report.members), "subscribed": .integer(report.subscribed),
                "others": .integer(report.others), "unsubscribed": .integer(report.unsubscribed),
                "gone": .integer(report.gone), "kept": .integer(report.kept), "later": .integer(report.later),
                "refused": .integer(report.refused), "word": .string(report.word),
            ],
            else: lines,
        )
        if report.later + report.refused + report.kept > 0 { throw ExitCode(CommandExit.partlyFailed) }
    }
}
