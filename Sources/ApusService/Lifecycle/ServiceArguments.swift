internal import ApusMetrics

/// The command line of a service: few words, since the configuration says the rest.
struct ServiceArguments: Hashable {
    /// What is asked for.
    enum Wish: Hashable {
        /// Serve.
        case run
        /// Only look whether the configuration is valid.
        case check
        /// Print the usage.
        case help
        /// Print the version.
        case version
    }

    /// A word that is not understood.
    struct Misuse: Error, Hashable {
        let message: String
    }

    var wish = Wish.run
    var file: String?

    init(_ words: [String]) throws(Misuse) {
        var words = words[...]
        while let word = words.popFirst() {
            switch word {
            case "--config":
                guard let path = words.popFirst() else { throw Misuse(message: "--config needs a file") }
                self.file = path
            case _ where word.hasPrefix("--config="): self.file = String(word.dropFirst("--config=".count))
            case "--check": self.wish = .check
            case "--help", "-h": self.wish = .help
            case "--version": self.wish = .version
            default: throw Misuse(message: "\(word) is not an option")
            }
        }
    }

    static func usage(_ programName: String) -> String {
        """
        usage: \(programName) [--config FILE] [--check] [--version] [--help]

          --config FILE   the configuration; else $APUS_CONFIG, else \(SettingsSource.standardFile) if it is there
          --check         read the configuration, say what is wrong with it, and end
          --version       print the version
          --help          print this

        Every key of the configuration can be set in the environment too: redis.url as APUS_REDIS_URL.
        SIGHUP reads the configuration again. SIGTERM and SIGINT finish what is under way; a second one ends at once.
        Exit codes: 0 done, 1 failed, 64 wrong usage or configuration.
        """
    }

    /// Where the settings come from, by the command line, the environment and the standard place.
    func source(environment: [String: String]) -> SettingsSource {
        SettingsSource(given: self.file, environment: environment)
    }
}
