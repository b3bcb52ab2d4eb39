package import ApusCore
package import ArgumentParser

/// Parses the option that names Redis.
package struct RedisOptions: ParsableArguments {
    @Option(
        help: """
            Redis: redis://, rediss:// (TLS), unix:///path, redis+cluster:// or redis+sentinel://. Default: $APUS_REDIS_URL, \
            else redis://127.0.0.1:6379.
            """
    )
    package var redis: String?

    /// The given address, otherwise the environment's, otherwise the default one.
    package var url: String { RedisAccess.url(self.redis) }

    /// Creates the option without an address.
    package init() {}
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
            for line in lines() { Console.data(line) }
        }
    }
}
