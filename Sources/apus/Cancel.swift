import ApusCommand
import ApusConsole
import ApusStreams
import ArgumentParser

/// `apus cancel`: stops a send for good.
struct Cancel: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Stop a send for good.",
        discussion: "Who was not reached yet is closed as cancelled; `apus watch` tells how many.",
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var send: ControlledSend

    func run() async throws {
        try await self.send.steer(.cancel, self.redis, self.output)
    }
}
