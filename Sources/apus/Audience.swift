import ApusCommand
import ApusConsole
import ApusCore
import ApusInstallation
import ApusStore
import ArgumentParser

/// `apus audience`: whom an expression means.
struct Audience: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Tell whom an audience expression means.",
        discussion: """
            'news' in topics && (platform == 'ios' || app_version >= '3.2') && locale in ['en', 'fr'] && seen_at > now-30d

            Topics and tags: 'NAME' in topics, 'WORD' in tags. Texts, with ==, != and in ['a', 'b']: platform (ios, android, \
            web), provider (apns, fcm, webpush), environment (production, sandbox), locale ('en' stands for 'en-GB' too), \
            country, time_zone, user; '' is unknown. app_version, with <, <=, >, >= too, in the order of versions: 3.10 comes \
            after 3.9. Times: seen_at (moves at most daily) and registered_at, compared with now, now-30d (s, m, h, d, w) or \
            '2026-03-01T12:00:00Z'. All is joined by && and ||, negated by !, and read from left to right, as \
            conditions are: parentheses say otherwise. What is unknown is equal to nothing and stands in no order.
            """,
        subcommands: [Count.self, Explain.self],
    )

    /// Which audience.
    struct Question: ParsableArguments {
        @Option(help: "The app.", transform: { try AppID($0) })
        var app: AppID
        @Argument(help: "The expression.")
        var expression: String
    }

    /// `apus audience count`.
    struct Count: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Count the devices that it means, per provider.",
            discussion: "Topics are counted at once; where attributes decide, the records are read.",
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var question: Question

        func run() async throws {
            try await Audience.tell(self.question, self.redis, self.output, readsRecords: true)
        }
    }

    /// `apus audience explain`.
    struct Explain: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Tell how it is read, and how much must be read to know.",
            discussion: "Reads postings only.",
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var question: Question

        func run() async throws {
            try await Audience.tell(self.question, self.redis, self.output, readsRecords: false)
        }
    }

    private static func tell(
        _ question: Question,
        _ redis: RedisOptions,
        _ output: OutputOptions,
        readsRecords: Bool,
    ) async throws {
        let report = try await RedisAccess.withInstallation(redis.url) { installation in
            try await AudienceReport.run(
                question.expression,
                app: question.app,
                of: installation,
                now: installation.store.now,
                readsRecords: readsRecords,
            )
        }
        output.write(report.json, else: report.lines)
    }
}
