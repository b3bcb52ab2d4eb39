import ApusCommand
import ApusConsole
import ApusInstallation
import ApusStreams
import ArgumentParser

/// The arguments that name a send to control.
struct ControlledSend: ParsableArguments {
    @Argument(help: "The send's id.")
    var send: String
    @Option(help: "The app; without, whichever app's send it is.")
    var app: String?

    /// Does what is wished and writes how the send stands then.
    func steer(_ wish: SendControlCommand, _ redis: RedisOptions, _ output: OutputOptions) async throws {
        try await RedisAccess.withInstallation(redis.url) { installation in
            let report = try await SendControlReport(installation.streams, app: self.app, send: self.send).perform(wish)
            output.write(report.json, else: [report.line])
        }
    }
}
