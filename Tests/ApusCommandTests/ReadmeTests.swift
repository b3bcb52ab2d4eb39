import ApusCommand
import ApusCore
import ApusDispatcher
import ApusFeedback
import ApusLoadTest
import ApusMessages
import ApusRedis
import ApusRegistration
import ApusService
import ApusTestKit
import Foundation
import Testing

/// What the README tells to type works as it stands there.
@Suite struct ReadmeTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private struct Failed: Error, CustomStringConvertible {
        let description: String
    }

    private static func text() throws -> String {
        try String(contentsOf: Self.root.appending(path: "README.md"), encoding: .utf8)
    }

    /// The block of code of that language.
    private static func block(_ language: String) throws -> String {
        let text = try Self.text()
        let start = try #require(text.range(of: "```\(language)\n"))
        let end = try #require(text[start.upperBound...].range(of: "\n```"))
        return String(text[start.upperBound..<end.lowerBound]) + "\n"
    }

    private static func run(
        _ program: String,
        _ arguments: [String],
        in folder: String,
        _ redis: String = ""
    ) throws
        -> String
    {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [program] + arguments
        process.currentDirectoryURL = URL(filePath: folder)
        var environment = ProcessInfo.processInfo.environment
        environment["APUS_REDIS_URL"] = redis
        process.environment = environment
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let bytes = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        let text = String(decoding: bytes, as: UTF8.self)
        guard process.terminationStatus == 0 else { throw Failed(description: "\(program) \(arguments): \(text)") }
        return text
    }

    @Test(.timeLimit(.minutes(5)))
    func `The Python publisher writes a command that dispatchers take`() async throws {
        let folder = try TemporaryDirectory.make("apus-readme")
        defer { TemporaryDirectory.remove(folder) }
        let protos = Self.root.appending(path: "Protos").path()
        let files = try FileManager.default.contentsOfDirectory(atPath: "\(protos)/apus/v1")
            .filter { $0.hasSuffix(".proto") }.map { "\(protos)/apus/v1/\($0)" }
        _ = try Self.run("protoc", ["-I", protos, "--python_out=."] + files, in: folder)
        _ = try Self.run("python3", ["-m", "venv", "environment"], in: folder)
        _ = try Self.run("environment/bin/pip", ["install", "--quiet", "redis", "protobuf"], in: folder)
        try Self.block("python").write(toFile: "\(folder)/publish.py", atomically: true, encoding: .utf8)
        try await RedisServer.with { server in
            let output = try Self.run("environment/bin/python", ["publish.py"], in: folder, server.tcpURL)
            let id = output.trimmingCharacters(in: .whitespacesAndNewlines)
            let key = "\(Keyspace().tag(shard: 0))in:bulk"
            let entries = try await server.command("XRANGE", .text(key), "-", "+").root
            #expect(entries.count == 1)
            let fields = try #require(entries.element(0)?.element(1))
            #expect(fields.element(0)?.string == "m")
            let command = try SendCommand.decode(try #require(fields.element(1)?.bytes))
            #expect(command.id == id)
            #expect(command.app == "demo")
            #expect(command.target == .topic("news"))
            #expect(command.notification.title == "Swifts are back")
            #expect(command.notification.kind == .alert)
            #expect(command.publishedAtNanoseconds > 0)
        }
    }

    @Test func `The 16 tags and the example of the rule are those of the keyspace`() throws {
        let keyspace = Keyspace()
        let tags = (0..<keyspace.queueShards).map { keyspace.tag(shard: $0).description }.joined(separator: " ")
        let text = try Self.text()
        #expect(text.contains(tags))
        #expect(keyspace.placement(app: "shop", id: "order-17").shard == 1)
        #expect(keyspace.tag(shard: 1).description == "{q63}")
        #expect(text.contains("app `shop` and id `order-17` give shard 1, `{q63}`"))
    }

    @Test func `It is no longer than people read, and what it points to is there`() throws {
        let text = try Self.text()
        #expect(text.split(separator: "\n", omittingEmptySubsequences: false).count <= 250)
        for match in text.matches(of: /\]\(([A-Za-z][^)#:]*)\)/) {
            let path = Self.root.appending(path: String(match.1)).path()
            #expect(FileManager.default.fileExists(atPath: path), "\(match.1)")
        }
        for script in ["Scripts/bench", "Scripts/demo", "Scripts/test"] {
            #expect(FileManager.default.isExecutableFile(atPath: Self.root.appending(path: script).path()))
        }
    }

    @Test func `Every test that backs a promise exists`() throws {
        let folder = Self.root.appending(path: "Tests").path()
        let enumerator = FileManager.default.enumerator(atPath: folder)
        var tests = ""
        while let path = enumerator?.nextObject() as? String {
            guard path.hasSuffix("Tests.swift"), !path.hasSuffix("ReadmeTests.swift") else { continue }
            tests += try String(contentsOfFile: "\(folder)/\(path)", encoding: .utf8)
        }
        let text = try Self.text()
        let promises = try #require(text.range(of: "## What is promised"))
        let end = try #require(text[promises.upperBound...].range(of: "\n## "))
        let section = text[promises.upperBound..<end.lowerBound]
        for match in section.matches(of: /`([A-Za-z]+Tests)`/) {
            #expect(tests.contains("struct \(match.1)"), "\(match.1)")
        }
        let names = section.matches(of: /\*([^*]+?) …\*/).map { String($0.1) }
        #expect(names.count >= 3)
        for name in names { #expect(tests.contains("func `\(name)"), "\(name)") }
        // A drill is named in the table's last column, behind the word.
        let rows = section.matches(of: /drills? ((`[a-z-]+` ?)+)/)
        let drills = rows.flatMap { $0.1.matches(of: /`([a-z-]+)`/).map { String($0.1) } }
        #expect(Set(drills) == Set(Drill.all.map(\.name)))
        for benchmark in Benchmark.all {
            #expect(section.contains("\n| `\(benchmark.name)` |"), "\(benchmark.name)")
        }
    }

    @Test func `A benchmark that is not there is refused with the names of those that are`() {
        let names = Benchmark.all.map(\.name).joined(separator: "|")
        for name in ["speed", "Fanout"] {
            #expect {
                _ = try Self.run("Scripts/bench", [name], in: Self.root.path())
            } throws: { error in
                "\(error)".contains(names)
            }
        }
    }

    @Test func `The services take the configuration, and the registration is JSON`() throws {
        let folder = try TemporaryDirectory.make("apus-readme")
        defer { TemporaryDirectory.remove(folder) }
        var yaml = try Self.block("yaml").replacing(
            "<SHA-256 of the key, 64 digits>",
            with: String(repeating: "0", count: 64)
        )
        for match in yaml.matches(of: /\/etc\/apus\/[A-Za-z0-9.-]+/) {
            let file = "\(folder)/\(match.output.split(separator: "/").last ?? "")"
            try "anything".write(toFile: file, atomically: true, encoding: .utf8)
            yaml = yaml.replacing(match.output, with: file)
        }
        let path = "\(folder)/apus.yaml"
        try yaml.write(toFile: path, atomically: true, encoding: .utf8)
        let source = SettingsSource(file: path, environment: [:])
        #expect(try source.load(RegistrationSettings.self, for: .registration).own.tls != nil)
        #expect(try source.load(DispatcherSettings.self, for: .dispatcher).own.leaseMilliseconds == 10_000)
        #expect(try source.load(FeedbackSettings.self, for: .feedback).own.ledgerMilliseconds == 72 * 3_600_000)
        let json = try JSONValue(parsing: try Self.block("json"), bytesMax: 4_096)
        #expect(json["provider"]?.string == "apns")
    }
}
