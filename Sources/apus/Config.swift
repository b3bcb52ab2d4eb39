import ApusCommand
import ApusConsole
import ApusCore
import ApusService
import ArgumentParser

/// `apus config`: the services' configuration.
struct Config: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Look at the configuration of the services.",
        subcommands: [Check.self, Show.self, Schema.self],
    )

    /// Which one.
    struct FileOptions: ParsableArguments {
        @Option(help: "The configuration; else $APUS_CONFIG, else /etc/apus/apus.yaml.")
        var config: String?
    }

    /// `apus config check`.
    struct Check: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Tell every mistake in the configuration, and which services it keeps from starting.",
            discussion: "Reads file and environment as the services do. Exit code 1 if there is a mistake.",
        )

        @OptionGroup var file: FileOptions
        @OptionGroup var output: OutputOptions

        func run() throws {
            let check = ConfigurationCheck(ConfigurationAccess.source(file: self.file.config))
            self.output.write(check.json, else: check.lines)
            guard check.mistakes.isEmpty else { throw ExitCode(CommandExit.failed) }
        }
    }

    /// `apus config show`.
    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the settings as they count, and where each value is from.",
            discussion: """
                A value is from the environment before the file before the default, and from a service's own section before \
                what is for all. Secrets are not shown. Exit code 1 if there is a mistake: apus config check tells which.
                """,
        )

        @OptionGroup var file: FileOptions
        @OptionGroup var output: OutputOptions
        @Option(help: "Only as this service reads it: registration, dispatcher or feedback.", transform: Self.service)
        var service: ServiceName?
        @Flag(help: "Only what somebody gave, not the defaults.")
        var given = false

        private static func service(_ text: String) throws -> ServiceName {
            guard let service = ServiceName(rawValue: text) else {
                throw ValidationError("--service is \(ServiceName.allCases.map(\.rawValue).joined(separator: ", "))")
            }
            return service
        }

        func run() throws {
            let services = self.service.map { [$0] } ?? ServiceName.allCases
            let source = ConfigurationAccess.source(file: self.file.config)
            let listing: ConfigurationListing
            do {
                listing = try ConfigurationListing(source, of: services)
            } catch {
                throw CommandFailure("\(error)")
            }
            let rows = self.given ? listing.given : listing.rows
            self.output.write(ConfigurationListing.json(rows), else: ConfigurationListing.table(rows).lines)
            guard listing.isValid else {
                Console.message("the configuration has mistakes: apus config check tells which")
                throw ExitCode(CommandExit.failed)
            }
        }
    }

    /// `apus config schema`.
    struct Schema: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Write a JSON Schema of the configuration.",
            discussion: "For editors (yaml-language-server: $schema=…) and for checks before a deployment.",
        )

        func run() throws {
            Console.data(JSONValue.object(try ConfigurationSchema.document()).text)
        }
    }
}
