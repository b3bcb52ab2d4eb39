import ApusCommand
import ApusConsole
import ApusCore
import ApusInstallation
import ArgumentParser

/// `apus quarantine`: tokens that a provider called bad.
struct Quarantine: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Look at tokens that a provider called bad; restore or delete them.",
        discussion: """
            A token that is called bad is not sent to, and deleted ten minutes later; one that the provider takes in its other \
            environment is sent to there, and moved. When too many of a route's tokens are, the mistake \
            is more likely in a key, a topic or an environment: the route is paused and nothing is deleted until one of these \
            commands says so.
            """,
        subcommands: [List.self, Restore.self, Confirm.self],
        defaultSubcommand: List.self,
    )

    /// `apus quarantine list`.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List routes with such tokens.")

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            try await RedisAccess.withInstallation(self.redis.url) { installation in
                let rows = try await Quarantines(installation).rows()
                if rows.isEmpty { Console.message("there are no such tokens") }
                self.output.write(
                    ["routes": .array(rows.map { .object($0.json) })],
                    else: rows.isEmpty ? [] : Quarantines.table(rows, now: SystemClock().now()).lines,
                )
            }
        }
    }

    /// The route that is meant, and what comes after.
    struct Choice: ParsableArguments {
        @Argument(help: "The route: app/provider, or app/provider/environment.")
        var route: String
        @Flag(help: "Keep the route paused; else it goes on if it was paused because of its tokens.")
        var keepPaused = false

        func settle(_ ruling: Quarantines.Decision, _ redis: RedisOptions, _ output: OutputOptions) async throws {
            try await RedisAccess.withInstallation(redis.url) { installation in
                let settlements = try await Quarantines(installation)
                    .settle(self.route, ruling, resuming: !self.keepPaused)
                output.write(
                    ["routes": .array(settlements.map { .object($0.json) })],
                    else: settlements.map { $0.line(ruling) },
                )
            }
        }
    }

    /// `apus quarantine restore`.
    struct Restore: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send to these tokens again: the mistake was ours, and is mended."
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var choice: Choice

        func run() async throws { try await self.choice.settle(.restore, self.redis, self.output) }
    }

    /// `apus quarantine confirm`.
    struct Confirm: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete the devices of these tokens: they are bad.",
            discussion: """
                A device that registered again since stays, and one whose token the provider takes in its other environment is moved there.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var choice: Choice
        @Flag(help: "Delete them without being asked.")
        var yes = false

        func validate() throws {
            guard self.yes else { throw ValidationError("this deletes the route's suspects for good: say --yes") }
        }

        func run() async throws { try await self.choice.settle(.confirm, self.redis, self.output) }
    }
}
