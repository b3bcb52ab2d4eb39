import ApusCommand
import ApusConsole
import ApusCore
import ApusInstallation
import ArgumentParser

/// `apus lag`: how much waits where.
struct Lag: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show how much waits in each stream, and how each route stands.",
        discussion: """
            BACKLOG is what nobody has read, PENDING what somebody has read and not finished, OLDEST the age of the \
            oldest of both since it was published. "due" holds retries and scheduled sends; its age is how late the first \
            is. "held" is what paused sends have put aside, "sends" counts those that have not ended.

            RATE/S is what all dispatchers together may send on a route, LEVEL what refusals have left of it.
            """,
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Flag(help: "Show each shard, not only their sum.")
    var shards = false

    func run() async throws {
        try await RedisAccess.withInstallation(self.redis.url) { installation in
            let all = try await StreamBacklog(installation.streams).rows()
            let rows = self.shards ? all : StreamBacklog.totals(all)
            let routes = try await RouteControlReport(installation.streams).rows()
            self.output.write(
                [
                    "streams": .array(rows.map { .object($0.json) }), "routes": .array(routes.map { .object($0.json) }),
                ],
                else: StreamBacklog.table(rows).lines + [""] + RouteControlReport.table(routes).lines,
            )
        }
    }
}
