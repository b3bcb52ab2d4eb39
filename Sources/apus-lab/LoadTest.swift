import ApusCore
import ApusLab
import ApusPublisher
import ApusTerminal
import ArgumentParser

/// Runs load tests, benchmarks and drills (`apus-lab loadtest`).
struct LoadTest: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "loadtest",
        abstract:
            "Measure latency and throughput under a constant load, run benchmarks, or cause faults and check the result.",
        discussion: """
            Without --scenario, --bench or --drill it publishes single sends to an existing installation. The load \
            is an open loop: every send has a scheduled time, from which its latency counts, so a slow system cannot \
            hide. The app must use `apus-lab simulate`: real providers would see random tokens. It fails, and \
            reports no latencies, when the rate was not reached.

            With --scenario it starts a cluster of its own on this machine (Redis, a fast simulator, the services \
            beside this program) and puts it under load: \
            \(LoadScenario.allCases.map(\.rawValue).joined(separator: ", ")); --list describes them. What the \
            simulator accepted is compared with what was sent, one by one. It reports no latencies and fails when \
            the rate was not reached, when the simulator was saturated, or when this program itself was late; it \
            fails when anything was lost or repeated. With --step it doubles the rate until it is not sustained, and \
            then halves the interval.

            With --drill it starts a cluster of its own on this machine (Redis, simulated providers, the services \
            beside this program), causes a fault in the middle of a send, and compares. It fails when a \
            recipient was lost, or more was repeated than may be.
            """,
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Option(help: "The app.")
    var app = "demo"
    @Option(help: "A load on a cluster of its own; see --list.")
    var scenario: LoadScenario?
    @Option(
        help: "Sends per second, notifications in fanout, registrations in register. Default: 1,000, or the scenario's."
    )
    var rate: Double?
    @Option(help: "With --scenario mixed: notifications per second of the topic sends. Default: 10,000.")
    var bulkRate: Double?
    @Flag(help: "With --scenario: find the highest sustained rate, starting at --rate.")
    var step = false
    @Option(help: "With --step: the maximum 99th percentile, in milliseconds, of a sustained rate.")
    var stepLatency = 100.0
    @Flag(help: "With --scenario: block the simulator, to test that its figures are refused.")
    var saturateSink = false
    @Option(help: "Write the latencies to this file, as HdrHistogram's plotters read them.")
    var hgrm: String?
    @Option(help: "Seconds to measure.")
    var duration = 10.0
    @Option(help: "Seconds of warm-up, which are not measured.")
    var warmUp = 2.0
    @Option(help: "The simulator's control listener, http://host:port: for the time of acceptance.")
    var simulator: String?
    @Flag(help: "Publish to the bulk lane instead of express.")
    var bulk = false
    @Option(help: "The seed of tokens and random times.")
    var seed: UInt64 = 1
    @Option(help: "A drill to run instead, or all; see --list.")
    var drill: String?
    @Option(help: "A benchmark to run instead, or all; see --list. Meant for a release build: Scripts/bench.")
    var bench: String?
    @Option(help: "With --bench: the number of runs; the median counts.")
    var runs = 3
    @Option(help: "Devices of --bench, --drill or --scenario, instead of the default of each.")
    var devices: Int?
    @Flag(help: "With --drill: the short form with a few thousand devices.")
    var short = false
    @Flag(help: "List drills and benchmarks.")
    var list = false

    func validate() throws {
        for (name, rate) in [("--rate", self.rate), ("--bulk-rate", self.bulkRate)] {
            guard rate.map({ (0.1...1_000_000).contains($0) }) ?? true else {
                throw ValidationError("\(name) is 0.1 to 1,000,000")
            }
        }
        guard (0.1...86_400).contains(self.duration), (0...3_600).contains(self.warmUp) else {
            throw ValidationError("--duration is 0.1 to 86,400 seconds, --warm-up 0 to 3,600")
        }
        if let simulator, SimulatorControl(url: simulator) == nil {
            throw ValidationError("--simulator is http://host:port")
        }
        let devices = (self.bench == nil ? 1 : 1_000)...ScenarioOptions.devicesMax
        guard (1...99).contains(self.runs), self.devices.map({ devices.contains($0) }) ?? true else {
            let least = NumberText.grouped(devices.lowerBound)
            throw ValidationError(
                "--runs is 1 to 99, --devices \(least) to \(NumberText.grouped(devices.upperBound))"
            )
        }
        let modes = [self.drill != nil, self.bench != nil, self.scenario != nil].count { $0 }
        guard modes <= 1 else { throw ValidationError("give only one of --drill, --bench and --scenario") }
        guard !self.step || self.scenario != nil else { throw ValidationError("--step needs --scenario") }
        guard !self.saturateSink || self.scenario?.isLoad == true else {
            throw ValidationError("--saturate-sink needs a --scenario with a rate")
        }
        guard self.scenario?.isLoad ?? true || (self.rate == nil && !self.step && self.hgrm == nil) else {
            throw ValidationError("--scenario memory has no rate and no latencies: omit --rate, --step and --hgrm")
        }
        guard !self.step || (self.rate ?? StepSearch.rateMin) >= StepSearch.rateMin, self.stepLatency > 0 else {
            throw ValidationError("--step begins at a --rate of 1 or more; --step-latency is above 0")
        }
        guard self.hgrm == nil || (self.drill == nil && self.bench == nil) else {
            throw ValidationError("--hgrm is for --scenario, or for a load on an installation")
        }
        do {
            _ = try AppID(self.app)
        } catch {
            throw ValidationError("\(error)")
        }
    }

    func run() async throws {
        guard !self.list else { return self.writeList() }
        do {
            if let scenario {
                try await self.perform(scenario)
            } else if let bench {
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
        let session = try DrillRunner(drill, size: self.short ? .short : .long, devices: self.devices, seed: self.seed)
        let output = self.output
        let failed = try await Interruption.whileWatching {
            try await session.run { output.write($0.json, else: [$0.line]) }
        }
        guard failed.isEmpty else { throw CommandFailure("not passed: \(failed.joined(separator: ", "))") }
    }

    private func measure(_ name: String) async throws {
        let revision = Console.variable("APUS_REVISION") ?? "unknown"
        let session = try BenchmarkRunner(name, runs: self.runs, devices: self.devices, revision: revision)
        let findings = try await Interruption.whileWatching { try await session.run() }
        self.output.write(findings.json, else: findings.lines)
        guard findings.failed.isEmpty else {
            throw CommandFailure("not passed: \(findings.failed.joined(separator: ", "))")
        }
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
        let scenarios = LoadScenario.allCases.map { (name: $0.rawValue, abstract: $0.abstract) }
        self.output.write(
            ["scenarios": json(scenarios), "drills": json(drills), "benchmarks": json(benchmarks)],
            else: lines("--scenario", scenarios) + lines("--drill", drills) + lines("--bench", benchmarks),
        )
    }

    private func measure() async throws {
        var options = LoadTestRunner.Options()
        options.app = self.app
        options.ratePerSecond = self.rate ?? options.ratePerSecond
        options.seconds = self.duration
        options.warmUpSeconds = self.warmUp
        options.seed = self.seed
        options.lane = self.bulk ? .bulk : .express
        let simulator = self.simulator.flatMap { SimulatorControl(url: $0) }
        let (redis, chosen) = (self.redis, options)
        let report = try await Interruption.whileWatching {
            try await RedisAccess.withPublisher(redis) { publisher in
                try await LoadTestRunner(chosen, publisher: publisher, simulator: simulator)
                    .run(ProgressDisplay(label: "published"))
            }
        }
        if report.isReached { try self.writeDistribution(report.latency) }
        self.output.write(report.json, else: report.lines)
        guard report.complaints.isEmpty else { throw CommandFailure(report.complaints.joined(separator: "; ")) }
    }
}
