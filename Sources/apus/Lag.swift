import ApusCommand
import ApusCore
import ApusInstallation
import ApusRedis
import ApusStreams
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

            Shards of a Redis Cluster whose server is away are left out and named, and the exit code is \
            \(CommandExit.partlyFailed).

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
            var isWhole = true
            repeat {
                do {
                    let reach = await Reachability(of: installation.streams)
                    isWhole = reach.isWhole
                    try await self.look(installation.streams, within: reach)
                } catch let error as any DisposedError {
                    guard self.watch, let cause = error.redis, cause.isPassing else { throw error }
                    if !self.output.json { Console.clear() }
                    Console.message("Redis does not answer (\(cause.message)): it is asked again")
                }
                if self.watch { try await Task.sleep(for: Self.interval) }
            } while self.watch
            guard isWhole else { throw ExitCode(CommandExit.partlyFailed) }
        }
    }

    /// Shows the parts of an installation that answer, and which do not.
    private func look(_ streams: SendStreams, within reach: Reachability) async throws {
        let known = try await InstallationCopies(streams.client).routes(of: streams)
        let routes = try await RouteControlReport(streams, within: reach).rows(of: self.app, among: known)
        let all = try await StreamBacklog(streams, within: reach).rows(among: known)
            .filter { self.app == nil || $0.app == self.app?.text }
        let rows = self.shards ? all : StreamBacklog.totals(all)
        let services = try await reach.has(.services) ? ServiceReport(streams) : nil
        let webhook = try await WebhookBacklog(streams, within: reach)
        if self.watch, !self.output.json { Console.clear() }
        let concerns =
            reach.sentences + (services?.concerns ?? []) + (self.app == nil ? webhook.concerns : [])
        var json: JSONObject = [
            "streams": .array(rows.map { .object($0.json) }), "routes": .array(routes.map { .object($0.json) }),
            "services": .array((services?.summaries ?? []).map { .object($0) }), "webhook": .object(webhook.json),
        ]
        if let unreachable = reach.json { json["unreachable"] = .object(unreachable) }
        self.output.write(
            json,
            else: StreamBacklog.lines(rows, withEmpty: self.all, of: self.app) + [""]
                + RouteControlReport.lines(routes, of: self.app)
                + (concerns.isEmpty ? [] : [""] + concerns)
                + (self.watch && !Console.isDataInteractive ? [""] : []),
        )
    }
}
