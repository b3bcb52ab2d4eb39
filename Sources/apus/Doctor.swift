import ApusCommand
import ApusTerminal
import ArgumentParser

/// Diagnoses an installation (`apus doctor`).
struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Find problems of Redis, the configuration and the services' endpoints, and name their remedies.",
        discussion: """
            Changes nothing. It checks Redis: whether it answers, its version, its eviction policy, used memory, \
            persistence, role, connections, clock, and Apus' functions. It checks the configuration: \
            whether each service accepts it, and whether key files, certificates and providers' credentials are valid. \
            It checks endpoints: whether the webhook and the collector of traces accept connections.

            Exit code 1 if a check fails; warnings do not count.
            """,
    )

    @OptionGroup var redis: RedisOptions
    @Flag(help: "Check only Redis and files.")
    var offline = false
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let choice = try self.redis.choice()
        let examination = Examination(
            source: ConfigurationAccess.services(in: choice.settings),
            redis: choice,
            asksOthers: !self.offline,
        )
        let diagnosis = await examination.run()
        self.output.write(diagnosis.json, else: diagnosis.lines)
        guard diagnosis.count(.fail) == 0 else { throw ExitCode(CommandExit.failed) }
    }
}
