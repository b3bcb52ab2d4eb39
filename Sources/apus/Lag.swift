import ApusCommand
import ApusCore
import ApusInstallation
import ApusTerminal
import ArgumentParser

/// Shows the backlog of all streams (`apus lag`).
struct Lag: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show the backlog of each stream, the state of each route, and the services that are missing.",
        discussion: """
            BACKLOG counts entries that nobody has read, PENDING those that were read and not finished, OLDEST is \
            the age of the oldest of both since its publication. "due" holds retries and scheduled sends; its age is \
            the delay of the first. "held" holds entries of paused sends, "sends" counts sends that are not \
            complete. "webhook" counts receipts that were not taken yet by feedback.webhook.url.

            RATE/S is the maximum rate of all dispatchers together on a route, LEVEL the share of it that refusals have left.

            --app shows the routes of an app and their streams: mailboxes and the other streams are shared by all apps.
            """,
    )

    /// The time between two looks.
    private static let interval = Duration.seconds(2)

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Option(help: "Show the routes of one app, and what waits for them.", transform: Key.app)
    var app: AppID?
    @Flag(help: "Look again every two seconds, until it is interrupted.")
    var watch = false
    @Flag(help: "Show each shard instead of the sum.")
    var shards = false
    @Flag(help: "Show streams that hold nothing, too.")
    var all = false

    func run() async throws {
        try await RedisAccess.withInstallation(self.redis) { installation in
            repeat {
                try await self.look(installation)
                if self.watch { try await Task.sleep(for: Self.interval) }
            } while self.watch
        }
    }

    private func look(_ installation: Installation) async throws {
        let routes = try await RouteControlReport(installation.streams).rows(of: self.app)
        let all = try await StreamBacklog(installation.streams).rows()
            .filter { self.app == nil || $0.app == self.app?.text }
        let rows = self.shards ? all : StreamBacklog.totals(all)
        let services = try await ServiceReport(installation.streams)
        let webhook = try await WebhookBacklog(installation.streams)
        if self.watch, !self.output.json { Console.clear() }
        let concerns = services.concerns + (self.app == nil ? webhook.concerns : [])
        self.output.write(
            [
                "streams": .array(rows.map { .object($0.json) }), "routes": .array(routes.map { .object($0.json) }),
                "services": .array(services.summaries.map { .object($0) }), "webhook": .object(webhook.json),
            ],
            else: StreamBacklog.lines(rows, withEmpty: self.all, of: self.app) + [""]
                + RouteControlReport.lines(routes, of: self.app)
                + (concerns.isEmpty ? [] : [""] + concerns)
                + (self.watch && !Console.isDataInteractive ? [""] : []),
        )
    }
}
