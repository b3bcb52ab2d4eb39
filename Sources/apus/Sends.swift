import ApusCommand
import ApusCore
import ApusInstallation
import ApusStreams
import ApusTerminal
import ArgumentParser

/// Lists sends (`apus sends`).
struct Sends: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List the sends of an app, or of all apps, the last accepted first.",
        discussion: """
            Sends to audiences and to many recipients are listed, and those to a few devices while they are retried: what goes \
            out at once keeps no ledger, and is found by its whole id with --search. An ended send is listed as long as its \
            ledger is kept, by feedback.keep_ledgers.

            OPEN counts the recipients without an outcome; RATE/S is the send's own limit.
            """,
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Option(help: "Only sends of this app.", transform: Key.app)
    var app: AppID?
    @Option(
        help: "Only sends in this state: scheduled, planning, running, paused, cancelled or done.",
        completion: .list(SendLists.State.allCases.map(\.rawValue)),
        transform: { try CommandWords.value($0, of: SendLists.State.allCases.map { ($0.rawValue, $0) }, "--state") }
    )
    var state: SendLists.State?
    @Option(help: "Only sends whose ids have this part.")
    var search = ""
    @Option(help: "The maximum number of sends.")
    var limit = 20

    func validate() throws {
        guard (1...10_000).contains(self.limit) else { throw ValidationError("--limit is 1 to 10,000") }
        guard self.search.isEmpty || (try? SendID(self.search)) != nil else {
            throw ValidationError("--search is a part of a send's id")
        }
    }

    func run() async throws {
        try await RedisAccess.withInstallation(self.redis) { installation in
            let listing = try await SendListing(
                installation.streams,
                of: self.app,
                state: self.state,
                search: self.search,
                limit: self.limit,
            )
            if listing.rows.isEmpty {
                if let app {
                    try await KnownApps(installation.streams, configuration: self.redis.settings()).check(app)
                }
                Console.message("there are no such sends")
            }
            self.output.write(listing.json, else: listing.lines)
            if listing.hasMore { Console.message("there are more: raise --limit") }
        }
    }
}
