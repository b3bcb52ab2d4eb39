import ApusCommand
import ApusConsole
import ApusCore
import ApusInstallation
import ApusStreams
import ArgumentParser

/// The arguments that name a send or a route to control.
struct ControlledTarget: ParsableArguments {
    @Argument(help: "The send's id.")
    var send: String?
    @Option(help: "The app; without, whichever app's send it is.")
    var app: String?
    @Option(help: "A route instead of a send: app/provider, or app/provider/environment.")
    var route: String?

    /// What is steered.
    enum Target {
        case send(String)
        case route(String)
    }

    /// What is steered: exactly one thing.
    func target() throws -> Target {
        switch (self.send, self.route) {
        case (let send?, nil): return .send(send)
        case (nil, let route?) where self.app == nil: return .route(route)
        case (nil, _?): throw ValidationError("A route names its app itself: leave --app out.")
        case (_?, _?): throw ValidationError("Name a send or a route, not both.")
        case (nil, nil): throw ValidationError("Name a send, or a route with --route.")
        }
    }

    /// Does what is wished of the send or the route and writes how it stands then.
    func steer(
        _ wish: SendControlCommand,
        orRoute order: RouteControlCommand,
        _ redis: RedisOptions,
        _ output: OutputOptions,
    ) async throws {
        let target = try self.target()
        try await RedisAccess.withInstallation(redis.url) { installation in
            switch target {
            case .send(let send):
                let report = try await SendControlReport(installation.streams, app: self.app, send: send).perform(wish)
                output.write(report.json, else: [report.line])
            case .route(let route):
                let rows = try await RouteControlReport(installation.streams).perform(order, on: route)
                output.write(
                    ["routes": .array(rows.map { .object($0.json) })],
                    else: RouteControlReport.table(rows).lines
                )
            }
        }
    }
}
