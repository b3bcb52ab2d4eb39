import ApusCommand
import ApusStreams
import ApusTerminal
import ArgumentParser

/// Cancels a send (`apus cancel`).
struct Cancel: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Cancel a send for good.",
        discussion: "Recipients that were not reached yet end as cancelled; `apus watch` counts them.",
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var send: ControlledSend

    func run() async throws {
        try await self.send.control(.cancel, self.redis, self.output)
    }
}
