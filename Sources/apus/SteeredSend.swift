import ApusCommand
import ApusInstallation
import ApusStreams
import ArgumentParser

/// The send that an operator steers, and how.
struct SteeredSend: ParsableArguments {
    @Argument(help: "The send's id.")
    var send: String
    @Option(help: "The app; without, whichever app's send it is.")
    var app: String?

    /// Does what is wished and writes how the send stands then.
    func steer(_ wish: SteeringWish, _ redis: RedisOptions, _ output: OutputOptions) async throws {
        try await RedisAccess.withInstallation(redis.url) { installation in
            let report = try await SendSteering(installation.streams, app: self.app, send: self.send).perform(wish)
            output.write(report.json, else: [report.line])
        }
    }
}
