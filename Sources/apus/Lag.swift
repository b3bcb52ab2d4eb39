import ApusCommand
import ApusConsole
import ApusCore
import ApusInstallation
import ArgumentParser

/// Shows the backlog of all streams (`apus lag`).
struct Lag: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show the backlog of each stream, the state of each route, and the services that are missing.",
        discussion: """
            BACKLOG counts entries that nobody has read, PENDING those that were read and not finished, OLDEST is \
            the age of the oldest of both since its publication. "due" holds retries and scheduled sends; its age is \
            the delay of the first. "held" holds entries of paused sends, "sends" counts sends that are not \
            complete.

            RATE/S is the maximum rate of all dispatchers together on a route, LEVEL the share of it that refusals have left.
            """,
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Flag(help: "Show each shard instead of the sum.")
    var shards = false
    @Flag(help: "Show streams that hold nothing, too.")
    var all = false

    func run() async throws {
        try await RedisAccess.withInstallation(self.redis) { installation in
            let all = try await StreamBacklog(installation.streams).rows()
            let rows = self.shards ? all : StreamBacklog.totals(all)
            let routes = try await RouteControlReport(installation.streams).rows()
            let services = try await ServiceReport(installation.streams)
            self.output.write(
                [
                    "streams": .array(rows.map { .object($0.json) }), "routes": .array(routes.map { .object($0.json) }),
                    "services": .array(services.summaries.map { .object($0) }),
                ],
                else: StreamBacklog.lines(rows, withEmpty: self.all) + [""] + RouteControlReport.table(routes).lines
                    + (services.concerns.isEmpty ? [] : [""] + services.concerns),
            )
        }
    }
}
