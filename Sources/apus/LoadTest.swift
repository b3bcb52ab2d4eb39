import ApusCommand
import ApusCore
import ApusPublisher
import ArgumentParser

/// `apus loadtest`: single sends at a constant rate, and how long each took.
struct LoadTest: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "loadtest",
        abstract: "Send to a simulator's devices at a constant rate, and measure.",
        discussion: """
            An open loop: every send has its time, and latencies count from it, so a slow system cannot hide. For an \
            installation whose app leads to `apus simulate`: real providers would see random tokens. Fails when the rate \
            was not reached.
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
    @Option(help: "What tokens are drawn from.")
    var seed: UInt64 = 1

    func validate() throws {
        guard (0.1...1_000_000).contains(self.rate) else { throw ValidationError("--rate is 0.1 to 1,000,000") }
        guard (0.1...86_400).contains(self.duration), (0...3_600).contains(self.warmUp) else {
            throw ValidationError("--duration is 0.1 to 86,400 seconds, --warm-up 0 to 3,600")
        }
        if let simulator, SimulatorControl(url: simulator) == nil {
            throw ValidationError("--simulator is http://host:port")
        }
        do {
            _ = try AppID(self.app)
        } catch {
            throw ValidationError("\(error)")
        }
    }

    func run() async throws {
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
