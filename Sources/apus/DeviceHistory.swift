import ApusCommand
import ApusConsole
import ApusCore
import ApusInstallation
import ApusStore
import ArgumentParser

extension Device {
    /// `apus device history`.
    struct History: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show what became of a device lately: why it did not get a notification.",
            discussion: """
                Recorded: what the provider's verdicts about its token led to (pruned, kept, suspected, moved); every outcome of \
                sends that name up to \(Limits.directRecipientsMax) devices or users; what was not accepted of others, when their \
                publisher asked for receipts per recipient; its removal after a long silence; and, once there is one of those, \
                each registration and change of user.

                Not recorded: what was accepted of a send to an audience or to more names: `apus watch SEND` has its counts. A \
                device keeps its last \(StoreLimits.historyEventsMax) events, for as long as feedback.keep_history says (7 days), \
                and an app so many histories as feedback.histories says (100,000): beyond, those of devices to which nothing \
                bad happened go first. feedback.history: false turns it off. When the app deletes the device or its user, the \
                history goes, too.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var name: Name

        func run() async throws {
            try await RedisAccess.withInstallation(self.redis.url) { installation in
                let (app, id) = (try AppID(self.name.app), try DeviceID(self.name.device))
                let device = try await installation.store.get(app, id)
                let events = try await installation.store.history(app, id)
                guard device != nil || !events.isEmpty else {
                    throw CommandFailure("nothing is known of a device \(self.name.device) of \(self.name.app)")
                }
                let history = DeviceHistory(id: self.name.device, device: device, events: events)
                self.output.write(history.json, else: history.lines)
            }
        }
    }
}
