import ApusCommand
import ApusCore
import ApusInstallation
import ApusRegistration
import ApusStore
import ApusStreams
import ApusTerminal
import ArgumentParser

/// Checks, exports and imports the device store (`apus store`).
struct Store: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check the device store, and move devices from one store to another.",
        subcommands: [Check.self, Export.self, Import.self],
    )

    /// The app.
    struct Place: ParsableArguments {
        @Option(help: "The app.", transform: { try AppID($0) })
        var app: AppID

        /// Checks that there is such an app.
        func check(_ installation: Installation, _ redis: RedisOptions) async throws {
            try await KnownApps(installation.streams, configuration: redis.settings()).check(self.app)
        }
    }

    /// Checks the store (`apus store check`).
    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Read all devices of an app and report inconsistencies.",
            discussion: """
                It checks that every record is found by its id, its token and its user, that tokens are unique, and \
                that indexes, badges and counters agree. It is safe on a live store: findings are checked three \
                times. It reads everything, 64 records at a time, and all names of keys once. Exit code 1 when \
                something is wrong.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @Flag(help: "Repair what the records decide, and check again.")
        var repair = false

        func run() async throws {
            let report = try await RedisAccess.withInstallation(self.redis) { installation in
                if self.repair {
                    try await installation.streams.audit.record(
                        AuditEntry("store.repair", of: "", app: self.place.app.text, by: .shell)
                    )
                }
                let report = try await installation.withGuardedStore { store in
                    try await StoreReport.run(store, self.place.app, repairs: self.repair) { done, all in
                        if Console.isInteractive {
                            Console.message(raw: "\r\(done) of \(all) partitions\(done == all ? "\n" : "")")
                        }
                    }
                }
                // An app that has devices is known, whoever forgot it.
                if report.isEmpty { try await self.place.check(installation, self.redis) }
                return report
            }
            self.output.write(report.json, else: report.lines)
            guard report.isClean else { throw ExitCode(CommandExit.failed) }
        }
    }

    /// Exports devices (`apus store export`).
    struct Export: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Write all of an app's devices to standard output, one JSON object a line (NDJSON).",
            discussion:
                "The output contains tokens: keep it as safe as the store. It can be imported, here and by HTTP.",
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var place: Place

        func run() async throws {
            let count = try await RedisAccess.withInstallation(self.redis) { installation in
                var count = 0
                try await installation.store.forEachDevice(self.place.app) { devices in
                    Console.data(
                        devices.map { device in
                            var line: [UInt8] = []
                            DeviceLine.append(device, to: &line)
                            // The console writes the line's end.
                            return String(decoding: line.dropLast(), as: UTF8.self)
                        }
                    )
                    count += devices.count
                }
                // An app that has devices is known, whoever forgot it.
                if count == 0 { try await self.place.check(installation, self.redis) }
                return count
            }
            Console.message("\(count) devices")
        }
    }

    /// Imports devices (`apus store import`).
    struct Import: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Register the devices of an export, of Apus or of another system, from standard input.",
            discussion: """
                It may be repeated and continued after an interruption, also with a newer export: a device that registered, logged in or \
                logged out later than its line says is kept, and so is one whose line was taken before, whatever it has changed since, \
                unless --again is given. A line without a time is of the time that --as-of gives; without that it creates a device that is \
                not there, with a token that no other device has, and changes none. Exit code 2 when lines were refused.

                A device that was removed more than an hour ago is brought back by its line, also one of a user who was forgotten: import a \
                new export, or leave those lines out.

                --format parse reads the class _Installation of Parse Server (mongoexport, or one object of the REST answer a line): \
                channels become topics. --format pinpoint reads the endpoints of an Amazon Pinpoint export, unzipped; those that opted out, \
                that are inactive, or that are no push channel are left out and counted. --format csv reads comma-separated values whose \
                first line names the columns: \(ForeignExport.columns.joined(separator: ", ")). Several topics or tags are separated by \
                semicolons.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var place: Place
        @Option(
            name: .customLong("webpush-host"),
            help: """
                A host of Web Push endpoints besides those of the known push services and of the configuration's webpush.hosts; may \
                be repeated.
                """,
        )
        var endpointHosts: [String] = []
        @Option(
            help: ArgumentHelp("The form of the lines.", valueName: CommandWords.joined(ImportFormat.self)),
            completion: CommandWords.completion(ImportFormat.self),
            transform: { try CommandWords.value($0, of: ImportFormat.self, "--format") }
        )
        var format: ImportFormat = .apus
        @Flag(help: "Apple's tokens are of the sandbox, unless a line says otherwise.")
        var sandbox = false
        @Option(
            help: ArgumentHelp(
                "The attribute (pinpoint), member (parse) or column (csv) whose values become topics.",
                valueName: "name"
            )
        )
        var topicsFrom: String?
        @Option(
            help: ArgumentHelp(
                "The time of lines without one, such as that of the export: 2026-11-21T09:30:00Z, or a duration before now such as 2h.",
                valueName: "time"
            ),
            transform: { try Self.time($0) }
        )
        var asOf: UnixMilliseconds?

        @Flag(
            help: """
                Carry out again what was taken before, such as with another --topics-from, also over what devices have changed since. One \
                that registered later is kept.
                """
        )
        var again = false

        private static func time(_ text: String) throws -> UnixMilliseconds {
            let now = SystemClock().now()
            let duration = DurationText.milliseconds(text)
            let time = duration.map { now.advanced(byMilliseconds: -$0) } ?? UnixMilliseconds(timestamp: text)
            guard let time, (UnixMilliseconds(1)...now).contains(time) else {
                let form = "a time such as 2026-11-21T09:30:00Z, or a duration before now such as 90s, 5m, 2h or 1d"
                throw ValidationError("--as-of is \(form), and has passed")
            }
            return time
        }

        func validate() throws {
            guard self.format != .apus || !self.sandbox && self.topicsFrom == nil else {
                throw ValidationError("--sandbox and --topics-from are for --format parse, pinpoint and csv")
            }
        }

        func run() async throws {
            let export = ForeignExport(self.format, isSandbox: self.sandbox, topicsFrom: self.topicsFrom)
            let taken = try await RedisAccess.withInstallation(self.redis) { installation in
                try await self.place.check(installation, self.redis)
                let format = "format \(self.format.rawValue)"
                try await installation.streams.audit.record(
                    AuditEntry("store.import", of: "", app: self.place.app.text, detail: format, by: .shell)
                )
                let settings = try self.redis.settings()
                let configured = ConfigurationAccess.endpointHosts(of: self.place.app, in: settings)
                return try await installation.withGuardedStore { store in
                    var work = StoreImport(
                        store,
                        app: self.place.app,
                        endpointHosts: configured + self.endpointHosts,
                        export: export,
                        undated: self.asOf.map { .asOf($0) } ?? .createOnly,
                        overwrites: self.again,
                    )
                    try await work.run { readLine().map { Array($0.utf8) } }
                    return work
                }
            }
            self.output.write(taken.json, else: taken.text)
            guard taken.refused == 0 else { throw ExitCode(CommandExit.partlyFailed) }
        }
    }
}
