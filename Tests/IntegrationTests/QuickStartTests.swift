import ApusLab
import ApusService
import ApusTestKit
import Foundation
import Testing

/// Tests `apus-lab quickstart` as a newcomer runs it.
@Suite(.serialized) struct QuickStartTests {
    @Test func `The quick start sends, shows each command with its answer, and leaves a configuration to begin with`()
        throws
    {
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let into = "\(folder.path)/start"
        let answer = try OperatorProgram.run(["quickstart", "--into", into], program: "apus-lab")
        #expect(answer.code == 0, "\(answer.talk)")
        for command in QuickStart.commands {
            #expect(answer.talk.contains("$ " + command.prefix(3).joined(separator: " ")), "\(answer.talk)")
        }
        #expect(answer.talk.contains("accepted 1") || answer.talk.contains("1 accepted"), "\(answer.talk)")
        #expect(answer.talk.contains("The simulated Apple has accepted the notification for my-phone."))
        let file = "\(into)/apus.yaml"
        let text = try String(contentsOfFile: file, encoding: .utf8)
        #expect(text.contains("redis: {url: \"redis://127.0.0.1:6379\"}") && text.contains("# host: 127.0.0.1"))
        // Nothing is missing but the files of keys.
        let check = try OperatorProgram.run(["config", "check", "--config", file])
        #expect(check.lines.allSatisfy { $0.contains(": no such file or directory") }, "\(check.lines)")

        let again = try OperatorProgram.run(["quickstart", "--into", into], program: "apus-lab")
        #expect(again.code == 1 && again.talk.contains("is there already"))
    }
}
