import ApusCommand
import ApusCore
import ApusInstallation
import ArgumentParser

/// `apus dead`: what could not be handled.
struct Dead: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Look at dead letters.",
        subcommands: [List.self],
        defaultSubcommand: List.self,
    )

    /// `apus dead list`.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List dead letters, newest first.")

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @Option(help: "How many at most.")
        var limit = 20

        func validate() throws {
            guard (1...10_000).contains(self.limit) else { throw ValidationError("--limit is 1 to 10,000") }
        }

        func run() async throws {
            try await RedisAccess.withInstallation(self.redis.url) { installation in
                let letters = try await DeadLetters(installation.streams).newest(self.limit)
                if letters.isEmpty { Console.talk("there are no dead letters") }
                self.output.write(
                    ["dead_letters": .array(letters.map { .object(DeadLetters.json($0)) })],
                    else: letters.isEmpty ? [] : DeadLetters.table(letters, now: CommandClock().now()).lines,
                )
            }
        }
    }
}
