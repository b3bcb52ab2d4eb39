import ApusCommand
import ApusCore
import ApusInstallation
import ApusRedis
import ApusTerminal
import ArgumentParser

/// Shows and sets the users of Redis that services and publishers log in as (`apus acl`).
struct AccessControl: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "acl",
        abstract: "Show and set the Redis users of the services and of publishers.",
        discussion: """
            Each of registration, dispatcher, feedback, operator (this command), publisher and app-publisher has a user \
            with the least rights that it needs: its keys, and the commands that it and its functions execute. A \
            publisher may publish for every app; an app-publisher for those that the configuration gives the publisher \
            of its name.
            """,
        subcommands: [Show.self, Set.self],
    )

    /// The user, its name and password.
    struct User: ParsableArguments {
        @Argument(help: "registration, dispatcher, feedback, operator, publisher, app-publisher.", transform: User.user)
        var user: RedisUser
        @Option(
            help:
                """
                The name in Redis. Default: apus- and the user. A publisher reads the receipts in apus:receipts:NAME and \
                apus:receipts:NAME:…. An app-publisher's is the one under `publishers` in the configuration.
                """
        )
        var name: String?

        private static func user(_ text: String) throws -> RedisUser {
            guard let user = RedisUser(rawValue: text) else {
                throw ValidationError("a user is " + RedisUser.allCases.map(\.rawValue).joined(separator: ", "))
            }
            return user
        }
    }

    /// Prints a user as a line of Redis' ACL file (`apus acl show`).
    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print a user as a line for Redis' ACL file.",
            discussion:
                "The password is written as a digest; without --password-file the word PASSWORD stands in its place.",
        )

        @OptionGroup var user: User
        @Option(help: "The file with the password on one line; white space around it does not count.")
        var passwordFile: String?

        func run() throws {
            Console.data(try RedisUserSetup(self.user.user, name: self.user.name, passwordFile: self.passwordFile).line)
        }
    }

    /// Sets a user on every server (`apus acl set`).
    struct Set: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set a user on every server of Redis, replicas included.",
            discussion: """
                Replaces a user of that name, and writes the servers' users to their disks where they can. Run it as an \
                administrator, and again after a server has joined.

                Exit code 2 if a server will forget the user when it restarts, or was skipped because the cluster has \
                marked it as failed.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var user: User
        @Option(help: "The file with the password on one line; white space around it does not count.")
        var passwordFile: String

        func run() async throws {
            let setup = try RedisUserSetup(self.user.user, name: self.user.name, passwordFile: self.passwordFile)
            try await RedisAccess.withClient(self.redis) { client in
                let report = try await setup.apply(on: client)
                for outcome in report.outcomes {
                    if let warning = outcome.warning { Console.message("warning: \(outcome.server): \(warning)") }
                }
                if let warning = SkippedServers.warning(report.skipped, again: "apus acl set") {
                    Console.message("warning: \(warning)")
                }
                let count = report.outcomes.count
                self.output.write(
                    [
                        "user": .string(setup.name), "servers": .array(report.outcomes.map { .string("\($0.server)") }),
                        "skipped": .array(report.skipped.map { .string("\($0)") }),
                        "kept": .bool(report.outcomes.allSatisfy { $0.warning == nil }),
                    ],
                    else: ["\(setup.name) is set on \(count == 1 ? "1 server" : "\(count) servers")"],
                )
                guard report.isWhole else { throw ExitCode(CommandExit.partlyFailed) }
            }
        }
    }
}
