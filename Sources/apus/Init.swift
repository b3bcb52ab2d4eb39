import ApusCommand
import ApusRedis
import ApusTerminal
import ArgumentParser

/// Initialises Redis, or updates the functions of an installation (`apus init`).
struct Init: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Prepare Redis: sizes and server-side functions.",
        discussion: """
            It may be repeated. The sizes are fixed at the first run, and those that are there count when none are given; \
            functions are replaced by newer ones, on every master of a cluster.
            """,
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Option(
        help: """
            Queue shards, 1 to 1,024. Default: \(Keyspace.queueShardsDefault), in a Redis Cluster \
            \(Keyspace.queueShardsOfCluster).
            """
    )
    var queueShards: Int?
    @Option(help: "Device partitions, 1 to 1,024. Default: \(Keyspace.devicePartitionsDefault).")
    var devicePartitions: Int?

    func validate() throws {
        let sizes = 1...Keyspace.sizeMax
        guard sizes.contains(self.queueShards ?? 1), sizes.contains(self.devicePartitions ?? 1) else {
            throw ValidationError("--queue-shards and --device-partitions are 1 to \(Keyspace.sizeMax)")
        }
    }

    func run() async throws {
        let report = try await RedisAccess.withClient(self.redis) { client in
            try await InstallationSetup(client).perform(
                queueShards: self.queueShards,
                devicePartitions: self.devicePartitions,
            )
        }
        for warning in report.warnings { Console.message("warning: \(warning)") }
        self.output.write(
            report.json,
            else: [
                "Apus is ready: \(NumberText.counted(report.queueShards, "queue shard", "queue shards")), "
                    + "\(NumberText.counted(report.devicePartitions, "device partition", "device partitions")), "
                    + "functions apus2 \(report.version)"
            ],
        )
    }
}
