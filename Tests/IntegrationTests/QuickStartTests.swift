import ApusCore
import ApusLab
import ApusService
import ApusSimulator
import ApusTestKit
import Foundation
import Glibc
import Synchronization
import Testing

/// Tests `apus-lab quickstart` as a newcomer runs it.
@Suite(.serialized) struct QuickStartTests {
    @Test func `The quick start sends, shows each command with its answer, and leaves a configuration to begin with`()
        throws
    {
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let into = "\(folder.path)/start"
        // In a terminal that was prepared for an earlier one, whose file is gone.
        let answer = try OperatorProgram.run(
            ["quickstart", "--into", into],
            environment: ["APUS_CONFIG": "/nowhere/apus.yaml", "APUS_REDIS_USER": "nobody"],
            program: "apus-lab",
        )
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
        #expect(check.lines.first?.hasPrefix("\(file): ") == true && check.lines.count > 1, "\(check.lines)")
        #expect(check.lines.dropFirst().allSatisfy { $0.contains(": no such file or directory") }, "\(check.lines)")

        let again = try OperatorProgram.run(["quickstart", "--into", into], program: "apus-lab")
        #expect(again.code == 1 && again.talk.contains("is there already"))
    }

    /// Does what it says at the end, word for word.
    @Test func `What the quick start keeps running takes a second app from its one file, and shows what was received`()
        async throws
    {
        let folder = try TemporaryFolder()
        let into = "\(folder.path)/start"
        let programs = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath().deletingLastPathComponent()
            .path
        let process = try await WatchedProcess(
            ["\(programs)/apus-lab", "quickstart", "--into", into, "--keep"],
            directory: folder.path
        )
        var said = ""
        try await eventually("it says how to go on", timeout: .seconds(120)) {
            said = try String(contentsOfFile: "\(folder.path)/log", encoding: .utf8)
            return said.contains("\n  shop:\n") && said.hasSuffix("\n\n")
        }
        func words(after text: String) throws -> String {
            let start = try #require(said.range(of: text)?.upperBound, "\(text) in \(said)")
            return String(said[start...].prefix { $0 != "\n" })
        }
        let file = try words(after: "export APUS_CONFIG=").trimmingCharacters(in: ["\""])
        #expect(try words(after: "export PATH=") == "\"\(programs):$PATH\"")
        func apus(_ arguments: String...) throws -> OperatorProgram.Answer {
            try OperatorProgram.run(arguments, environment: ["APUS_CONFIG": file])
        }
        #expect(try apus("doctor", "--offline").lines.last?.hasSuffix(" 0 warnings, 0 failed") == true)

        let section = said[try #require(said.range(of: "\n  shop:\n")).lowerBound...].dropFirst()
        let handle = try #require(FileHandle(forWritingAtPath: file))
        try handle.seekToEnd()
        try handle.write(contentsOf: Data(section.utf8))
        try handle.close()
        let token = String(repeating: "ab", count: 32)
        try await eventually("the app is known", timeout: .seconds(120)) {
            try apus("device", "put", "--app", "shop", "phone", "--provider", "apns", "--token", token).code == 0
                && apus("send", "--app", "shop", "--device", "phone", "--title", "Hi", "--wait").code == 0
        }
        let url = try words(after: "curl -s ")
        #expect(url.hasSuffix("/ledger"))
        let received = Mutex<[LedgerLine]>([])
        try await SimulatorControl(url: url)?.readLedger { line in received.withLock { $0.append(line) } }
        #expect(received.withLock { $0.count { $0.digest == TokenDigest(token, provider: .apns) } } == 1)
        process.signal(SIGINT)
        try await eventually("it ends") { !process.isRunning }
        #expect(
            !FileManager.default.fileExists(atPath: file) && FileManager.default.fileExists(atPath: "\(into)/apus.yaml")
        )
        await process.end(keepingDirectory: true)
    }
}
