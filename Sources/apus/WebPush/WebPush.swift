import ApusCommand
import ApusCore
import ApusInstallation
import ApusProviderCommands
import ApusTerminal
import ArgumentParser

/// Manages what Web Push needs (`apus webpush`).
struct WebPush: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "webpush",
        abstract: "Manage the keys that browsers subscribe with.",
        subcommands: [Key.self],
    )

    /// Manages VAPID keys (`apus webpush key`).
    struct Key: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create, list and retire VAPID keys.",
            discussion: """
                A subscription is bound to the key that it was made with, so a new key does not replace the one before: \
                put the new file in key_file and the old one in older_key_files. Browsers that subscribe from then on \
                use the new one, all others are sent to with theirs. When no browser has the old one any more, it can \
                be retired.
                """,
            subcommands: [Create.self, List.self, Retire.self],
        )
    }

    /// The app.
    struct Place: ParsableArguments {
        @Option(help: "The app.", transform: { try AppID($0) })
        var app: AppID
    }
}

extension WebPush.Key {
    /// Creates a key (`apus webpush key create`).
    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a key, write it to a new file, and print the lines of the configuration.",
        )

        @OptionGroup var output: OutputOptions
        @Argument(help: "The file to write, PEM. Only its owner may read it: give it to the user of the dispatchers.")
        var file: String

        func run() async throws {
            let publicKey = try VAPIDKeyFile.create(self.file)
            self.output.write(
                ["key_file": .string(self.file), "public_key": .string(publicKey)],
                else: ["key_file: \(self.file)", "public_key: \(publicKey)"],
            )
        }
    }

    /// Lists keys (`apus webpush key list`).
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List an app's keys, and count the browsers that subscribed with each.",
            discussion: "It reads all browsers of the app.",
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: WebPush.Place

        func run() async throws {
            let access = try ProviderAccess(app: self.place.app, configuration: self.redis.settings())
            let report = try await RedisAccess.withInstallation(self.redis) { installation in
                try await access.vapidKeys(in: installation.store)
            }
            self.output.write(report.json, else: report.table.lines)
        }
    }

    /// Checks that a key may go (`apus webpush key retire`).
    struct Retire: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Check that no browser needs a key any more, and say how to remove it.",
            discussion: "It changes nothing itself: the configuration is yours.",
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: WebPush.Place
        @Argument(help: "The key: its file as the configuration names it, or its public key.")
        var key: String

        func run() async throws {
            let access = try ProviderAccess(app: self.place.app, configuration: self.redis.settings())
            let report = try await RedisAccess.withInstallation(self.redis) { installation in
                try await access.vapidKeys(in: installation.store)
            }
            if let obstacle = report.obstacle(toRetiring: self.key) { throw CommandFailure(obstacle) }
            var json: JSONObject = ["key": .string(self.key), "retired": .bool(true)]
            json["unnamed"] = .integer(report.unnamed)
            self.output.write(
                json,
                else: [
                    "no browser is known to need it: remove it from apps.\(self.place.app).webpush.older_key_files"
                ] + [report.warning].compactMap(\.self),
            )
        }
    }
}
