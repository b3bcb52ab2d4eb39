import ArgumentParser

/// The program for trying Apus out, measuring and developing it: nothing in it is needed to run an installation.
@main
struct Lab: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apus-lab",
        abstract: "Try Apus on one machine: demo, simulated providers, load tests, benchmarks and drills.",
        discussion: """
            Data goes to standard output, messages to standard error; --json makes the data JSON. Exit codes: 0 done, \
            1 failed, 64 wrong usage. To send and to operate an installation, use apus.
            """,
        version: "0.1.0",
        subcommands: [QuickStart.self, Demo.self, Simulate.self, LoadTest.self],
    )
}
