import ApusCommand
import ApusConsole
import ApusStreams
import ArgumentParser

/// `apus pause`: holds a send or a route.
struct Pause: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Hold a send, or a route.",
        discussion: "What is on its way to a provider ends; nothing more goes out until `apus resume`.",
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var target: ControlledTarget

    func run() async throws {
        try await self.target.steer(.pause, orRoute: .pause, self.redis, self.output)
    }
}
