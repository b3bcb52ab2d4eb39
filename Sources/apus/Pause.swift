import ApusCommand
import ApusStreams
import ApusTerminal
import ArgumentParser

/// Pauses a send or a route (`apus pause`).
struct Pause: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Pause a send, or a route.",
        discussion: "Requests in flight are completed; nothing more is sent until `apus resume`.",
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var target: ControlledTarget

    func run() async throws {
        try await self.target.control(.pause, orRoute: .pause, self.redis, self.output)
    }
}

/// Resumes a paused send or route (`apus resume`).
struct Resume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Resume a paused send, or a paused route.",
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var target: ControlledTarget

    func run() async throws {
        try await self.target.control(.resume, orRoute: .resume, self.redis, self.output)
    }
}
