import ApusCommand
import ApusCore
import ApusInstallation
import ApusProviderCommands
import ApusStreams
import ApusTerminal
import ArgumentParser

extension Device {
    /// Exchanges tokens of Apple for FCM's (`apus device import-apns`).
    struct ImportTokens: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "import-apns",
            abstract: "Register Apple devices at FCM instead, from standard input.",
            discussion: """
                Each line is a device with provider apns, as apus store export writes it and apus store import reads it. FCM gives a \
                registration token for Apple's, and the device is registered with that. One that has registered, logged in or logged out \
                since its line was written is not moved: export and import it again. Google takes no new projects for this, and removes it \
                on 2027-09-29. Exit code 2 when lines were refused, or devices not moved.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @Option(help: "The app.", transform: { try AppID($0) })
        var app: AppID
        @Option(help: "The bundle id of the tokens' app. Default: apns.topic of the configuration.")
        var bundleID: String?

        func run() async throws {
            let settings = try self.redis.settings()
            let access = try ProviderAccess(app: self.app, configuration: settings)
            var exchange = try APNsTokenImport(access, bundleID: self.bundleID)
            let hosts = ConfigurationAccess.endpointHosts(of: self.app, in: settings)
            let (taken, notMoved) = try await RedisAccess.withInstallation(self.redis) { installation in
                try await installation.streams.audit.record(
                    AuditEntry("device.import_apns", of: "", app: self.app.text, by: .shell)
                )
                return try await installation.withGuardedStore { store in
                    var work = StoreImport(store, app: self.app, endpointHosts: hosts)
                    var notMoved = 0
                    try await exchange.run({ readLine().map { Array($0.utf8) } }) { lines, areExchanged in
                        let before = work.outdated
                        var rest = lines[...]
                        try await work.runNumbered { rest.popFirst() }
                        if areExchanged { notMoved += work.outdated - before }
                    }
                    return (work, notMoved)
                }
            }
            var json = taken.json
            json["lines"] = .integer(exchange.lines)
            json["exchanged"] = .integer(exchange.exchanged)
            json["not_moved"] = .integer(notMoved)
            json["not_exchanged"] = .array(
                exchange.refusals.map { ["line": .integer($0.line), "rule": .string($0.word)] }
            )
            var text = exchange.refusals.map { "line \($0.line): \($0.word)" } + taken.text
            text.append("\(exchange.exchanged) of \(exchange.lines) tokens exchanged")
            if notMoved > 0 {
                text.append(
                    "\(notMoved) devices not moved: they have changed since their lines were written; export and import them again"
                )
            }
            self.output.write(json, else: text)
            guard taken.refused == 0, exchange.refusals.isEmpty, notMoved == 0 else {
                throw ExitCode(CommandExit.partlyFailed)
            }
        }
    }
}
