import ApusCommand
import ApusCore
import ApusInstallation
import ApusStreams
import ApusTerminal
import ArgumentParser

extension Device {
    /// `apus device restore`.
    struct Restore: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Bring back devices that were removed because a provider called their tokens dead or bad.",
            discussion: """
                What such a device was is kept for as long as feedback.undo_window says (7 days): its token, user, topics and \
                attributes. A device that has registered again stays as it is, and so does a token that another device has by \
                now; of several in the period that have had a token, the last one gets it. What the app deleted, or wanted changed since, does not come back.

                Say either --app and a device, or --route, for all devices of a route that were removed in a period.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @Option(help: "The app of the device.")
        var app: String?
        @Argument(help: "The device's id.")
        var device: String?
        @Option(help: "All devices of this route: app/provider, or app/provider/environment.")
        var route: String?
        @Option(help: "Of the route's devices those that were removed within this time, such as 90m or 2d.")
        var newerThan: String?
        @Option(help: "Of the route's devices those that were removed before that, such as 1h.")
        var olderThan: String?
        @Flag(help: "Count the route's devices, and change nothing.")
        var dryRun = false

        func validate() throws {
            let isPeriod = self.newerThan != nil || self.olderThan != nil || self.dryRun
            switch (self.app, self.device, self.route) {
            case (let app?, let device?, nil):
                guard !isPeriod else {
                    throw ValidationError(
                        "--newer-than, --older-than and --dry-run are for --route, not for one device"
                    )
                }
                do { _ = try (AppID(app), DeviceID(device)) } catch { throw ValidationError("\(error)") }
            case (nil, nil, _?):
                _ = try self.period
            default: throw ValidationError("say either --app and a device, or --route")
            }
        }

        /// The milliseconds of the period's options.
        private var period: (newerThan: Int64?, olderThan: Int64?) {
            get throws {
                (
                    try self.newerThan.map { try DurationText.milliseconds($0, of: "--newer-than") },
                    try self.olderThan.map { try DurationText.milliseconds($0, of: "--older-than") }
                )
            }
        }

        func run() async throws {
            try await RedisAccess.withInstallation(self.redis) { installation in
                let restoration = DeviceRestoration(installation)
                let reports: [DeviceRestoration.Report]
                if !self.dryRun {
                    try await installation.streams.audit.record(
                        AuditEntry(
                            "device.restore",
                            of: self.route ?? self.device ?? "",
                            app: self.app ?? "",
                            by: .shell
                        )
                    )
                }
                if let route {
                    let now = SystemClock().now()
                    let period = try self.period
                    let newest = now.advanced(byMilliseconds: -(period.olderThan ?? -60_000))
                    let oldest = period.newerThan.map { now.advanced(byMilliseconds: -$0) }
                    let from = min(oldest ?? UnixMilliseconds(0), newest)
                    reports = try await restoration.restore(route, removedIn: from..<newest, isTrial: self.dryRun)
                } else {
                    let (app, device) = (try AppID(self.app ?? ""), try DeviceID(self.device ?? ""))
                    reports = [try await restoration.restore(app, device)]
                }
                self.output.write(
                    ["routes": .array(reports.map { .object($0.json) })],
                    else: reports.map { $0.line(isTrial: self.dryRun) },
                )
                // A device that was named is to be there afterwards; of a route, those whose tokens are others' by now are left alone.
                let failed = reports.reduce(0) { sum, report in
                    sum + report.failed + report.unreadable
                        + (self.device == nil ? 0 : report.tokenTaken + report.forgotten)
                }
                try CommandExit.check(failed: failed, of: reports.reduce(0) { $0 + $1.devices })
            }
        }
    }
}
