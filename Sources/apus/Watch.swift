import ApusCommand
import ApusCore
import ApusInstallation
import ApusMessages
import ApusPublisher
import ApusRedis
import ApusStreams
import ApusTerminal
import ArgumentParser

/// Shows the progress of a send (`apus watch`).
struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Watch a send until every recipient has its outcome.",
        discussion: """
            While something keeps the send from going on, a line says what, and the cure: a route that is paused or \
            held back, a service that does not run. At the end it shows the recipients by outcome, reason and provider. \
            Interrupting it does not stop the send: run it again to continue.

            Exit codes: 0 done, 1 refused, unknown or not complete within the timeout, 2 nobody was reached, or the send was cancelled, \
            or recipients were rejected, failed or expired.
            """,
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "The send's id.")
    var send: String
    @Option(help: "The app; by default any app that has the send.")
    var app: String?
    @OptionGroup var patience: WatchTimeout

    func run() async throws {
        try await RedisAccess.withInstallation(self.redis) { installation in
            let observer = SendObserver(installation.streams, app: self.app, send: self.send)
            try await Watching(streams: installation.streams, patience: self.patience).run(observer, self.output)
        }
    }
}

/// Parses the option that limits how long a send is watched.
struct WatchTimeout: ParsableArguments {
    @Option(help: "The maximum number of seconds to wait for the send's end.")
    var timeout: Double?

    func validate() throws {
        guard self.timeout.map({ (0...1e9).contains($0) }) ?? true else {
            throw ValidationError("--timeout is a number of seconds, at most 1,000,000,000")
        }
    }
}

/// Follows a send, for `watch` and `send --wait`.
struct Watching {
    let streams: SendStreams
    let patience: WatchTimeout

    /// Follows a publication. The id is written first: it is what to look again with when this ends before the send does.
    ///
    /// - Parameter advice: the sentence that tells how to repeat the command without a second send.
    static func run(
        _ publication: Publication,
        of publisher: Publisher,
        advice: String,
        within patience: WatchTimeout,
        _ output: OutputOptions,
    ) async throws {
        let again = "apus watch \(publication.send) --app \(publication.app)"
        let verb = publication.isDuplicate ? "published before" : "published"
        Console.message("\(verb) as \(publication.send), also shown by: \(again). \(advice)")
        try await Self(streams: publisher.installation.streams, patience: patience)
            .run(SendObserver(publisher, publication), output)
    }

    func run(_ observer: SendObserver, _ output: OutputOptions) async throws {
        var observer = observer
        let search = SendObstacles(self.streams)
        let (status, obstacles) = try await observer.follow(
            within: self.patience.timeout.map { .seconds($0) },
            display: ProgressDisplay(),
            obstacles: search.find,
        )
        // The status as it was seen last is shown in any case.
        let tally: ClientEventCounts? =
            try await status.isOver
            ? observer.tally()
            : RedisError.skippingUnreadable { try await observer.tally() } ?? nil
        let rate = tally?.openRate(accepted: status.total(.accepted))
        var json = status.json
        json["events"] = tally.map { JSONValue.object($0.json) } ?? .null
        json["open_rate"] = rate.flatMap { JSONNumber($0) }.map { JSONValue.number($0) } ?? .null
        json["obstacles"] = .array(obstacles.map { .string($0.sentence) })
        let sentence = "\(status.send)  \(status.phase.name)"
        let events = tally.map { Self.events($0, rate) } ?? []
        output.write(json, else: [sentence] + OutcomeTable.lines(status.counts) + events)
        guard status.isOver else {
            let app = observer.app.map { " --app \($0)" } ?? ""
            throw CommandFailure("not complete yet; continue with: apus watch \(status.send)\(app)")
        }
        if status.exitCode != 0 { throw ExitCode(status.exitCode) }
    }

    /// Returns the events that apps reported, such as `opened 1,204 (12.0 %)`.
    private static func events(_ tally: ClientEventCounts, _ rate: Double?) -> [String] {
        let parts = ClientEvent.Kind.allCases.filter { tally.total($0) > 0 }.map { kind in
            let count = "\(kind.name) \(NumberText.grouped(tally.total(kind)))"
            guard kind == .opened, let rate else { return count }
            return "\(count) (\(NumberText.decimal(rate * 100, 1)) %)"
        }
        return parts.isEmpty ? [] : [parts.joined(separator: "  ")]
    }
}
