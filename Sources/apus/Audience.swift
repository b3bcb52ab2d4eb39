import ApusCommand
import ApusCore
import ApusInstallation
import ApusStore
import ApusTerminal
import ArgumentParser

/// Shows the audience of an expression (`apus audience`).
struct Audience: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show which devices an audience expression matches.",
        discussion: """
            'news' in topics && (platform == 'ios' || app_version >= '3.2') && locale in ['en', 'fr'] && seen_at > now-30d

            Topics and tags: 'NAME' in topics, 'WORD' in tags. Texts, with ==, != and in ['a', 'b']: platform \
            (\(ProviderTraits.known.compactMap(\.platform).joined(separator: ", "))), provider \
            (\(Provider.nameList)), environment (production, sandbox), locale ('en' stands for 'en-GB' too), country, time_zone, user; '' is unknown. app_version, with <, <=, >, >= too, in the order \
            of versions: 3.10 comes after 3.9. Times: seen_at (moves at most daily) and registered_at, compared with \
            now, now-30d (s, m, h, d, w) or '2026-03-01T12:00:00Z'. Terms are joined by && and ||, negated by !, and \
            read from left to right, as conditions are; parentheses change the order. An unknown value is equal to \
            nothing and never greater or less.
            """,
        subcommands: [Count.self, Explain.self],
    )

    /// The app and the expression.
    struct Arguments: ParsableArguments {
        @Option(help: "The app.", transform: { try AppID($0) })
        var app: AppID
        @Argument(help: "The expression.")
        var expression: String
    }

    /// Counts an audience (`apus audience count`).
    struct Count: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Count the matching devices by provider.",
            discussion: "Topics are counted from their indexes; where attributes decide, the records are read.",
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var arguments: Arguments

        func run() async throws {
            try await Audience.printReport(self.arguments, self.redis, self.output, readsRecords: true)
        }
    }

    /// Explains an expression (`apus audience explain`).
    struct Explain: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show how the expression is parsed, and how much must be read to evaluate it.",
            discussion: "Reads only the topics' indexes.",
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var arguments: Arguments

        func run() async throws {
            try await Audience.printReport(self.arguments, self.redis, self.output, readsRecords: false)
        }
    }

    private static func printReport(
        _ arguments: Arguments,
        _ redis: RedisOptions,
        _ output: OutputOptions,
        readsRecords: Bool,
    ) async throws {
        let report = try await RedisAccess.withInstallation(redis) { installation in
            let report = try await AudienceReport.run(
                arguments.expression,
                app: arguments.app,
                of: installation,
                now: installation.store.now,
                readsRecords: readsRecords,
            )
            if report.total == 0 {
                try await KnownApps(installation.streams, configuration: redis.settings()).check(arguments.app)
            }
            return report
        }
        output.write(report.json, else: report.lines)
    }
}
