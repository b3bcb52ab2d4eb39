import ApusCommand
import ApusConsole
import ApusRedis
import ArgumentParser

/// Initialises Redis, or updates the functions of an installation (`apus init`).
struct Init: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Prepare Redis: sizes and server-side functions.",
        discussion: "It may be repeated. The sizes are fixed at the first run; functions are replaced by newer ones.",
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Option(help: "Queue shards, 1 to 1,024.")
    var shards = Keyspace.queueShardsDefault
    @Option(help: "Device partitions, 1 to 1,024.")
    var partitions = Keyspace.devicePartitionsDefault

    func validate() throws {
        let sizes = 1...Keyspace.sizeMax
        guard sizes.contains(self.shards), sizes.contains(self.partitions) else {
            throw ValidationError("--shards and --partitions are 1 to \(Keyspace.sizeMax)")
        }
    }

    func run() async throws {
        let report = try await RedisAccess.withClient(self.redis) { client in
            try await InstallationSetup(client).perform(queueShards: self.shards, devicePartitions: self.partitions)
        }
        for warning in report.warnings { Console.message("warning: \(warning)") }
        self.output.write(
            report.json,
            else: [
                "Apus is ready: \(report.queueShards) queue shards, \(report.devicePartitions) device partitions, "
                    + "functions apus2 \(report.version)"
            ],
        )
    }
}
