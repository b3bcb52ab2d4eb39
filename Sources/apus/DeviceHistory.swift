import ApusCommand
import ApusCore
import ApusInstallation
import ApusStore
import ApusTerminal
import ArgumentParser

extension Device {
    /// Shows the history of a device (`apus device history`).
    struct History: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the recent history of a device: why it did not get a notification.",
            discussion: """
                Recorded: the consequences of the provider's statements about its token (pruned, kept, suspected, \
                moved); every outcome of sends that name up to \(Limits.directRecipientsMax) devices or users; \
                refusals of other sends, when their publisher asked for receipts per recipient; its removal after a \
                long silence; and, once there is one of those, each registration and change of user.

                Not recorded: accepted notifications of sends to an audience or to more names: `apus watch SEND` \
                counts them. A device keeps its last \(StoreLimits.historyEventsMax) events, for the time in \
                feedback.keep_history (7 days), and an app at most feedback.histories histories (100,000): beyond \
                that, those without a failure are removed first. feedback.history: false turns it off. When the app \
                deletes the device or its user, the history is deleted, too.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var name: Name

        func run() async throws {
            try await RedisAccess.withInstallation(self.redis) { installation in
                let (app, id) = (try AppID(self.name.app), try DeviceID(self.name.device))
                let device = try await installation.store.get(app, id)
                let events = try await installation.store.history(app, id)
                guard device != nil || !events.isEmpty else {
                    throw CommandFailure("\(self.name.app) has neither a device \(self.name.device) nor its history")
                }
                let history = DeviceHistory(id: self.name.device, device: device, events: events)
                self.output.write(history.json, else: history.lines)
            }
        }
    }
}
