import ApusCommand
import ApusCore
import ApusInstallation
import ApusTerminal
import ArgumentParser

/// Manages quarantined tokens (`apus quarantine`).
struct Quarantine: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List tokens that a provider called bad; restore or delete them.",
        discussion: """
            A token that is called bad gets no messages, and is deleted ten minutes later; one that the provider \
            accepts in its other environment is moved there. When too many of a route's tokens are called bad, the \
            mistake is more likely in a key, a topic or an environment: the route is paused and nothing is deleted \
            until an operator decides by one of these commands.
            """,
        subcommands: [List.self, Restore.self, Confirm.self],
        defaultSubcommand: List.self,
    )

    /// Lists routes with quarantined tokens (`apus quarantine list`).
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List routes with such tokens.")

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            try await RedisAccess.withInstallation(self.redis) { installation in
                let rows = try await Quarantines(installation).rows()
                if rows.isEmpty { Console.message("there are no such tokens") }
                self.output.write(
                    ["routes": .array(rows.map { .object($0.json) })],
                    else: rows.isEmpty ? [] : Quarantines.table(rows, now: SystemClock().now()).lines,
                )
            }
        }
    }

    /// The route, and its state afterwards.
    struct Choice: ParsableArguments {
        @Option(help: "The route: app/provider, or app/provider/environment.")
        var route: String
        @Flag(help: "Keep the route paused; by default it resumes if it was paused because of its tokens.")
        var keepPaused = false

        func settle(_ decision: Quarantines.Decision, _ redis: RedisOptions, _ output: OutputOptions) async throws {
            try await RedisAccess.withInstallation(redis) { installation in
                let settlements = try await Quarantines(installation)
                    .settle(self.route, decision, resuming: !self.keepPaused, by: .shell)
                output.write(
                    ["routes": .array(settlements.map { .object($0.json) })],
                    else: settlements.map { $0.line(decision) },
                )
                try CommandExit.check(
                    failed: settlements.reduce(0) { $0 + $1.failed },
                    of: settlements.reduce(0) { $0 + $1.tokens },
                )
            }
        }
    }

    /// Restores tokens (`apus quarantine restore`).
    struct Restore: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send to these tokens again: the mistake was ours, and is corrected."
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var choice: Choice

        func run() async throws { try await self.choice.settle(.restore, self.redis, self.output) }
    }

    /// Confirms the deletion of tokens (`apus quarantine confirm`).
    struct Confirm: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete the devices of these tokens: they are bad.",
            discussion: """
                A device that has registered again is kept, and one whose token the provider accepts in its other \
                environment is moved there. One that subscribed with another key than ours is never deleted for that: \
                it is sent to again. apus quarantine list says how many of each there are. Those that are deleted can \
                be brought back for as long as feedback.undo_window of the services' configuration says: apus device \
                restore.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var choice: Choice
        @Flag(help: "Confirm the deletion.")
        var yes = false

        func validate() throws {
            guard self.yes else {
                throw ValidationError("this deletes the devices of quarantined tokens: confirm with --yes")
            }
        }

        func run() async throws {
            let settings = try self.redis.settings()
            let decision = Quarantines.Decision.confirm(
                undo: try ConfigurationAccess.undo(in: settings),
                history: try ConfigurationAccess.history(in: settings),
            )
            try await self.choice.settle(decision, self.redis, self.output)
        }
    }
}
