import ApusCommand
import ApusCore
import ApusLoadTest
import ApusPublisher
import ArgumentParser

/// `apus loadtest`: single sends at a constant rate, and how long each took; or drills.
struct LoadTest: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "loadtest",
        abstract: "Send to a simulator's devices at a constant rate, and measure; or drill a fleet.",
        discussion: """
            An open loop: every send has its time, and latencies count from it, so a slow system cannot hide. For an \
            installation whose app leads to `apus simulate`: real providers would see random tokens. Fails when the rate \
            was not reached.

            With --drill it starts a fleet of its own on this machine (Redis, a simulated Apple and Google, the services \
            beside this program), does it harm in the middle of a send, and compares: progress on standard error, the \
            result on standard output. Fails when somebody was lost, or more was repeated than may be.
            """,
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Option(help: "The app.")
    var app = "demo"
    @Option(help: "Sends per second.")
    var rate = 1_000.0
    @Option(help: "Seconds to measure.")
    var duration = 10.0
    @Option(help: "Seconds before, which are not measured.")
    var warmUp = 2.0
    @Option(help: "The simulator's control listener, http://host:port: for the time of acceptance.")
    var simulator: String?
    @Flag(help: "By the bulk lane instead of express.")
    var bulk = false
    @Option(help: "What tokens and random moments are drawn from.")
    var seed: UInt64 = 1
    @Option(help: "A drill to run instead, or all; see --list.")
    var drill: String?
    @Option(help: "A benchmark to run instead; see --list. Meant for a release build: Scripts/bench.")
    var bench: String?
    @Option(help: "With --bench: how often; the median counts.")
    var runs = 3
    @Option(help: "With --bench: devices, instead of as many as it is meant for.")
    var devices: Int?
    @Flag(help: "With --drill: the short form, a few thousand devices.")
    var short = false
    @Flag(help: "List drills and benchmarks.")
    var list = false

    func validate() throws {
        guard (0.1...1_000_000).contains(self.rate) else { throw ValidationError("--rate is 0.1 to 1,000,000") }
        guard (0.1...86_400).contains(self.duration), (0...3_600).contains(self.warmUp) else {
            throw ValidationError("--duration is 0.1 to 86,400 seconds, --warm-up 0 to 3,600")
        }
        if let simulator, SimulatorControl(url: simulator) == nil {
            throw ValidationError("--simulator is http://host:port")
        }
        guard (1...99).contains(self.runs), self.devices.map({ (1_000...5_000_000).contains($0) }) ?? true else {
            throw ValidationError("--runs is 1 to 99, --devices 1,000 to 5,000,000")
        }
        guard self.drill == nil || self.bench == nil else { throw ValidationError("--drill or --bench, not both") }
        do {
            _ = try AppID(self.app)
        } catch {
            throw ValidationError("\(error)")
        }
    }

    func run() async throws {
        guard !self.list else { return self.writeList() }
        do {
            if let bench {
                try await self.measure(bench)
            } else if let drill {
                try await self.perform(drill)
            } else {
                try await self.measure()
            }
        } catch is CancellationError {
            throw CommandFailure("interrupted")
        }
    }

    private func perform(_ drill: String) async throws {
        let session = try DrillSession(drill, size: self.short ? .short : .long, seed: self.seed)
        let output = self.output
        let failed = try await Interruption.whileWatching {
            try await session.run { output.write($0.json, else: [$0.line]) }
        }
        guard failed.isEmpty else { throw CommandFailure("not passed: \(failed.joined(separator: ", "))") }
    }

    private func measure(_ name: String) async throws {
        guard let benchmark = Benchmark.named(name) else {
            let names = Benchmark.all.map(\.name).joined(separator: ", ")
            throw CommandFailure("there is no benchmark \"\(name)\"; there are: \(names)")
        }
        Console.talk(Console.bold("== \(benchmark.name): \(benchmark.abstract)"))
        let (runs, devices) = (self.runs, self.devices)
        let report = try await Interruption.whileWatching {
            try await benchmark.run(runs, devices: devices) { Console.talk("   \($0)") }
        }
        self.output.write(report.json(revision: Console.variable("APUS_REVISION") ?? "unknown"), else: report.lines)
        guard report.passed else { throw CommandFailure("not passed: \(name)") }
    }

    private func writeList() {
        let drills = Drill.all.map { (name: $0.name, abstract: $0.abstract) }
        let benchmarks = Benchmark.all.map { (name: $0.name, abstract: $0.abstract) }
        func json(_ list: [(name: String, abstract: String)]) -> JSONValue {
            .array(list.map { ["name": .string($0.name), "abstract": .string($0.abstract)] })
        }
        func lines(_ title: String, _ list: [(name: String, abstract: String)]) -> [String] {
            [title] + list.map { "  \($0.name)\(String(repeating: " ", count: 26 - $0.name.count))\($0.abstract)" }
        }
        self.output.write(
            ["drills": json(drills), "benchmarks": json(benchmarks)],
            else: lines("--drill", drills) + lines("--bench", benchmarks),
        )
    }

    private func measure() async throws {
        var options = LoadRun.Options()
        options.app = self.app
        options.ratePerSecond = self.rate
        options.seconds = self.duration
        options.warmUpSeconds = self.warmUp
        options.seed = self.seed
        options.lane = self.bulk ? .bulk : .express
        let publisher = try await Publisher(redis: self.redis.url)
        let report: LoadReport
        do {
            let simulator = self.simulator.flatMap { SimulatorControl(url: $0) }
            report = try await LoadRun(options, publisher: publisher, simulator: simulator)
                .run(ProgressDisplay(label: "published"))
            await publisher.close()
        } catch {
            await publisher.close()
            throw error
        }
        self.output.write(report.json, else: report.lines)
        guard report.complaints.isEmpty else { throw CommandFailure(report.complaints.joined(separator: "; ")) }
    }
}
