import ApusCommand
import ApusCore
import ApusInstallation
import ApusMessages
import ApusStreams
import ApusTerminal
import ArgumentParser

/// Manages dead letters (`apus dead`).
struct Dead: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List, show, replay and remove dead letters.",
        subcommands: [List.self, Show.self, Replay.self, Purge.self],
        defaultSubcommand: List.self,
    )

    /// The options that select letters.
    struct Selection: ParsableArguments {
        @Option(help: "Only letters of this app.", transform: Key.app)
        var app: AppID?
        @Option(
            help: "Only letters with this cause: malformed, invalid, poison or conflict.",
            completion: .list(DeadLetter.Cause.allCases.map(\.name)),
            transform: {
                try CommandWords.value($0, of: DeadLetter.Cause.allCases.map { ($0.name, $0) }, "--cause")
            }
        )
        var cause: DeadLetter.Cause?
        @Option(help: "Only letters that are older: 30s, 5m, 2h, 1d.")
        var olderThan: String?

        func validate() throws { _ = try self.filter }

        /// The filter of the options.
        var filter: DeadLetters.Filter {
            get throws {
                var filter = DeadLetters.Filter()
                filter.app = self.app?.text
                filter.cause = self.cause
                if let olderThan {
                    let milliseconds = try DurationText.milliseconds(olderThan, of: "--older-than")
                    filter.before = UnixMilliseconds(SystemClock().now().value - milliseconds)
                }
                return filter
            }
        }
    }

    /// The arguments that select letters by name or by filter.
    struct Choice: ParsableArguments {
        @Argument(help: "The letters' names, as `apus dead list` shows them: <shard>/<entry>.")
        var ids: [String] = []
        @OptionGroup var selection: Selection
        @Flag(help: "Only show the selected letters.")
        var dryRun = false

        var names: [DeadLetterID] {
            get throws {
                try self.ids.map { text in
                    guard let id = DeadLetterID(text) else {
                        throw ValidationError("\(text) is not the name of a dead letter, such as 3/1718000000000-0")
                    }
                    return id
                }
            }
        }

        func validate() throws {
            let filter = try self.selection.filter
            guard try self.names.isEmpty || filter.isEmpty else {
                throw ValidationError("give names or filters, not both")
            }
        }

        /// Passes the selected letters on in parts.
        ///
        /// - Returns: the names that no letter has.
        func forEachPart(
            _ dead: DeadLetters,
            _ body: ([StoredDeadLetter]) async throws -> Void,
        ) async throws -> [DeadLetterID] {
            let names = try self.names
            if names.isEmpty { try await dead.forEachPart(try self.selection.filter, body) }
            var missing: [DeadLetterID] = []
            for name in names {
                if let letter = try await dead.find(name) { try await body([letter]) } else { missing.append(name) }
            }
            return missing
        }

        /// Returns the selected letters, at most the newest thousand.
        func newest(_ dead: DeadLetters) async throws -> [StoredDeadLetter] {
            let names = try self.names
            guard !names.isEmpty else { return try await dead.newest(1_000, try self.selection.filter) }
            var letters: [StoredDeadLetter] = []
            for name in names { letters.append(try await dead.letter(name)) }
            return letters
        }
    }

    /// Lists dead letters (`apus dead list`).
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List dead letters, newest first.")

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var selection: Selection
        @Option(help: "The maximum number of letters.")
        var limit = 20

        func validate() throws {
            guard (1...10_000).contains(self.limit) else { throw ValidationError("--limit is 1 to 10,000") }
        }

        func run() async throws {
            try await RedisAccess.withInstallation(self.redis) { installation in
                let letters = try await DeadLetters(installation.streams).newest(
                    self.limit,
                    try self.selection.filter
                )
                // A letter may be that of an app that nobody has.
                if letters.isEmpty, let app = self.selection.app {
                    try await KnownApps(installation.streams, configuration: self.redis.settings()).check(app)
                }
                Dead.show(letters, self.output)
            }
        }
    }

    /// Shows a dead letter (`apus dead show`).
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show a dead letter with its message, and what a replay would do.",
            discussion: "The message is decoded if possible, otherwise its bytes are shown. Logs never contain it.",
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The letter's name: <shard>/<entry>.")
        var id: String

        func validate() throws {
            guard DeadLetterID(self.id) != nil else {
                throw ValidationError("\(self.id) is not the name of a dead letter, such as 3/1718000000000-0")
            }
        }

        func run() async throws {
            guard let id = DeadLetterID(self.id) else { return }
            try await RedisAccess.withInstallation(self.redis) { installation in
                let dead = DeadLetters(installation.streams)
                let letter = try await dead.letter(id)
                let replay = try await dead.replayPreview(of: letter)
                self.output.write(
                    DeadLetters.fullJSON(letter, replay: replay),
                    else: DeadLetters.lines(letter, now: SystemClock().now(), replay: replay),
                )
            }
        }
    }

    /// Replays dead letters (`apus dead replay`).
    struct Replay: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Write the messages of dead letters to their streams again.",
            discussion: """
                A command is handled as if it were new. A part of a send can be replayed only while the send runs: its \
                recipients, counted as failed until now, are planned again, so planned grows. Exit code 2 when some letters were not \
                replayed or are not there.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var choice: Choice

        func validate() throws {
            let filter = try self.choice.selection.filter
            guard try !self.choice.names.isEmpty || !filter.isEmpty else {
                throw ValidationError("select letters by names, --app, --cause or --older-than")
            }
        }

        func run() async throws {
            try await RedisAccess.withInstallation(self.redis) { installation in
                let dead = DeadLetters(installation.streams)
                guard !self.choice.dryRun else { return Dead.show(try await self.choice.newest(dead), self.output) }
                var results: [DeadLetters.Replayed] = []
                let missing = try await self.choice.forEachPart(dead) {
                    results += try await dead.replay($0, by: .shell)
                }
                results += missing.map { .missing($0) }
                self.output.write(
                    ["dead_letters": .array(results.map { .object($0.json) })],
                    else: results.map { "\($0.id)  \($0.isReplayed ? "replayed" : "not replayed")  \($0.text)" },
                )
                try CommandExit.check(failed: results.count { !$0.isReplayed }, of: results.count)
            }
        }
    }

    /// Removes dead letters (`apus dead purge`).
    struct Purge: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove dead letters for good.",
            discussion: """
                Without names and filters it removes all of them, and requires --yes. Exit code 2 when some of the names are of no letter.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var choice: Choice
        @Flag(help: "Confirm the removal of all letters.")
        var yes = false

        func validate() throws {
            let filter = try self.choice.selection.filter
            guard try !self.choice.names.isEmpty || !filter.isEmpty || self.yes || self.choice.dryRun else {
                throw ValidationError("this removes all dead letters for good: confirm with --yes, or select letters")
            }
        }

        func run() async throws {
            try await RedisAccess.withInstallation(self.redis) { installation in
                let dead = DeadLetters(installation.streams)
                guard !self.choice.dryRun else { return Dead.show(try await self.choice.newest(dead), self.output) }
                var count = 0
                let missing = try await self.choice.forEachPart(dead) {
                    count += try await dead.purge($0, by: .shell)
                }
                let letters = NumberText.counted(count, "dead letter", "dead letters")
                self.output.write(
                    ["purged": .integer(count), "missing": .array(missing.map { .string("\($0)") })],
                    else: missing.map { "\($0)  is not there" } + ["\(letters) removed"],
                )
                try CommandExit.check(failed: missing.count, of: self.choice.ids.count)
            }
        }
    }

    private static func show(_ letters: [StoredDeadLetter], _ output: OutputOptions) {
        if letters.isEmpty { Console.message("there are no such dead letters") }
        output.write(
            ["dead_letters": .array(letters.map { .object(DeadLetters.json($0)) })],
            else: letters.isEmpty ? [] : DeadLetters.table(letters, now: SystemClock().now()).lines,
        )
    }
}
