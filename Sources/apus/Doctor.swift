import ApusCommand
import ApusConsole
import ArgumentParser

/// `apus doctor`: what is not as it should be.
struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Tell what is wrong with Redis, the configuration or what services connect to, and its cure.",
        discussion: """
            Changes nothing. Of Redis: whether it answers, its version, what it does when it is full, how full it is, what \
            survives its restart, whether it is the primary, connections, clock, and Apus' functions. Of the configuration: \
            what each service would say to it, and whether key files, certificates and providers' credentials are good. \
            Of others: whether the webhook and the collector of traces take connections.

            Redis is that of --redis, else of $APUS_REDIS_URL, else of the configuration. Exit code 1 if anything fails; \
            warnings do not count.
            """,
    )

    @Option(help: "Redis: redis://, rediss:// or unix:///path. Default: $APUS_REDIS_URL, else the configuration's.")
    var redis: String?
    @Option(help: "The configuration; else $APUS_CONFIG, else /etc/apus/apus.yaml.")
    var config: String?
    @Flag(help: "Ask Redis and read files, but ask nobody else.")
    var offline = false
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let examination = Examination(
            source: Examination.source(file: self.config),
            redis: self.redis ?? Console.variable(RedisAccess.variable),
            asksOthers: !self.offline,
        )
        let diagnosis = await examination.run()
        self.output.write(diagnosis.json, else: diagnosis.lines)
        guard diagnosis.count(.fail) == 0 else { throw ExitCode(CommandExit.failed) }
    }
}
