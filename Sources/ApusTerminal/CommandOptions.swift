package import ApusCore
package import ApusService
package import ApusStreams
package import ArgumentParser
internal import FoundationEssentials

/// Parses the options that name an installation: its Redis, and the configuration of its services.
package struct RedisOptions: ParsableArguments {
    @Option(
        help: """
            Redis: redis://, rediss:// (TLS), unix:///path, redis+cluster:// or redis+sentinel://. Default: the context's or \
            the configuration's.
            """
    )
    package var redis: String?
    @Option(
        help: "The context: see apus context. Default: $APUS_CONTEXT, else the one in use.",
        completion: .shellCommand("apus context list --names")
    )
    package var context: String?
    @Option(
        help: """
            The services' configuration. Default: that of --context, else $APUS_CONFIG, else that of the context in use, else \
            /etc/apus/apus.yaml. Beside --redis, and beside a context that names none, there is no default.
            """,
        completion: .file()
    )
    package var config: String?

    /// Creates the options without values.
    package init() {}

    /// Decides which Redis is meant.
    package func choice() throws(CommandFailure) -> RedisChoice {
        let choice = try RedisChoice(
            redis: self.redis,
            context: self.context,
            config: self.config,
            environment: ProcessInfo.processInfo.environment
        )
        if let note = choice.note { Console.message(once: note) }
        return choice
    }

    /// Returns the services' configuration.
    ///
    /// - Throws: `CommandFailure` when there is no such context.
    package func settings() throws(CommandFailure) -> SettingsSource { try self.choice().settings }
}

/// Parses the options that name the services' configuration, for commands that need no Redis.
package struct ConfigurationOptions: ParsableArguments {
    @Option(
        help: """
            The services' configuration. Default: that of --context, else $APUS_CONFIG, else that of the context in use, else \
            /etc/apus/apus.yaml. Beside a context that names none there is no default.
            """,
        completion: .file()
    )
    package var config: String?
    @Option(
        help: "The context: see apus context. Default: $APUS_CONTEXT, else the one in use.",
        completion: .shellCommand("apus context list --names")
    )
    package var context: String?

    /// Creates the options without values.
    package init() {}

    /// Returns the services' configuration.
    ///
    /// - Throws: `CommandFailure` when there is no such context.
    package func settings() throws(CommandFailure) -> SettingsSource {
        let environment = ProcessInfo.processInfo.environment
        return try RedisChoice(redis: nil, context: self.context, config: self.config, environment: environment)
            .settings
    }
}

/// Parses the option that chooses the form of the output.
package struct OutputOptions: ParsableArguments {
    @Flag(help: "Write the data as JSON.")
    package var json = false

    /// Creates the option for text output.
    package init() {}

    /// Writes JSON if it was requested, otherwise the lines.
    package func write(_ json: @autoclosure () -> JSONObject, else lines: @autoclosure () -> [String]) {
        if self.json {
            Console.data(JSONValue.object(json()).text)
        } else {
            Console.data(lines())
        }
    }
}

extension Operator {
    /// The user of this process, as "user@host".
    package static let shell: Operator = {
        let environment = ProcessInfo.processInfo.environment
        let user = environment["USER"] ?? environment["LOGNAME"] ?? ProcessInfo.processInfo.userName
        return Operator("\(user)@\(ProcessInfo.processInfo.hostName)", through: .commandLine)
    }()
}
