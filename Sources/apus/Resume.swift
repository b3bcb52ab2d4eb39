import ApusCommand
import ApusConsole
import ApusStreams
import ArgumentParser

/// `apus resume`: lets a paused send or route go on.
struct Resume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Let a paused send, or a paused route, go on.",
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var target: ControlledTarget

    func run() async throws {
        try await self.target.steer(.resume, orRoute: .resume, self.redis, self.output)
    }
}
