import ApusCommand
import ApusInstallation
import ApusStreams
import ApusTerminal
import ArgumentParser

/// Lists the processes of the services (`apus services`).
struct Services: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List the processes of the services, and those that are missing.",
        discussion: """
            Each process reports itself to Redis every two seconds. One that was not asked to stop and has not \
            reported for fifteen seconds is missing, until a later process of the same service takes its place or a \
            day has passed. One that was asked to stop leaves the list; a service of which none runs says for a day when the \
            last was stopped. SEEN is the time since a process's last report.

            Exit code 2 if a service has no process, or one is missing or not ready.
            """,
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Option(help: ArgumentHelp("Take a process that will not come back out of the list.", valueName: "process"))
    var forget: String?

    func run() async throws {
        try await RedisAccess.withInstallation(self.redis) { installation in
            if let forget = self.forget {
                try await installation.streams.audit.record(AuditEntry("service.forget", of: forget, by: .shell))
                guard try await installation.streams.processes.remove(forget) else {
                    throw CommandFailure("there is no process \(forget) in the list: apus services")
                }
            }
            let report = try await ServiceReport(installation.streams)
            self.output.write(report.json, else: report.lines)
            guard report.concerns.isEmpty else { throw ExitCode(CommandExit.partlyFailed) }
        }
    }
}
