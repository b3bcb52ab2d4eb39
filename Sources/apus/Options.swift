import ApusCommand
import ApusCore
import ArgumentParser

/// Which Redis.
struct RedisOptions: ParsableArguments {
    @Option(help: "Redis: redis://, rediss:// or unix:///path. Default: $APUS_REDIS_URL, else redis://127.0.0.1:6379.")
    var redis: String?

    var url: String { RedisAccess.url(self.redis) }
}

/// How data is written.
struct OutputOptions: ParsableArguments {
    @Flag(help: "Write the data as JSON.")
    var json = false

    /// Writes JSON if it is wanted, else the lines.
    func write(_ json: @autoclosure () -> JSONObject, else lines: @autoclosure () -> [String]) {
        if self.json {
            Console.data(JSONValue.object(json()).text)
        } else {
            for line in lines() { Console.data(line) }
        }
    }
}
