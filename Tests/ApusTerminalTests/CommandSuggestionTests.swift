import ApusTerminal
import ArgumentParser
import Testing

/// Tests the words about mistyped commands.
@Suite struct CommandSuggestionTests {
    private struct Program: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "apus",
            subcommands: [Services.self, Dead.self],
        )
    }

    private struct Services: ParsableCommand {
        static let configuration = CommandConfiguration(commandName: "services")
        @Argument var name: String?
    }

    private struct Dead: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "dead",
            subcommands: [List.self],
            defaultSubcommand: List.self,
        )
    }

    private struct List: ParsableCommand {
        static let configuration = CommandConfiguration(commandName: "list")
    }

    private func sentence(_ arguments: String...) -> String? {
        CommandSuggestion.sentence(about: arguments, of: Program.self)
    }

    @Test func `A mistyped command is answered with the one that was meant`() {
        #expect(self.sentence("servces") == "there is no command apus servces; did you mean apus services?")
        #expect(self.sentence("dead", "lsit") == "there is no command apus dead lsit; did you mean apus dead list?")
        #expect(self.sentence("frobnicate") == "there is no command apus frobnicate; apus --help lists the commands")
    }

    @Test func `Commands, options, arguments and help are left alone`() {
        #expect(self.sentence() == nil && self.sentence("--help") == nil && self.sentence("help", "dead") == nil)
        #expect(self.sentence("services", "servces") == nil && self.sentence("dead", "list", "x") == nil)
        #expect(self.sentence("dead", "3/17-0") == nil)
    }
}
