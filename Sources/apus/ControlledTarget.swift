import ApusCommand
import ApusCore
import ApusInstallation
import ApusStreams
import ApusTerminal
import ArgumentParser

/// The arguments that name a send or a route to control.
struct ControlledTarget: ParsableArguments {
    @Argument(help: "The send's id.")
    var send: String?
    @Option(help: "The app; by default any app that has the send.")
    var app: String?
    @Option(help: "A route instead of a send: app/provider, or app/provider/environment.")
    var route: String?

    /// The controlled object.
    enum Target {
        case send(String)
        case route(String)
    }

    /// Returns the controlled object, of which there must be exactly one.
    func target() throws -> Target {
        switch (self.send, self.route) {
        case (let send?, nil): return .send(send)
        case (nil, let route?) where self.app == nil: return .route(route)
        case (nil, _?): throw ValidationError("A route contains its app: omit --app.")
        case (_?, _?): throw ValidationError("Name a send or a route, not both.")
        case (nil, nil): throw ValidationError("Name a send, or a route with --route.")
        }
    }

    /// Checks that there is exactly one, so that the usage of the command itself is shown where there is not.
    func validate() throws { _ = try self.target() }

    /// Performs a command on the send or the route and prints its state afterwards.
    func control(
        _ command: SendControlCommand,
        orRoute routeCommand: RouteControlCommand,
        _ redis: RedisOptions,
        _ output: OutputOptions,
    ) async throws {
        let target = try self.target()
        try await RedisAccess.withInstallation(redis) { installation in
            switch target {
            case .send(let send):
                let report = try await SendControlReport(installation.streams, app: self.app, send: send).perform(
                    command,
                    by: .shell
                )
                output.write(report.json, else: [report.line])
            case .route(let route):
                let rows = try await RouteControlReport(installation.streams).perform(
                    routeCommand,
                    on: route,
                    by: .shell
                )
                output.write(
                    ["routes": .array(rows.map { .object($0.json) })],
                    else: RouteControlReport.table(rows).lines
                )
            }
        }
    }
}
