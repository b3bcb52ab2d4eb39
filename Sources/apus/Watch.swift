import ApusCommand
import ApusConsole
import ApusCore
import ApusInstallation
import ApusMessages
import ApusStreams
import ArgumentParser

/// Shows the progress of a send (`apus watch`).
struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Watch a send until every recipient has its outcome.",
        discussion: "Interrupting it does not stop the send: run it again to continue.",
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "The send's id.")
    var send: String
    @Option(help: "The app; by default any app that has the send.")
    var app: String?
    @Option(help: "The maximum number of seconds to watch.")
    var timeout: Double?

    func run() async throws {
        try await RedisAccess.withInstallation(self.redis.url) { installation in
            try await Watching(send: self.send, app: self.app, timeout: self.timeout)
                .run(SendObserver(installation.streams, app: self.app, send: self.send), self.output)
        }
    }
}

/// Follows a send, for `watch` and `send --wait`.
struct Watching {
    let send: String
    let app: String?
    let timeout: Double?

    func run(_ observer: SendObserver, _ output: OutputOptions) async throws {
        var observer = observer
        let status = try await observer.follow(
            within: self.timeout.map { .seconds($0) },
            display: ProgressDisplay(),
        )
        let tally = try await observer.tally()
        let rate = tally.openRate(accepted: status.total(.accepted))
        var json = status.json
        json["events"] = .object(tally.json)
        json["open_rate"] = rate.flatMap { JSONNumber($0) }.map { JSONValue.number($0) } ?? .null
        output.write(json, else: [Self.sentence(status)] + Self.events(tally, rate))
        guard status.isOver else {
            let app = self.app.map { " --app \($0)" } ?? ""
            throw CommandFailure("not complete yet; continue with: apus watch \(self.send)\(app)")
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

    private static func sentence(_ status: SendStatus) -> String { "\(status.send)  \(status.phase.name)" }
}
