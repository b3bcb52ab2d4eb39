import ApusCommand
import ApusCore
import ApusTerminal
import ArgumentParser

/// Shows the credentials of a configuration (`apus credentials`).
struct Credentials: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check the keys and accounts that dispatchers use.",
        subcommands: [Check.self],
    )

    /// Checks the credentials (`apus credentials check`).
    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Read every key and account of a configuration, and test whether the providers accept them.",
            discussion: """
                The test reaches no device: it uses a token that no device has, or a request that is validate-only. Push services of browsers \
                cannot be asked so: a VAPID key is usable when it can sign. Exit code 1 if all credentials are bad, 2 if some are.

                An app's section apns has team_id, key_id and key_file. A key for only one environment is marked by \
                key_environment, with sandbox_key_id and sandbox_key_file for the other; a key for some bundle ids \
                by topics. Instead, certificate_file names a client certificate: PEM with its key, or with \
                certificate_key_file; or PKCS#12, with certificate_password_file.
                """,
        )

        @OptionGroup var redis: RedisOptions
        @OptionGroup var output: OutputOptions
        @Flag(help: "Only read the files; do not connect to providers.")
        var offline = false

        func run() async throws {
            let report = try await CredentialReport.make(
                redis: self.redis,
                asksProviders: !self.offline,
            )
            if report.findings.isEmpty { Console.message("the configuration has no providers") }
            self.output.write(
                report.json,
                else: report.findings.isEmpty ? [] : report.table(now: SystemClock().now()).lines,
            )
            try CommandExit.check(failed: report.failures, of: report.findings.count)
        }
    }
}
