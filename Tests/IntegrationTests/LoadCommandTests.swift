import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTestKit
import Foundation
import Testing

/// `apus-lab loadtest` as a script meets it: by its exit code, its JSON and what it says.
@Suite(.serialized) struct LoadCommandTests {
    private struct Run {
        var code: Int32
        var output: String
        var talk: String
    }

    private func loadtest(_ arguments: [String]) throws -> Run {
        let process = Process()
        process.executableURL = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath()
            .deletingLastPathComponent().appending(path: "apus-lab")
        process.arguments = ["loadtest"] + arguments
        // Read while it runs, one after the other: what is said meanwhile goes to a file.
        let file = FileManager.default.temporaryDirectory.appending(path: "apus-loadtest-\(UUID().uuidString)")
        _ = FileManager.default.createFile(atPath: file.path(), contents: nil)
        defer { try? FileManager.default.removeItem(at: file) }
        let talk = try FileHandle(forWritingTo: file)
        let output = Pipe()
        process.standardOutput = output
        process.standardError = talk
        try process.run()
        let bytes = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return Run(
            code: process.terminationStatus,
            output: String(decoding: bytes, as: UTF8.self),
            talk: try String(contentsOf: file, encoding: .utf8)
        )
    }

    @Test func `A rate that is not reached is refused: exit code 1, a sentence with the cure, and no latencies`() throws
    {
        // Three thousand single sends within a tenth of a second: no debug program does that.
        let run = try self.loadtest(
            ["--scenario", "transactional", "--rate", "30000", "--duration", "0.1", "--warm-up", "0"]
                + ["--devices", "500", "--json"]
        )
        #expect(run.code == 1)
        #expect(run.talk.contains("the target rate was not reached: "))
        #expect(run.talk.contains(" instead of 30000 ") && run.talk.contains("; ask for less"))
        let json = try JSONValue(parsing: run.output, bytesMax: 1 << 20)
        #expect(json["planned"] == 3_000 && json["lost"] == 0 && json["repeated"] == 0)
        #expect(json["refused"]?.array?.contains("target_not_reached") == true)
        #expect(json["latency_ms"] == .null)
        #expect(json["dispatcher_cpu_seconds_per_million"] == .null && json["redis_cpu_seconds_per_million"] == .null)
    }

    @Test func `A saturated sink is refused: exit code 1, a sentence with the cure, and no latencies`() throws {
        let run = try self.loadtest(
            ["--scenario", "transactional", "--rate", "20", "--duration", "2", "--warm-up", "0", "--devices", "500"]
                + ["--saturate-sink", "--json"]
        )
        #expect(run.code == 1)
        #expect(run.talk.contains("the sink was saturated: the simulator was busy or waited for a processor "))
        #expect(run.talk.contains("; ask for less, or give it a core of its own"))
        let json = try JSONValue(parsing: run.output, bytesMax: 1 << 20)
        #expect(json["planned"] == 40 && json["accepted"] == 40 && json["lost"] == 0 && json["repeated"] == 0)
        #expect(json["refused"]?.array?.contains("sink_saturated") == true)
        #expect(json["latency_ms"] == .null)
        #expect(json["dispatcher_cpu_seconds_per_million"] == .null && json["redis_cpu_seconds_per_million"] == .null)
    }

    /// The stream of receipts that the first command of a mailbox names; nil before there is one.
    private static func replyStream(_ fleet: Fleet) async throws -> String? {
        for shard in 0..<fleet.installation.keyspace.queueShards {
            let mailbox = fleet.installation.streams.keys(shard: shard).mailbox(.express)
            let entries = try await fleet.redis.command("XRANGE", .text(mailbox), "-", "+", "COUNT", 1).root
            if let command = entries.element(0)?.element(1)?.element(1)?.bytes {
                return try SendCommand.decode(command).replyTo
            }
        }
        return nil
    }

    @Test func `A load test of an installation that is interrupted removes its stream of receipts`() async throws {
        try await Fleet.with { fleet in
            let words = [
                "loadtest", "--app", Fleet.app, "--rate", "20", "--duration", "600", "--redis", fleet.redis.url,
            ]
            var stream: String?
            let answer = try await OperatorProgram.running(words, program: "apus-lab") { run in
                try await eventually("it publishes") {
                    stream = try await Self.replyStream(fleet)
                    return stream != nil
                }
                _ = try await fleet.redis.command("XADD", .text(stream ?? ""), "*", "m", "")
                run.interrupt()
                try await eventually("it ends") { !run.isRunning }
            }
            #expect(answer.code == 1 && answer.talk.contains("interrupted"), "\(answer.talk)")
            #expect(stream?.hasPrefix("apus:receipts:loadtest-") == true)
            #expect(try await fleet.redis.command("EXISTS", .text(stream ?? "")).root.integer == 0)
        }
    }

    @Test(arguments: [
        (["--saturate-sink"], "--saturate-sink needs a --scenario with a rate"),
        (["--rate", "0"], "--rate is 0.1 to 1,000,000"),
        (["--scenario", "fanout", "--drill", "all"], "give only one of --drill, --bench and --scenario"),
        (["--step"], "--step needs --scenario"),
        (["--scenario", "nothing"], "'nothing' is invalid"),
        (["--duration", "0"], "--duration is 0.1 to 86,400 seconds"),
    ])
    func `Impossible arguments are refused before anything starts, with exit code 64`(
        _ arguments: [String],
        _ words: String,
    ) throws {
        let run = try self.loadtest(arguments)
        #expect(run.code == 64)
        #expect(run.talk.contains(words), "\(run.talk)")
    }
}
