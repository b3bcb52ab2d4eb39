import ApusLab
import ApusTerminal
import ArgumentParser

/// Runs a first send (`apus-lab quickstart`).
struct QuickStart: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quickstart",
        abstract:
            "Send a first notification on this machine, command by command, and write a configuration to begin with.",
        discussion: """
            Starts a private redis-server, a simulated Apple and Google and the three services, and then runs the commands of \
            the README's first send as you would type them: prepare Redis, create a key, register a phone, send to it and wait \
            for the receipt. The configuration is left in a folder. Needs apus beside apus-lab.
            """,
    )

    @Option(help: "The folder that apus.yaml is written to.")
    var into = "apus-quickstart"
    @Flag(help: "Leave everything running afterwards, until Ctrl-C.")
    var keep = false

    func run() async throws {
        let quickStart = ApusLab.QuickStart(into: self.into, isKept: self.keep)
        do {
            try await Interruption.whileWatching { try await quickStart.run() }
        } catch is CancellationError {
            guard self.keep else { throw CommandFailure("interrupted") }
        }
    }
}
