import ApusCommand
import ApusCore
import ApusRedis
import ApusTerminal
import ArgumentParser

/// Shows and changes how an installation lies in a Redis Cluster (`apus cluster`).
struct Cluster: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Look at the nodes of a Redis Cluster, and spread the data over them.",
        subcommands: [Status.self, Plan.self],
    )

    /// Lists the nodes of a cluster (`apus cluster status`).
    struct Status: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the nodes with their shards, memory and replication, and what is wrong with them.",
            discussion: """
                Asks every node. OFFSET is the position in the stream of replication, LAG the bytes by which a replica is \
                behind its master. Settings and users are compared as far as this user may read them.

                Exit code 2 if something is wrong.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            try await RedisAccess.withClient(self.redis) { client in
                guard client.configuration.deployment == .cluster else {
                    throw CommandFailure(
                        "Redis is one server, and apus doctor looks at it; a cluster is named with redis+cluster:// or rediss+cluster://"
                    )
                }
                let report = try await ClusterReport(client)
                self.output.write(report.json, else: report.lines)
                guard !report.hasConcerns else { throw ExitCode(CommandExit.partlyFailed) }
            }
        }
    }

    /// Plans and makes moves of slots (`apus cluster plan`).
    struct Plan: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Plan the moves that spread the data evenly over the masters, and make them.",
            discussion: """
                Only slots that hold a queue shard or a device partition move, and no more of them than needed. Without --apply \
                nothing is changed. With it slots move one after the other while everything runs: what needs a slot waits \
                until it has moved, then goes on. Masters that have just joined need the functions and the users of the others \
                first: apus init, apus acl set. Without them they get nothing, as far as this user may read who is there.

                It may be interrupted: the slot under way is ended first, and the next --apply goes on. The user of Redis must \
                be an administrator's, who may CLUSTER SETSLOT and MIGRATE; it must be the same on all masters.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @Flag(help: "Make the moves.")
        var apply = false
        @Option(
            help: ArgumentHelp(
                "Leave this master without any slot, so that it can be taken away; repeatable.",
                valueName: "host:port"
            ),
            transform: Plan.endpoint
        )
        var without: [RedisEndpoint] = []

        func run() async throws {
            let (redis, output) = (self.redis, self.output)
            let (leaving, applies) = (Set(self.without), self.apply)
            try await Interruption.whileWatching {
                try await RedisAccess.withClient(redis) { client in
                    let rebalance = try await ClusterRebalance(client, leaving: leaving)
                    guard applies, rebalance.count > 0 else {
                        output.write(
                            rebalance.json,
                            else: rebalance.lines + (rebalance.count > 0 ? ["--apply makes these moves"] : [])
                        )
                        return
                    }
                    try rebalance.checkTargets()
                    output.write(rebalance.json, else: rebalance.lines)
                    var display = ProgressDisplay(label: "moved")
                    let start = ContinuousClock.now
                    func line(_ done: Int) -> String {
                        "\(NumberText.grouped(done))/\(NumberText.grouped(rebalance.count)) slots"
                    }
                    do {
                        let keys = try await rebalance.apply { done in
                            display.show(line(done), at: (ContinuousClock.now - start) / .seconds(1))
                        }
                        let seconds = NumberText.duration(seconds: (ContinuousClock.now - start) / .seconds(1))
                        display.finish("\(line(rebalance.count)), \(NumberText.grouped(keys)) keys, in \(seconds)")
                    } catch is CancellationError {
                        throw CommandFailure("interrupted between two slots: run it again to go on")
                    }
                }
            }
        }

        private static func endpoint(_ text: String) throws -> RedisEndpoint {
            guard let configuration = try? RedisConfiguration(url: "redis://\(text)"), configuration.username == nil,
                configuration.password == nil, case .host = configuration.endpoint, text.contains(":")
            else {
                throw ValidationError(
                    "--without is the address of a master, as apus cluster status shows it: 10.0.0.1:6379"
                )
            }
            return configuration.endpoint
        }
    }
}
