import ApusCommand
import ApusStreams
import ApusTerminal
import ArgumentParser

/// Changes the rate of a send or a route (`apus rate`).
struct Rate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Change the rate of a send, or of a route.",
        usage: """
            apus rate <send> <per-second> [--app <app>]
            apus rate --route <app/provider[/environment]> <per-second>|default
            """,
        discussion: """
            The rate is for all dispatchers together. A send's rate applies in addition to those of its routes; a \
            route's takes precedence over the one in the configuration, until "default" restores the configured \
            one.
            """,
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Option(help: "The app; by default any app that has the send.")
    var app: String?
    @Option(help: "A route instead of a send: app/provider, or app/provider/environment.")
    var route: String?
    @Argument(help: "The send's id, unless a route is named; then recipients per second, 0 for no limit.")
    var words: [String]

    /// The rate that is asked for.
    private enum RequestedRate {
        /// So many recipients per second; 0 for no limit.
        case perSecond(UInt32)
        /// The rate of the configuration, of a route.
        case byConfiguration
    }

    private func requestedRate() throws -> RequestedRate {
        guard self.words.count == (self.route == nil ? 2 : 1), let word = self.words.last else {
            throw ValidationError("Name a send and its rate, or --route and its rate.")
        }
        if self.route != nil, word == "default" { return .byConfiguration }
        guard let perSecond = UInt32(word) else {
            throw ValidationError("\"\(word)\" is not a number of recipients per second.")
        }
        return .perSecond(perSecond)
    }

    private var target: ControlledTarget {
        var target = ControlledTarget()
        target.app = self.app
        target.route = self.route
        target.send = self.route == nil ? self.words.first : nil
        return target
    }

    func validate() throws {
        _ = try self.requestedRate()
        try self.target.validate()
    }

    func run() async throws {
        switch try self.requestedRate() {
        case .byConfiguration:
            try await self.target.control(.rate(0), orRoute: .defaultRate, self.redis, self.output)
        case .perSecond(let perSecond):
            let order = RouteControlCommand.rate(perSecond > 0 ? Double(perSecond) : nil)
            try await self.target.control(.rate(perSecond), orRoute: order, self.redis, self.output)
        }
    }
}
