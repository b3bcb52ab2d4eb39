import ApusCommand
import ApusConsole
import ApusCore
import ApusInstallation
import ApusRegistration
import ApusStore
import ArgumentParser

/// `apus store`: the device store as a whole.
struct Store: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check the device store, and carry devices from one to another.",
        subcommands: [Check.self, Export.self, Import.self],
    )

    /// Which app.
    struct Place: ParsableArguments {
        @Option(help: "The app.", transform: { try AppID($0) })
        var app: AppID
    }

    /// `apus store check`.
    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Read all of an app's devices and tell what contradicts itself.",
            discussion: """
                Every record is reached by its id, its token and its user, no token is there twice, postings, badges and counters \
                agree. Safe on a live store: what is found is looked at three times. Reads everything, 64 records at a time, \
                and all names of keys once. Exit code 1 when something is wrong.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @Flag(help: "Put right what the records decide, and check again.")
        var mend = false

        func run() async throws {
            let report = try await RedisAccess.withInstallation(self.redis.url) { installation in
                try await StoreReport.run(installation.store, self.place.app, mends: self.mend) { done, all in
                    if Console.isInteractive {
                        Console.message(raw: "\r\(done) of \(all) partitions\(done == all ? "\n" : "")")
                    }
                }
            }
            self.output.write(report.json, else: report.lines)
            guard report.isClean else { throw ExitCode(CommandExit.failed) }
        }
    }

    /// `apus store export`.
    struct Export: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Write all of an app's devices to standard output, one JSON object a line (NDJSON).",
            discussion: "With their tokens: keep it as safe as the store. What an import takes, here and by HTTP.",
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var place: Place

        func run() async throws {
            let count = try await RedisAccess.withInstallation(self.redis.url) { installation in
                var count = 0
                try await installation.store.forEachDevice(self.place.app) { devices in
                    var text: [UInt8] = []
                    for device in devices { DeviceLine.append(device, to: &text) }
                    count += devices.count
                    // The last line's end is written by the console.
                    Console.data(String(decoding: text.dropLast(), as: UTF8.self))
                }
                return count
            }
            Console.message("\(count) devices")
        }
    }

    /// `apus store import`.
    struct Import: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Register the devices of an export, from standard input.",
            discussion: """
                Safe to repeat and to go on with after an interruption; a device that registered later than its line says stays. \
                Exit code 2 when lines were refused.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @Option(
            name: .customLong("webpush-host"),
            help: "A host of Web Push endpoints beside those of the known push services; may be repeated.",
        )
        var webPushHosts: [String] = []

        func run() async throws {
            let taken = try await RedisAccess.withInstallation(self.redis.url) { installation in
                var work = StoreImport(installation.store, app: self.place.app, webPushHosts: self.webPushHosts)
                try await work.run { readLine().map { Array($0.utf8) } }
                return work
            }
            self.output.write(taken.json, else: taken.text)
            guard taken.refused == 0 else { throw ExitCode(CommandExit.partlyFailed) }
        }
    }
}
