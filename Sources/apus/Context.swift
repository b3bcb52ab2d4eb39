import ApusCore
import ApusTerminal
import ArgumentParser
import FoundationEssentials

/// Names installations and chooses one of them (`apus context`).
struct Context: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Name installations, and choose the one that commands act on.",
        discussion: """
            A context holds the address of a Redis with its user, password file and CA, or the path of a configuration that \
            has them. Commands act on, in this order: --redis, --config, --context, APUS_REDIS_URL or APUS_CONFIG, \
            APUS_CONTEXT, the context in use, /etc/apus/apus.yaml, Redis on this machine.

            The contexts are kept in $XDG_CONFIG_HOME/apus/contexts.json, by default ~/.config/apus/contexts.json, which \
            only you may read.
            """,
        subcommands: [Add.self, Use.self, List.self, Remove.self],
    )

    /// Adds or replaces a context (`apus context add`).
    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Add a context, or replace the one of that name.")

        @Argument(help: "The name: 1 to 64 letters, digits, and . _ -", transform: Context.name)
        var name: String
        @Option(
            help: """
                Redis: redis://, rediss://, unix:///path, redis+cluster:// or redis+sentinel://, with rediss+ for TLS to \
                a cluster or to Sentinels.
                """
        )
        var redis: String?
        @Option(help: "The ACL user of Redis.")
        var user: String?
        @Option(help: "The file with the user's password.")
        var passwordFile: String?
        @Option(help: "The file with the CA certificates that the certificate of Redis is verified with.")
        var caFile: String?
        @Option(help: "The services' configuration; it also names Redis, unless --redis does.")
        var config: String?
        @Flag(help: "Use it from now on.")
        var use = false

        func validate() throws {
            guard self.redis != nil || self.config != nil else {
                throw ValidationError("a context needs --redis or --config")
            }
            guard self.redis != nil || self.user == nil && self.passwordFile == nil && self.caFile == nil else {
                throw ValidationError("--user, --password-file and --ca-file belong to --redis")
            }
        }

        func run() throws {
            var file = try ContextFile()
            var context = InstallationContext()
            context.redis = self.redis
            context.user = self.user
            context.passwordFile = self.passwordFile.map(Context.absolute)
            context.caFile = self.caFile.map(Context.absolute)
            context.config = self.config.map(Context.absolute)
            _ = try RedisChoice(of: context, named: self.name).configuration()
            file.contexts[self.name] = context
            if self.use || file.contexts.count == 1 { file.current = self.name }
            try file.save()
            Console.message(
                file.current == self.name
                    ? "\(self.name) is in use" : "added; apus context use \(self.name) makes commands act on it"
            )
        }
    }

    /// Chooses a context (`apus context use`).
    struct Use: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Make commands act on a context from now on.")

        @Argument(help: "The context.")
        var name: String

        func run() throws {
            var file = try ContextFile()
            _ = try file.context(self.name)
            file.current = self.name
            try file.save()
        }
    }

    /// Lists the contexts (`apus context list`).
    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the contexts; an asterisk marks the one in use."
        )

        @OptionGroup var output: OutputOptions
        @Flag(help: "Write the names alone, one a line.")
        var names = false

        func run() throws {
            let file = try ContextFile()
            guard !self.names else {
                for name in file.contexts.keys.sorted() { Console.data(name) }
                return
            }
            var table = TextTable(["", "CONTEXT", "REDIS", "CONFIGURATION"])
            var rows: [JSONValue] = []
            for (name, context) in file.contexts.sorted(by: { $0.key < $1.key }) {
                let place = context.shownRedis
                table.add([name == file.current ? "*" : "", name, place ?? "", context.config ?? ""])
                var row: JSONObject = ["name": .string(name), "in_use": .bool(name == file.current)]
                if let place { row["redis"] = .string(place) }
                if let config = context.config { row["config"] = .string(config) }
                rows.append(.object(row))
            }
            if rows.isEmpty { Console.message("there are none yet: apus context add") }
            self.output.write(["contexts": .array(rows)], else: rows.isEmpty ? [] : table.lines)
        }
    }

    /// Removes a context (`apus context remove`).
    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Remove a context.")

        @Argument(help: "The context.")
        var name: String

        func run() throws {
            var file = try ContextFile()
            _ = try file.context(self.name)
            file.contexts[self.name] = nil
            if file.current == self.name { file.current = nil }
            try file.save()
        }
    }

    private static func name(_ text: String) throws -> String {
        let isName =
            (1...64).contains(text.utf8.count)
            && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || ".-_".contains($0)) }
        guard isName else { throw ValidationError("a context's name is 1 to 64 letters, digits, and . _ -") }
        return text
    }

    /// Returns a path that means the same wherever a command is run.
    private static func absolute(_ path: String) -> String {
        path.hasPrefix("/") ? path : "\(FileManager.default.currentDirectoryPath)/\(path)"
    }
}
