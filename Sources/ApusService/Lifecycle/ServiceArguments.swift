internal import ApusMetrics

/// Parses the command line of a service.
struct ServiceArguments: Hashable {
    /// The task that the command line asks for.
    enum Command: Hashable {
        /// Run the service.
        case run
        /// Check the configuration.
        case check
        /// Print the usage.
        case help
        /// Print the version.
        case version
    }

    /// Reports an argument that is not understood.
    struct UsageError: Error, Hashable, CustomStringConvertible {
        let message: String

        var description: String { self.message }
    }

    var command = Command.run
    var file: String?

    init(_ words: [String]) throws(UsageError) {
        var words = words[...]
        while let word = words.popFirst() {
            switch word {
            case "--config":
                guard let path = words.popFirst() else { throw UsageError(message: "--config needs a file") }
                self.file = path
            case _ where word.hasPrefix("--config="): self.file = String(word.dropFirst("--config=".count))
            case "--check": self.command = .check
            case "--help", "-h": self.command = .help
            case "--version": self.command = .version
            default: throw UsageError(message: "\(word) is not an option")
            }
        }
    }

    static func usage(_ programName: String) -> String {
        """
        usage: \(programName) [--config FILE] [--check] [--version] [--help]

          --config FILE   the configuration; else $APUS_CONFIG, else \(SettingsSource.defaultFile) if it is there
          --check         read the configuration, say what is wrong with it, and end
          --version       print the version
          --help          print this

        Every key of the configuration can be set in the environment too: redis.url as APUS_REDIS_URL.
        SIGHUP reads the configuration again. SIGTERM and SIGINT finish what is under way; a second one ends at once.
        Exit codes: 0 done, 1 failed, 64 wrong usage or configuration.
        """
    }

    /// Returns the source of the settings: the command line, the environment or the default file.
    func source(environment: [String: String]) -> SettingsSource {
        SettingsSource(given: self.file, environment: environment)
    }
}
