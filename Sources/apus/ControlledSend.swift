import ApusCommand
import ApusInstallation
import ApusStreams
import ApusTerminal
import ArgumentParser

/// The arguments that name a send to control.
struct ControlledSend: ParsableArguments {
    @Argument(help: "The send's id.")
    var send: String
    @Option(help: "The app; by default any app that has the send.")
    var app: String?

    /// Performs a command and prints the send's status afterwards.
    func control(_ command: SendControlCommand, _ redis: RedisOptions, _ output: OutputOptions) async throws {
        try await RedisAccess.withInstallation(redis) { installation in
            let report = try await SendControlReport(installation.streams, app: self.app, send: self.send).perform(
                command,
                by: .shell
            )
            output.write(report.json, else: [report.line])
        }
    }
}
