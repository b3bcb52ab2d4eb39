import ApusBuiltInProviders
import ApusTerminal
import ArgumentParser

/// The operator's command `apus`.
@main
struct Apus: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apus",
        abstract: "Send push notifications through Apus, and operate it.",
        discussion: """
            Redis and its user are read where the services read them (--config, APUS_CONFIG, /etc/apus/apus.yaml, \
            APUS_REDIS_URL), or named by --redis or a context: see apus context. Data goes to standard output, messages to standard error; \
            --json makes the data JSON. Exit codes: 0 done, 1 failed, 2 partly failed, 64 wrong usage.

            The demo, the simulated providers, load tests and drills are in apus-lab: see apus-lab --help.
            """,
        version: "0.1.0",
        groupedSubcommands: [
            CommandGroup(
                name: "Sending",
                subcommands: [
                    Send.self, Sends.self, Watch.self, Pause.self, Resume.self, Cancel.self, Rate.self, Recall.self,
                    Audience.self,
                ]
            ),
            CommandGroup(
                name: "Devices and providers",
                subcommands: [
                    Device.self, Store.self, Topics.self, Groups.self, Channel.self, WebPush.self,
                ]
            ),
            CommandGroup(
                name: "Operating",
                subcommands: [
                    Lag.self, Services.self, Doctor.self, Cluster.self, Dead.self, Quarantine.self, Audit.self,
                ]
            ),
            CommandGroup(
                name: "Setting up",
                subcommands: [
                    Init.self, AccessControl.self, Context.self, Key.self, Config.self, Credentials.self, Metrics.self,
                    Dashboards.self,
                ]
            ),
        ],
    )

    /// Installs the built-in providers before any command runs.
    static func main() async {
        BuiltInProviders.install()
        let arguments = Array(CommandLine.arguments.dropFirst())
        if let sentence = CommandSuggestion.sentence(about: arguments, of: Self.self) {
            Console.message("Error: \(sentence)")
            Self.exit(withError: ExitCode.validationFailure)
        }
        await self.main(nil)
    }
}
