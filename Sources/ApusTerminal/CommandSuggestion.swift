internal import ApusCore
package import ArgumentParser

/// Finds mistyped commands, such as `apus servces`, and the ones that were probably meant. Pure.
package enum CommandSuggestion {
    /// Returns a sentence about the first word that stands in the place of a command and names none; nil when there is none.
    ///
    /// - Parameter root: the program's command.
    package static func sentence(about arguments: [String], of root: any ParsableCommand.Type) -> String? {
        var command: any ParsableCommand.Type = root
        var path = Self.name(of: root)
        for word in arguments {
            let subcommands = command.configuration.subcommands
            guard !subcommands.isEmpty, !word.hasPrefix("-"), word != "help" else { return nil }
            if let next = subcommands.first(where: { Self.name(of: $0) == word }) {
                command = next
                path += " \(word)"
                continue
            }
            let suggestion = closest(to: word, among: subcommands.map { Self.name(of: $0) })
            // Where a command is implied, the word may be its argument.
            guard suggestion != nil || command.configuration.defaultSubcommand == nil else { return nil }
            let meant = suggestion.map { "did you mean \(path) \($0)?" } ?? "\(path) --help lists the commands"
            return "there is no command \(path) \(word); \(meant)"
        }
        return nil
    }

    private static func name(of command: any ParsableCommand.Type) -> String { command._commandName }
}
