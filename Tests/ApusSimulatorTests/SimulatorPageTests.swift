import ApusCore
import ApusSimulator
import ApusTestKit
import Foundation
import Testing

/// Tests that the commands of the simulator's page work as they are shown.
@Suite struct SimulatorPageTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// A block of code of the page.
    private struct Block {
        let language: String
        let code: String

        /// The file that its first line names, behind "# ".
        var file: String? {
            guard let line = self.code.split(separator: "\n").first, line.hasPrefix("# ") else { return nil }
            return String(line.dropFirst(2))
        }
    }

    private static func blocks() throws -> [Block] {
        let page = Self.root.appending(path: "Sources/ApusSimulator/ApusSimulator.docc/Simulator.md")
        let text = try String(contentsOf: page, encoding: .utf8)
        return text.matches(of: /```([a-z]+)\n([^`]*)\n```/).map { Block(language: "\($0.1)", code: "\($0.2)\n") }
    }

    @Test(.timeLimit(.minutes(5))) func `Every command of the page works, one after the other`() async throws {
        let folder = try TemporaryDirectory.make("apus-simulator-page")
        defer { TemporaryDirectory.remove(folder) }
        var ports: [(old: String, new: String)] = []
        for old in ["2197", "2443", "2080"] { ports.append((old, "\(try FreePort.find())")) }
        var script = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n"
        var counts: [String: Int] = [:]
        for block in try Self.blocks() {
            counts[block.language, default: 0] += 1
            var code = block.code
            for port in ports { code = code.replacing(port.old, with: port.new) }
            switch block.language {
            case "sh": script += code
            case "swift": break
            default:
                let name = try #require(block.file, "a block of \(block.language) that names no file")
                try code.write(toFile: "\(folder)/\(name)", atomically: true, encoding: .utf8)
            }
        }
        #expect(counts == ["sh": 6, "python": 2, "yaml": 1, "swift": 1])
        try script.write(toFile: "\(folder)/page.sh", atomically: true, encoding: .utf8)

        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["timeout", "240", "bash", "page.sh"]
        process.currentDirectoryURL = URL(filePath: folder)
        var environment = ProcessInfo.processInfo.environment
        let programs = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath().deletingLastPathComponent()
        let python = Self.root.appending(path: ".build/python/bin")
        environment["PATH"] = "\(programs.path()):\(python.path()):\(environment["PATH"] ?? "/usr/bin:/bin")"
        for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] { environment[name] = nil }
        process.environment = environment
        let file = "\(folder)/page.log"
        try Data().write(to: URL(filePath: file))
        let log = try FileHandle(forWritingTo: URL(filePath: file))
        process.standardOutput = log
        process.standardError = log
        process.standardInput = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        let said = try String(contentsOfFile: file, encoding: .utf8)
        #expect(process.terminationStatus == 0, "\(said)")
    }

    @Test func `The Swift code of the page works as described`() async throws {
        let simulator = try await Simulator.start()
        simulator.declare(.bad, of: "00fc13adff785122", provider: .apns)
        let port = simulator.addresses.apnsPort
        let authority = simulator.authorityPEM
        #expect(port ?? 0 > 0 && authority.hasPrefix("-----BEGIN CERTIFICATE-----"))
        #expect(simulator.isDead("00fc13adff785122", provider: .apns))
        // Send with the client under test, then compare.
        let accepted = simulator.ledger.snapshot.accepted
        #expect(accepted.isEmpty)
        await simulator.stop()

        let block = try #require(try Self.blocks().first { $0.language == "swift" })
        let own = try String(contentsOfFile: #filePath, encoding: .utf8).split(separator: "\n")
            .map { $0.trimmingCharacters(in: .whitespaces) }
        for line in block.code.split(separator: "\n") { #expect(own.contains(String(line)), "\(line)") }
    }
}
