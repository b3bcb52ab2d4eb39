import ApusBuiltInProviders
import ArgumentParser

/// The operator's command `apus`.
@main
struct Apus: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apus",
        abstract: "Send push notifications through Apus, and operate it.",
        discussion: """
            Redis is named by --redis or APUS_REDIS_URL. Data goes to standard output, messages to standard error; \
            --json makes the data JSON. Exit codes: 0 done, 1 failed, 2 partly failed, 64 wrong usage.

            The demo, the simulated providers, load tests and drills are in apus-lab: see apus-lab --help.
            """,
        version: "0.1.0",
        subcommands: [
            Init.self, Send.self, Watch.self, Pause.self, Resume.self, Cancel.self, Recall.self, Rate.self, Device.self,
            Key.self,
            Audience.self, Store.self, Topics.self, Groups.self, Channel.self, WebPush.self, Lag.self, Services.self,
            Dead.self,
            Quarantine.self,
            Config.self, Credentials.self, Doctor.self, Metrics.self,
            Dashboards.self,
        ],
    )

    /// Installs the built-in providers before any command runs.
    static func main() async {
        BuiltInProviders.install()
        await self.main(nil)
    }
}
