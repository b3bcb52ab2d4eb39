import ApusCommand
import ApusCore
import ApusInstallation
import ApusStreams
import ApusTerminal
import ArgumentParser

/// Shows what operators did (`apus audit`).
struct Audit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show who did what: keys, routes, quarantines, sends, devices.",
        discussion: """
            Commands of apus, requests to the HTTP API and the web console leave an entry before they act: who, by which way, \
            what, and to what. No entry is left by a send while the trail is away, nor by who logs in to Redis as a publisher, \
            nor by commands that set up Redis (init, acl, cluster) or only ask a provider (groups, topics subscribe, \
            topics unsubscribe, channel show, channel list, credentials check). Entries are kept for a year, the last 50,000 \
            of them, and the last 10,000 for each app of its API keys' requests and its sends by commands.
            """,
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Option(help: "Only what concerns this app.", transform: Key.app)
    var app: AppID?
    @Option(help: "The maximum number of entries.")
    var limit = 50

    func validate() throws {
        guard (1...10_000).contains(self.limit) else { throw ValidationError("--limit is 1 to 10,000") }
    }

    func run() async throws {
        try await RedisAccess.withInstallation(self.redis) { installation in
            let entries = try await installation.streams.audit.newest(self.limit, app: self.app?.text)
            if entries.isEmpty, let app {
                try await KnownApps(installation.streams, configuration: self.redis.settings()).check(app)
            }
            var table = TextTable(["TIME", "WHO", "BY", "ACTION", "APP", "OBJECT", "DETAIL"])
            for entry in entries {
                table.add([
                    entry.at?.timestamp ?? "", entry.actor, entry.source.rawValue, entry.action, entry.app,
                    entry.object,
                    entry.detail,
                ])
            }
            if entries.isEmpty { Console.message("nothing was recorded yet") }
            self.output.write(
                ["entries": .array(entries.map { .object($0.json) })],
                else: entries.isEmpty ? [] : table.lines
            )
        }
    }
}
