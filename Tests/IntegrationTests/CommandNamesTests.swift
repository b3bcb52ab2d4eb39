import ApusCore
import Foundation
import Testing

/// Tests that texts of the programs name no command of `apus` that does not exist.
@Suite struct CommandNamesTests {
    /// Words behind the name of the program that are no commands.
    private static let others: Set = ["beside", "simulated"]

    @Test func `Every command that a text of the sources names exists`() throws {
        let help = try #require(try OperatorProgram.run(["--experimental-dump-help"]).json?["command"])
        let commands = Dictionary(
            uniqueKeysWithValues: Self.subcommands(help).map { command in
                (Self.name(of: command), Set(Self.subcommands(command).map(Self.name)))
            }
        )
        #expect(commands["device"]?.contains("rm") == true && commands["doctor"] == [])
        var named = 0
        for (file, line) in try Self.lines() {
            for match in line.matches(of: /(?:^|[^A-Za-z.\/-])apus ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?/) {
                let (first, second) = (String(match.1), match.2.map { String($0) })
                guard !Self.others.contains(first) else { continue }
                named += 1
                let inner = commands[first]
                #expect(inner != nil, "\(file): there is no apus \(first)")
                guard let inner, let second, !inner.isEmpty else { continue }
                #expect(inner.contains(second), "\(file): there is no apus \(first) \(second)")
            }
        }
        #expect(named > 50)
    }

    private static func name(of command: JSONValue) -> String { command["commandName"]?.string ?? "" }

    private static func subcommands(_ command: JSONValue) -> [JSONValue] { command["subcommands"]?.array ?? [] }

    /// Returns the lines of all sources that are no comments, each with its file.
    private static func lines() throws -> [(file: String, line: Substring)] {
        let folder = URL(filePath: #filePath).appending(path: "../../../Sources").standardized
        let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)
        var lines: [(file: String, line: Substring)] = []
        while let file = files?.nextObject() as? URL {
            guard file.pathExtension == "swift" else { continue }
            for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
            where line.contains("apus ") && !line.drop(while: { $0 == " " }).hasPrefix("//") {
                lines.append((file.lastPathComponent, line))
            }
        }
        return lines
    }
}
