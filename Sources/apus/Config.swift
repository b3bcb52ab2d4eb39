import ApusCommand
import ApusCore
import ApusService
import ApusTerminal
import ArgumentParser

/// Shows the services' configuration (`apus config`).
struct Config: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check and show the configuration of the services.",
        subcommands: [Check.self, Show.self, Schema.self],
    )

    /// Checks a configuration (`apus config check`).
    struct Check: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Report every mistake in the configuration, and which services cannot start because of it.",
            discussion: """
                Reads file and environment as the services do, and the keys, accounts and certificates that they name. Exit \
                code 1 if there is a mistake. Warns, with exit code 0, when no file was read, of apps without a provider, of \
                secret files that others may read, of Redis elsewhere without TLS or a password, and of ports that answer \
                beyond this machine without TLS.
                """,
        )

        @OptionGroup var file: ConfigurationOptions
        @OptionGroup var output: OutputOptions

        func run() throws {
            let check = try ConfigurationCheck(self.file.settings())
            self.output.write(check.json, else: check.lines)
            guard check.mistakes.isEmpty else { throw ExitCode(CommandExit.failed) }
        }
    }

    /// Shows the effective settings (`apus config show`).
    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the effective settings, and the origin of each value.",
            discussion: """
                The environment takes precedence over the file, the file over the default, and a service's own \
                section over the common one. Secrets are not shown. Exit code 1 if there is a mistake: apus config \
                check reports it.
                """,
        )

        @OptionGroup var file: ConfigurationOptions
        @OptionGroup var output: OutputOptions
        @Option(
            help: "Only the settings of this service: registration, dispatcher or feedback.",
            transform: Self.service
        )
        var service: ServiceName?
        @Flag(help: "Only given values, not the defaults.")
        var given = false

        private static func service(_ text: String) throws -> ServiceName {
            guard let service = ServiceName(rawValue: text) else {
                throw ValidationError("--service is \(ServiceName.allCases.map(\.rawValue).joined(separator: ", "))")
            }
            return service
        }

        func run() throws {
            let services = self.service.map { [$0] } ?? ServiceName.allCases
            let source = try self.file.settings()
            let listing: ConfigurationListing
            do {
                listing = try ConfigurationListing(source, of: services)
            } catch {
                throw CommandFailure("\(error)")
            }
            let rows = self.given ? listing.given : listing.rows
            self.output.write(ConfigurationListing.json(rows), else: ConfigurationListing.table(rows).lines)
            guard listing.isValid else {
                Console.message("the configuration has mistakes: apus config check reports them")
                throw ExitCode(CommandExit.failed)
            }
        }
    }

    /// Writes the schema (`apus config schema`).
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
