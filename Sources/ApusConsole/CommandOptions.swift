package import ApusCore
package import ArgumentParser

/// The option that names Redis.
package struct RedisOptions: ParsableArguments {
    @Option(help: "Redis: redis://, rediss:// or unix:///path. Default: $APUS_REDIS_URL, else redis://127.0.0.1:6379.")
    package var redis: String?

    /// The address that was given, else the environment's, else the default one.
    package var url: String { RedisAccess.url(self.redis) }

    /// Creates the option without an address.
    package init() {}
}

/// The option that chooses the form of the data.
package struct OutputOptions: ParsableArguments {
    @Flag(help: "Write the data as JSON.")
    package var json = false

    /// Lines for people.
    package init() {}

    /// Writes JSON if it is wanted, else the lines.
    package func write(_ json: @autoclosure () -> JSONObject, else lines: @autoclosure () -> [String]) {
        if self.json {
            Console.data(JSONValue.object(json()).text)
        } else {
            for line in lines() { Console.data(line) }
        }
    }
}
