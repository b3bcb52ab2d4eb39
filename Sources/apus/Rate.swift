import ApusCommand
import ApusConsole
import ApusStreams
import ArgumentParser

/// `apus rate`: changes how fast a send or a route goes.
struct Rate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Change how fast a send, or a route, goes.",
        usage: """
            apus rate <send> <per-second> [--app <app>]
            apus rate --route <app/provider[/environment]> <per-second>|standard
            """,
        discussion: """
            The rate is the whole fleet's. A send's holds beside those of its routes; a route's comes before the one in \
            the configuration, until "standard" gives that its place back.
            """,
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Option(help: "The app; without, whichever app's send it is.")
    var app: String?
    @Option(help: "A route instead of a send: app/provider, or app/provider/environment.")
    var route: String?
    @Argument(help: "The send's id, unless a route is named; then recipients per second, 0 for as many as can be.")
    var words: [String]

    func run() async throws {
        var target = ControlledTarget()
        target.app = self.app
        target.route = self.route
        target.send = self.route == nil ? self.words.first : nil
        guard self.words.count == (self.route == nil ? 2 : 1), let word = self.words.last else {
            throw ValidationError("Name a send and its rate, or --route and its rate.")
        }
        if self.route != nil, word == "standard" {
            return try await target.steer(.rate(0), orRoute: .defaultRate, self.redis, self.output)
        }
        guard let perSecond = UInt32(word) else {
            throw ValidationError("\"\(word)\" is no number of recipients per second.")
        }
        let order = RouteControlCommand.rate(perSecond > 0 ? Double(perSecond) : nil)
        try await target.steer(.rate(perSecond), orRoute: order, self.redis, self.output)
    }
}
