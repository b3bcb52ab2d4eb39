import ApusCommand
import ApusCore
import ApusInstallation
import ArgumentParser

/// `apus lag`: how much waits where.
struct Lag: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show how much waits in each stream.",
        discussion: """
            BACKLOG is what nobody has read, PENDING what somebody has read and not finished, OLDEST the age of the \
            oldest of both. "due" holds retries and scheduled sends; its age is how late the first is.
            """,
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Flag(help: "Show each shard, not only their sum.")
    var shards = false

    func run() async throws {
        try await RedisAccess.withInstallation(self.redis.url) { installation in
            let all = try await StreamSurvey(installation.streams).rows()
            let rows = self.shards ? all : StreamSurvey.totals(all)
            self.output.write(
                ["streams": .array(rows.map { .object($0.json) })],
                else: StreamSurvey.table(rows).lines,
            )
        }
    }
}
