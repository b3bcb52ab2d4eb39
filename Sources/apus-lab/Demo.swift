import ApusCore
import ApusLab
import ApusTerminal
import ArgumentParser
import FoundationEssentials
import Synchronization

/// Runs the demo (`apus-lab demo`).
struct Demo: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run all of Apus on this machine, and check that nothing is lost or repeated.",
        discussion: """
            Starts a private redis-server, a simulated Apple, Google and push services of browsers, and the three services, \
            registers devices over HTTP, sends to a user, a topic and everyone, prunes dead tokens, and compares the \
            simulator's ledger with the audience. Everything ends with the command. Scripts/demo builds what it needs first.
            """,
    )

    @OptionGroup var output: OutputOptions
    @Option(help: "Devices to register.")
    var devices = 20_000
    @Option(help: "Share of dead tokens, 0 to 0.5.")
    var dead = 0.02
    @Option(help: "The seed of tokens, topics and dead tokens.")
    var seed: UInt64 = 1
    @Flag(
        inversion: .prefixedNo,
        help: "Let the simulator check every request. Default: with up to 50,000 devices."
    )
    var strict: Bool?
    @Option(help: "Single sends whose latency is measured.")
    var latencySends = 1_000
    @Option(
        help:
            "Redis masters. With several each has a replica, one is killed in the middle of a send, and another one joins."
    )
    var masters = 1
    @Option(help: "The file to write the report to, as JSON.")
    var report: String?
    @Flag(help: "Leave everything running afterwards, until Ctrl-C.")
    var keep = false

    func validate() throws {
        guard (10...DemoOptions.devicesMax).contains(self.devices) else {
            throw ValidationError("--devices is 10 to \(NumberText.grouped(DemoOptions.devicesMax))")
        }
        guard (0...0.5).contains(self.dead) else { throw ValidationError("--dead is 0 to 0.5") }
        guard self.masters == 1 || (3...DemoOptions.mastersMax).contains(self.masters) else {
            throw ValidationError("--masters is 1, or 3 to \(DemoOptions.mastersMax): two cannot agree on a failover")
        }
        guard (0...100_000).contains(self.latencySends) else {
            throw ValidationError("--latency-sends is 0 to 100,000")
        }
    }

    func run() async throws {
        var options = DemoOptions()
        options.devices = self.devices
        options.deadShare = self.dead
        options.seed = self.seed
        options.fast = self.strict.map { !$0 }
        options.latencySends = self.latencySends
        options.masters = self.masters
        options.isKept = self.keep
        let demo = ApusLab.Demo(options)
        let complaints = Mutex<[String]>([])
        let (output, file) = (self.output, self.report)
        do {
            try await Interruption.whileWatching {
                try await demo.run { report in
                    complaints.withLock { $0 = report.complaints }
                    if let file { try Self.write(report, to: file) }
                    output.write(report.json, else: report.lines)
                }
            }
        } catch is CancellationError {
            // With --keep an interruption is the normal end.
            guard self.keep, complaints.withLock({ $0.isEmpty }) else { throw CommandFailure("interrupted") }
        }
        let found = complaints.withLock { $0 }
        guard found.isEmpty else {
            throw CommandFailure("the counts do not add up: \(found.joined(separator: "; "))")
        }
    }

    private static func write(_ report: DemoReport, to file: String) throws {
        do {
            try Data(JSONValue.object(report.json).text.utf8 + [0x0a]).write(to: URL(filePath: file))
        } catch {
            throw CommandFailure(
                "the report cannot be written to \(file): is its folder there, and may you write to it?"
            )
        }
    }
}
